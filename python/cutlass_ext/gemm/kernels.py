"""Kernel specs of chained products: which instance serves a problem, and the source that names it.

The instances are those of `cutlass_ext/gemm/kernel/chained_gemm_*.h`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cutlass_ext.jit import KernelSpec

ACTIVATIONS = ("identity", "relu", "gelu", "silu")
"""In the order of `epilogue::thread::ActivationKind`."""

PRECISIONS = ("ieee", "tf32x3", "tf32")
"""Of float32 products."""

_ELEMENTS = {
    torch.float16: "cutlass::half_t",
    torch.bfloat16: "cutlass::bfloat16_t",
    torch.float32: "float",
}
_SHORT_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
_ARITHMETIC = {"ieee": "SimtFloat", "tf32x3": "TensorOpTf32x3", "tf32": "TensorOpTf32"}
_NAMESPACE = "cutlass_ext::gemm::kernel::"
# Rows of b0 that instances hold, where the intermediate has up to 64 columns, and up to 128.
_RESIDENT_K0 = ((64, 128, 576), (128,))
# Streamed instances spill at -O3, which hoists more than there are registers for.
_PTXAS_FLAGS = ("-Xptxas=-O2",)


@dataclass(frozen=True)
class Instance:
    """A kernel of the chained product.

    registers    whether the intermediate stays in registers; else it goes through shared memory
    n0, n1       columns of the intermediate at a time, and of an output tile
    any_n0       whether the intermediate may have more than `n0` columns
    k0           rows of b0 that stay in shared memory from tile to tile; 0: any k0, streamed
    alignment    elements that rows are aligned to
    late         whether the next tile's first loads wait until this one is stored: to compare with
    """

    dtype: torch.dtype
    output_dtype: torch.dtype
    precision: str | None
    registers: bool
    n0: int
    n1: int
    any_n0: bool
    k0: int
    alignment: int
    late: bool = False

    @property
    def type(self) -> str:
        """The C++ type."""
        output = _ELEMENTS[self.output_dtype]
        if not self.registers:
            arithmetic = (
                _NAMESPACE + _ARITHMETIC[self.precision]
                if self.precision
                else f"{_NAMESPACE}TensorOp16<{_ELEMENTS[self.dtype]}>"
            )
            config = (
                f"{_NAMESPACE}ChainedGemmSharedConfig<{arithmetic}, {output}, {self.n1}, "
                f"{str(self.any_n0).lower()}, {self.alignment}>"
            )
        else:
            config = (
                f"{_NAMESPACE}ChainedGemmRegistersConfig<{_ELEMENTS[self.dtype]}, {output}, "
                f"{self.n0}, {self.n1}, {str(self.any_n0).lower()}, {self.k0}, {self.alignment}>"
            )
        if self.late:
            config = f"{_NAMESPACE}LatePrologue<{config}>"
        kernel = "ChainedGemmRegistersKernel" if self.registers else "ChainedGemmSharedKernel"
        return f"{_NAMESPACE}{kernel}<{config}>"

    @property
    def name(self) -> str:
        """Names its library."""
        parts = ["registers" if self.registers else "shared", _SHORT_NAMES[self.dtype]]
        parts += [self.precision] if self.precision else []
        if self.output_dtype != self.dtype:
            parts.append(f"to_{_SHORT_NAMES[self.output_dtype]}")
        parts.append(f"{self.n0}{'n' if self.any_n0 else ''}x{self.n1}")
        parts += [f"k{self.k0}"] if self.k0 else []
        parts += ["late"] if self.late else []
        return "_".join([*parts, f"alignment_{self.alignment}"])


def alignments(dtype: torch.dtype, precision: str | None, registers: bool) -> tuple[int, ...]:
    """Those that there are instances for, in descending order."""
    if dtype != torch.float32:
        return (8, 4, 2, 1) if registers else (8,)
    return (1,) if precision == "ieee" else (4, 1)


def choose(
    dtype: torch.dtype,
    output_dtype: torch.dtype,
    precision: str | None,
    registers: bool,
    alignment: int,
    n0: int,
    k0: int,
    n1: int,
) -> Instance:
    """The fastest instance for problems of at most these extents.

    `alignment` is one of `alignments()`.
    """
    wide = n1 > 64
    if not registers:
        return Instance(
            *(dtype, output_dtype, precision, False, 64),
            n1=128 if wide else 64,
            any_n0=n0 > 64,
            k0=0,
            alignment=alignment,
        )
    held = _RESIDENT_K0[n0 > 64] if alignment == 8 and n0 <= 128 else ()
    resident = next((rows for rows in held if rows >= k0), 0)
    # Chunks keep the output's accumulators in registers beside the intermediate's: narrow tiles.
    # So do narrower alignments, whose iterators need more registers.
    any_n0 = alignment < 8 or (n0 > 64 and not resident)
    return Instance(
        *(dtype, output_dtype, precision, True),
        n0=128 if n0 > 64 and resident else 64,
        n1=128 if wide and not any_n0 else 64,
        any_n0=any_n0,
        k0=resident,
        alignment=alignment,
    )


def source(instances: dict[str, Instance]) -> str:
    """A translation unit that exports `<name>` and `<name>_grouped` for each instance."""
    lines = ['#include "cutlass_ext/gemm/device/chained_gemm_call.h"']
    for name, instance in instances.items():
        for suffix, function in (("", "chained_gemm"), ("_grouped", "grouped_chained_gemm")):
            lines.append(
                f"CUTLASS_EXT_EXPORT char const *{name}{suffix}(cutlass_ext::Word const *words, "
                "int count, void *stream) {\n"
                f"  return cutlass_ext::gemm::device::{function}<\n      {instance.type}>(\n"
                "      words, count, stream);\n}"
            )
    return "\n".join(lines) + "\n"


def spec(instance: Instance, target: str, mode: str = "plain") -> KernelSpec:
    """The library of one instance, which exports `run` and `run_grouped`."""
    gpu = target != "host"
    return KernelSpec(
        name=f"chained_gemm_{instance.name}",
        source=source({"run": instance}),
        target=target,
        mode=mode,
        flags=_PTXAS_FLAGS if instance.registers and not instance.k0 and gpu else (),
    )
