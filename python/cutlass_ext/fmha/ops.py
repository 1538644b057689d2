"""The operator `torch.ops.cutlass_ext.attention_forward`: schema, implementation, fake."""

from __future__ import annotations

import math

import torch

from cutlass_ext.fmha import dispatch
from cutlass_ext.fmha.families.family import Family
from cutlass_ext.fmha.problem import Problem

_library = torch.library.Library("cutlass_ext", "DEF")
_library.define(
    "attention_forward(Tensor query, Tensor key, Tensor value, bool causal, float scale, "
    "str? op, str? precision, ScalarType output_dtype, bool needs_lse) -> (Tensor, Tensor)"
)


def attention_forward(problem: Problem, op: str | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Calls the operator, which tracing and compilation see as one: it chooses the family when it
    runs.
    """
    output, lse = torch.ops.cutlass_ext.attention_forward(
        problem.query,
        problem.key,
        problem.value,
        problem.causal,
        problem.scale,
        op,
        problem.precision,
        problem.output_dtype,
        problem.needs_lse,
    )
    return output, lse if problem.needs_lse else None


def run(family: Family, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The family's forward; output 0 and log-sum-exp -inf where there is no key."""
    if not problem.is_empty:
        return family.forward(problem)
    tensor = problem.query
    output = tensor.new_zeros(problem.output_shape, dtype=problem.output_dtype)
    if problem.needs_grad:
        # Sums over no element: nothing but the way by which gradients, all 0, go back.
        operands = (problem.query, problem.key, problem.value)
        output = output + sum(operand[..., :0].sum() for operand in operands)
    lse = None
    if problem.needs_lse:
        lse = tensor.new_full(problem.lse_shape, -math.inf, dtype=torch.float32)
    return output, lse


def _attention_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    scale: float,
    op: str | None,
    precision: str | None,
    output_dtype: torch.dtype,
    needs_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    problem = Problem(
        *(query, key, value, causal, scale, precision, output_dtype),
        needs_grad=False,
        needs_lse=needs_lse,
    )
    output, lse = run(dispatch.choose(problem, op), problem)
    return output, _no_lse(query) if lse is None else lse


def _fake(
    query, key, value, causal, scale, op, precision, output_dtype, needs_lse
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, queries, heads, _ = query.shape
    output = query.new_empty((batch, queries, heads, value.shape[3]), dtype=output_dtype)
    if not needs_lse:
        return output, _no_lse(query)
    return output, query.new_empty((batch, heads, queries), dtype=torch.float32)


def _no_lse(query: torch.Tensor) -> torch.Tensor:
    return query.new_empty(0, dtype=torch.float32)


_library.impl("attention_forward", _attention_forward, "CPU")
_library.impl("attention_forward", _attention_forward, "CUDA")
torch.library.register_fake("cutlass_ext::attention_forward", _fake, lib=_library)
