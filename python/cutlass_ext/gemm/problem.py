"""One chained product as kernels see it: checked, with a batch dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from cutlass_ext.gemm.kernels import ACTIVATIONS, PRECISIONS

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Options:
    """What the problems of a call share.

    precision   of float32 products; None for other dtypes
    """

    activation: str
    alpha: float
    beta: float
    output_dtype: torch.dtype
    precision: str | None


class Problem(NamedTuple):
    """`[B, M, K0]`, `[B, K0, N0]`, `[B, N0, N1]`, `[B, N0]`, `[B, M, N1]`; B is 1 where problems of
    a batch share a tensor."""

    a: torch.Tensor
    b0: torch.Tensor
    b1: torch.Tensor
    bias0: torch.Tensor | None
    source: torch.Tensor | None

    @property
    def batch(self) -> int:
        """Problems."""
        return max(t.shape[0] for t in self if t is not None)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """M, N0, K0, N1, as kernels order them."""
        return self.a.shape[1], self.b0.shape[2], self.a.shape[2], self.b1.shape[2]


def make_options(
    a: torch.Tensor,
    activation: str,
    alpha: float,
    beta: float,
    output_dtype: torch.dtype | None,
    precision: str | None,
) -> Options:
    """Checks the options of a call; ValueError says what was given and what to write."""
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation is {activation!r}: pass 'identity', 'relu', 'gelu' or 'silu'."
        )
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(
            f"precision is {precision!r}: pass 'ieee', 'tf32x3', 'tf32' or None for the default."
        )
    if precision is not None and a.dtype != torch.float32:
        raise ValueError(
            f"precision is {precision!r} and the tensors are {name_of(a.dtype)}: precision is for "
            "float32; pass precision=None."
        )
    if a.dtype == torch.float32 and precision is None:
        allowed = torch.get_float32_matmul_precision() != "highest"
        precision = "tf32" if allowed else "tf32x3"
    output_dtype = output_dtype or a.dtype
    if output_dtype not in _DTYPES:
        raise ValueError(
            f"output_dtype is {name_of(output_dtype)}: pass float16, bfloat16, float32 or float64."
        )
    return Options(activation, float(alpha), float(beta), output_dtype, precision)


def check(
    a: torch.Tensor,
    b0: torch.Tensor,
    b1: torch.Tensor,
    bias0: torch.Tensor | None,
    source: torch.Tensor | None,
    beta: float,
) -> None:
    """ValueError where tensors do not fit each other."""
    given = {"a": a, "b0": b0, "b1": b1}
    given |= {name: t for name, t in (("bias0", bias0), ("source", source)) if t is not None}
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is a {type(tensor).__name__}: pass a torch.Tensor.")
        matrix = 1 if name == "bias0" else 2
        if tensor.dim() not in (matrix, matrix + 1):
            raise ValueError(
                f"{name} has {tensor.dim()} dimensions: pass {matrix}, or {matrix + 1} with a "
                "batch dimension in front."
            )
        if tensor.device != a.device:
            raise ValueError(
                f"a is on {a.device} and {name} on {tensor.device}: move them to one device."
            )
        if name != "source" and tensor.dtype != a.dtype:
            raise ValueError(
                f"a is {name_of(a.dtype)} and {name} {name_of(tensor.dtype)}: convert one of them."
            )
    if a.dtype not in _DTYPES:
        raise ValueError(
            f"the tensors are {name_of(a.dtype)}: pass float16, bfloat16, float32 or float64."
        )
    if source is None and beta != 0.0:
        raise ValueError(f"beta is {beta} and there is no source: pass source, or beta=0.0.")
    m, k0 = a.shape[-2:]
    n0, n1 = b0.shape[-1], b1.shape[-1]
    _check_shape("b0", b0, (k0, n0), f"a is [..., {m}, {k0}]")
    _check_shape("b1", b1, (n0, n1), f"b0 is [..., {k0}, {n0}]")
    if bias0 is not None:
        _check_shape("bias0", bias0, (n0,), f"b0 is [..., {k0}, {n0}]")
    if source is not None:
        _check_shape("source", source, (m, n1), f"the output is [..., {m}, {n1}]")
    batches = {
        name: t.shape[0] for name, t in given.items() if t.dim() == (2 if name == "bias0" else 3)
    }
    if len(set(batches.values())) > 1:
        sizes = ", ".join(f"{name} {size}" for name, size in batches.items())
        raise ValueError(f"batch sizes differ ({sizes}): give all the same, or no batch dimension.")


def make_problem(
    a: torch.Tensor,
    b0: torch.Tensor,
    b1: torch.Tensor,
    bias0: torch.Tensor | None,
    source: torch.Tensor | None,
) -> Problem:
    """Checked tensors with their batch dimension; a batch that shares its weights becomes one
    problem of all rows where strides allow it."""
    shares_weights = b0.dim() == 2 and b1.dim() == 2 and (bias0 is None or bias0.dim() == 1)
    if a.dim() == 3 and shares_weights and _is_flat(a) and (source is None or _is_flat(source)):
        a = a.flatten(0, 1)
        source = None if source is None else source.flatten(0, 1)

    def batched(tensor: torch.Tensor | None, matrix: int) -> torch.Tensor | None:
        return tensor.unsqueeze(0) if tensor is not None and tensor.dim() == matrix else tensor

    return Problem(
        batched(a, 2), batched(b0, 2), batched(b1, 2), batched(bias0, 1), batched(source, 2)
    )


def output_shape(
    a: torch.Tensor,
    b0: torch.Tensor,
    b1: torch.Tensor,
    bias0: torch.Tensor | None,
    source: torch.Tensor | None,
) -> tuple[int, ...]:
    """`(M, N1)`, after the batch size if any tensor has one."""
    batch = [t.shape[0] for t in (a, b0, b1) if t.dim() == 3]
    batch += [bias0.shape[0]] if bias0 is not None and bias0.dim() == 2 else []
    batch += [source.shape[0]] if source is not None and source.dim() == 3 else []
    return (*batch[:1], a.shape[-2], b1.shape[-1])


def name_of(dtype: torch.dtype) -> str:
    """Without `torch.`"""
    return str(dtype).removeprefix("torch.")


def _is_flat(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 3 and (
        tensor.shape[0] == 1 or tensor.stride(0) == tensor.shape[1] * tensor.stride(1)
    )


def _check_shape(name: str, tensor: torch.Tensor, expected: tuple[int, ...], why: str) -> None:
    if tuple(tensor.shape[-len(expected) :]) != expected:
        shape = ", ".join(map(str, expected))
        raise ValueError(f"{name} is {list(tensor.shape)} and {why}: pass [..., {shape}].")
