"""The functions of `cutlass_ext.fmha`."""

from __future__ import annotations

import torch

from cutlass_ext.fmha import dispatch, ops
from cutlass_ext.fmha.attn_bias import AttentionBias
from cutlass_ext.fmha.problem import Problem, make_problem


def memory_efficient_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: AttentionBias | torch.Tensor | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: str | None = None,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
    deterministic: bool | None = None,
) -> torch.Tensor:
    """softmax(scale * query key^T + attn_bias) value, without the matrix of scores.

    query          `[B, M, H, K]`, or `[B, M, K]` for one head; float16, bfloat16, float32
                   (float64 by the families `torch` and `sdpa`). Any strides; a tensor whose last
                   dimension is not contiguous is copied
    key, value     `[B, N, H, K]`, `[B, N, H, Kv]`, or of rank 3 as query
    attn_bias      None or `attn_bias.LowerTriangularMask()`
    p              dropout, 0.0
    scale          default 1 / sqrt(K)
    op             None: the fastest family that serves. A name: that family (`"sm80"`, `"simt"`,
                   `"host"`, `"torch"`, `"sdpa"`). `"ours"`: any but `"sdpa"`
    output_dtype   default query's
    precision      of float32 products: `"ieee"`, `"tf32x3"` (float32-accurate), `"tf32"`. Default
                   `"tf32x3"` where there are tensor cores for it, else `"ieee"`
    deterministic  every forward is

    Returns `[B, M, H, Kv]` (rank 3 for rank 3). A query without a visible key gives 0. Gradients
    need a family that has them: `torch` or `sdpa`.

    ValueError where the input is wrong; NotImplementedError, with the table of `explain`, where no
    family serves.
    """
    problem = make_problem(
        query, key, value, attn_bias, p, scale, output_dtype, precision, needs_lse=False
    )
    return _shaped(_run(problem, op)[0], query)


def memory_efficient_attention_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: AttentionBias | torch.Tensor | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: str | None = None,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
) -> torch.Tensor:
    """As `memory_efficient_attention`, without gradients."""
    with torch.no_grad():
        return memory_efficient_attention(
            *(query, key, value, attn_bias, p, scale),
            op=op,
            output_dtype=output_dtype,
            precision=precision,
        )


def memory_efficient_attention_forward_requires_grad(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: AttentionBias | torch.Tensor | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: str | None = None,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `memory_efficient_attention_forward`, with the log-sum-exp of each row of scores.

    Returns output and `lse`: `[B, H, M]` float32, natural logarithm; -inf for a query without a
    visible key.
    """
    with torch.no_grad():
        problem = make_problem(
            query, key, value, attn_bias, p, scale, output_dtype, precision, needs_lse=True
        )
        output, lse = _run(problem, op)
    return _shaped(output, query), lse


def explain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: AttentionBias | torch.Tensor | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: str | None = None,
    output_dtype: torch.dtype | None = None,
    precision: str | None = None,
    deterministic: bool | None = None,
) -> str:
    """Every family in order of speed: runs, serves, or why not and what would mend it.

    Takes the arguments of `memory_efficient_attention` and runs nothing.
    """
    problem = make_problem(
        query, key, value, attn_bias, p, scale, output_dtype, precision, needs_lse=False
    )
    return dispatch.table(problem, dispatch.candidates(problem, op))


def _run(problem: Problem, op: str | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    if problem.needs_grad:
        # By a family made of operations that autograd knows: it has to see them.
        return ops.run(dispatch.choose(problem, op), problem)
    return ops.attention_forward(problem, op)


def _shaped(output: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return output.squeeze(2) if query.dim() == 3 else output
