"""The functions of `cutlass_ext.gemm`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cutlass_ext._eager import Launches, is_plain, metadata
from cutlass_ext.gemm import device, ops
from cutlass_ext.gemm.problem import Options, check, make_options, make_problem, output_shape

_launches = Launches()


def chained_gemm(
    a: torch.Tensor,
    b0: torch.Tensor,
    b1: torch.Tensor,
    *,
    bias0: torch.Tensor | None = None,
    activation: str = "identity",
    source: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
    op: str | None = None,
) -> torch.Tensor:
    """`alpha * (activation(a @ b0 + bias0) @ b1) + beta * source` in one kernel.

    The intermediate never goes to memory: the kernel reads `a` and writes the output once.

    a           `[M, K0]`, or `[B, M, K0]`
    b0, b1      `[K0, N0]`, `[N0, N1]`, each with or without the batch dimension
    bias0       `[N0]` or `[B, N0]`, of a's dtype
    activation  "identity", "relu", "gelu" (by the error function) or "silu"
    source      `[M, N1]` or `[B, M, N1]`
    output_dtype  default: a's
    precision   of float32 products: "ieee", "tf32x3" (float32-accurate), "tf32"; None takes "tf32"
                where `torch.get_float32_matmul_precision()` allows it, else "tf32x3"
    op          None (the fastest that serves), "registers" or "shared" (where our kernels keep the
                intermediate), "host" (our kernels run on the CPU), "torch" (PyTorch's operations)

    Products are accumulated, bias and activation taken in float32; the intermediate is rounded to
    a's dtype once. Any sizes, zero too. float16, bfloat16, float32; float64 by PyTorch. Rows of
    whole 16-byte vectors are fastest. Differentiable: the backward runs PyTorch's operations.

    ValueError where the input is wrong; NotImplementedError where the named `op` can't serve.
    """
    tensors = (a, b0, b1, bias0, source)
    used = (*tensors[:4], source if beta != 0.0 else None)
    arguments = (activation, float(alpha), float(beta), output_dtype, precision)
    signature = _signature(tensors, arguments, op)
    launch = _launches.find(signature)
    if launch is not None:
        return launch(*used)
    check(*tensors, beta)
    options = make_options(a, *arguments)
    _check_op(op)
    launch = _prepare(used, output_shape(*tensors), options, op) if signature else None
    if launch is not None:
        _launches.keep(signature, launch)
        return launch(*used)
    return torch.ops.cutlass_ext.chained_gemm(
        *(a, b0, b1, bias0, source, options.activation, options.alpha, options.beta),
        *(options.output_dtype, options.precision, op),
    )


def grouped_chained_gemm(
    a: Sequence[torch.Tensor],
    b0: Sequence[torch.Tensor],
    b1: Sequence[torch.Tensor],
    *,
    bias0: Sequence[torch.Tensor] | None = None,
    activation: str = "identity",
    source: Sequence[torch.Tensor] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
    op: str | None = None,
) -> list[torch.Tensor]:
    """`chained_gemm` for a list of problems of any sizes, in one launch.

    Sequences of equal length; tensors without a batch dimension, the same dtypes and device in
    every problem. Where autograd needs gradients, the problems run one after another. Outputs may
    be views of one tensor.
    """
    arguments = (activation, float(alpha), float(beta), output_dtype, precision)
    _check_op(op)
    problems = _listed(a, b0, b1, bias0, source)
    if not problems:
        return []
    signature = _signature([t for tensors in problems for t in tensors], arguments, op, "grouped")
    launch = _launches.find(signature)
    used = problems if beta != 0.0 else [(*tensors[:4], None) for tensors in problems]
    if launch is not None:
        return launch(*used)
    for index, tensors in enumerate(problems):
        try:
            check(*tensors, beta)
        except ValueError as error:
            raise ValueError(f"problem {index}: {error}") from None
        _check_alike(index, tensors, problems[0])
    options = make_options(a[0], *arguments)
    every = [t for tensors in used for t in tensors if t is not None]
    needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in every)
    chosen = ops.chosen_op(every, _dtype_of(used[0][4]), options, op)
    if needs_grad or chosen == "torch":
        return [
            torch.ops.cutlass_ext.chained_gemm(
                *tensors, options.activation, alpha, beta, options.output_dtype, options.precision,
                chosen,
            )
            for tensors in problems
        ]  # fmt: skip
    prepared = [device.with_contiguous_rows(make_problem(*tensors)) for tensors in used]
    launch = device.prepare_grouped(prepared, options, chosen)
    if signature is not None and all(map(device.has_contiguous_rows, every)):
        _launches.keep(signature, launch)
    return launch(*prepared)


def _listed(a, b0, b1, bias0, source) -> list[tuple]:
    """The problems' tensors, from a sequence for each operand."""
    for name, tensors in {"b0": b0, "b1": b1, "bias0": bias0, "source": source}.items():
        if tensors is not None and len(tensors) != len(a):
            raise ValueError(f"a has {len(a)} tensors and {name} {len(tensors)}: give as many.")
    absent = [None] * len(a)
    return list(zip(a, b0, b1, bias0 or absent, source or absent, strict=True))


def _signature(
    tensors: Sequence[torch.Tensor | None], arguments: tuple, *options: str | None
) -> tuple | None:
    """What the launch depends on, hashable; None for a call that is not plain."""
    if not is_plain([t for t in tensors if t is not None]):
        return None
    return metadata(tensors), arguments, options, torch.get_float32_matmul_precision()


def _prepare(
    tensors: tuple, shape: tuple[int, ...], options: Options, op: str | None
) -> Callable[..., torch.Tensor] | None:
    """The launch for a call with these tensors; None where the operator has to serve it."""
    present = [t for t in tensors if t is not None]
    chosen = ops.chosen_op(present, _dtype_of(tensors[4]), options, op)
    if chosen == "torch" or 0 in shape or not all(map(device.has_contiguous_rows, present)):
        return None
    return device.prepare(make_problem(*tensors), options, chosen, shape)


def _dtype_of(tensor: torch.Tensor | None) -> torch.dtype | None:
    return None if tensor is None else tensor.dtype


def _check_op(op: str | None) -> None:
    if op is not None and op not in ops.OPS:
        raise ValueError(f"op is {op!r}: pass None, 'registers', 'shared', 'host' or 'torch'.")


def _check_alike(index: int, tensors: tuple, first: tuple) -> None:
    if any(
        t is not None and t.dim() > matrix
        for t, matrix in zip(tensors, (2, 2, 2, 1, 2), strict=True)
    ):  # noqa: E501
        raise ValueError(
            f"problem {index} has a batch dimension: make each of its problems one of the list."
        )
    for t, other in zip(tensors, first, strict=True):
        if t is not None and (t.dtype, t.device) != (other.dtype, other.device):
            raise ValueError(
                f"problem {index} is {t.dtype} on {t.device} and problem 0 {other.dtype} on "
                f"{other.device}: give all the same."
            )
