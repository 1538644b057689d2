"""Kernel specs of attention: which instance serves a problem, and the source that names it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cutlass_ext.jit import KernelSpec

_ELEMENTS = {torch.float16: "cutlass::half_t", torch.bfloat16: "cutlass::bfloat16_t"}
_SHORT_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
_VECTOR_BYTES = 16
# At -O3 ptxas moves all exponentials of a key block above the value product; see
# docs/performance/forward_sm80.md.
_PTXAS_FLAGS = {32: ("-Xptxas=-O2",), 64: ("-Xptxas=-O2",)}


@dataclass(frozen=True)
class Template:
    """A kernel template of `fmha/forward.h`.

    family       `simt` or `sm80`
    precision    of float32 products; None for 16-bit operands
    head_dims    values of kHeadDim, ascending
    has_aligned  whether there is an instance for 16-byte aligned rows
    """

    family: str
    precision: str | None
    head_dims: tuple[int, ...]
    has_aligned: bool

    def instance(self, dtype: torch.dtype, head_dim: int, aligned: bool) -> str:
        """The C++ type."""
        access = f"fmha::Access::{'kAligned' if aligned else 'kElement'}"
        if self.precision == "ieee":
            return f"fmha::ForwardSimt<{head_dim}>"
        if self.precision == "tf32x3":
            return f"fmha::ForwardTf32x3<{head_dim}, {access}>"
        return f"fmha::ForwardSm80<{_ELEMENTS[dtype]}, {head_dim}, {access}>"


SIMT = Template("simt", "ieee", (32, 64, 128), has_aligned=False)
TF32X3 = Template("sm80", "tf32x3", (32, 64, 128), has_aligned=True)
SM80 = Template("sm80", None, (32, 64, 96, 128), has_aligned=True)
TEMPLATES = (SIMT, TF32X3, SM80)


def dtypes(template: Template) -> tuple[torch.dtype, ...]:
    """Operand types of a template."""
    return (torch.float32,) if template.precision else (torch.float16, torch.bfloat16)


def head_dim_class(template: Template, head_dim: int) -> int:
    """The smallest instance that holds `head_dim` columns, which is at most the largest's."""
    return next(size for size in template.head_dims if size >= head_dim)


def symbol(head_dim: int) -> str:
    """The exported function of an instance."""
    return f"forward_{head_dim}"


def is_aligned(tensor: torch.Tensor) -> bool:
    """Whether the rows of a `[B, M, H, K]` tensor are whole 16-byte vectors at multiples of 16."""
    vector = _VECTOR_BYTES // tensor.element_size()
    return (
        tensor.data_ptr() % _VECTOR_BYTES == 0
        and tensor.stride(3) == 1
        and tensor.shape[3] % vector == 0
        and all(
            stride % vector == 0 or size == 1
            for size, stride in zip(tensor.shape[:3], tensor.stride()[:3], strict=True)
        )
    )


def spec(
    template: Template,
    dtype: torch.dtype,
    head_dims: tuple[int, ...],
    aligned: bool,
    target: str,
    mode: str = "plain",
) -> KernelSpec:
    """The library of a template's instances for `head_dims`.

    A GPU gets a library an instance, since the compiler takes seconds for each; the host gets all
    of a dtype together, since there the headers cost more than the instances.
    """
    aligned = aligned and template.has_aligned
    lines = ['#include "fmha/forward.h"']
    lines += [
        f"CUTLASS_EXT_EXPORT char const *{symbol(size)}(fmha::ForwardParams const *params, "
        "void *stream) {\n"
        f"  return fmha::forward<{template.instance(dtype, size, aligned)}>(*params, stream);\n"
        "}"
        for size in head_dims
    ]
    variant = template.precision or _SHORT_NAMES[dtype]
    sizes = "" if head_dims == template.head_dims else "_" + "_".join(map(str, head_dims))
    access = "" if not template.has_aligned else "_aligned" if aligned else "_element"
    flags = _PTXAS_FLAGS.get(head_dims[0], ()) if template is SM80 and target != "host" else ()
    return KernelSpec(
        name=f"attention_forward_{template.family}_{variant}{sizes}{access}",
        source="\n".join(lines) + "\n",
        target=target,
        mode=mode,
        flags=flags,
    )


def all_specs(target: str, mode: str = "plain") -> list[KernelSpec]:
    """Every forward library for a target."""
    return [
        spec(template, dtype, sizes, aligned, target, mode)
        for template in TEMPLATES
        for dtype in dtypes(template)
        for aligned in ((True, False) if template.has_aligned else (False,))
        for sizes in (
            [template.head_dims] if target == "host" else [(size,) for size in template.head_dims]
        )
    ]
