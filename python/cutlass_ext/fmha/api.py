"""The functions of `cutlass_ext.fmha`."""

from __future__ import annotations

import torch

from cutlass_ext._eager import Launches, is_plain, metadata
from cutlass_ext.fmha import dispatch, ops
from cutlass_ext.fmha.attn_bias import AttentionBias, LowerTriangularMask
from cutlass_ext.fmha.problem import Problem, make_problem, with_heads

# Biases of which nothing but the type matters.
_PLAIN_BIASES = (type(None), LowerTriangularMask)
_launches = Launches()


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
    options = (attn_bias, p, _number(scale), output_dtype, precision)
    return _attend(query, key, value, options, op, needs_lse=False)[0]


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
    options = (attn_bias, p, _number(scale), output_dtype, precision)
    with torch.no_grad():
        return _attend(query, key, value, options, op, needs_lse=True)


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


def _number(scale: float | None) -> float | None:
    """A float, also of a tensor: whose value may be another at the next call."""
    return None if scale is None else float(scale)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    options: tuple,
    op: str | None,
    needs_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Output and log-sum-exp; `options` are those of `make_problem`."""
    signature = None
    if type(options[0]) in _PLAIN_BIASES and is_plain((query, key, value)):
        described = metadata((query, key, value))
        signature = (described, type(options[0]), options[1:], op, needs_lse)
    launch = _launches.find(signature)
    if launch is None:
        problem = make_problem(query, key, value, *options, needs_lse=needs_lse)
        output, lse = _run(problem, op, signature)
    else:
        output, lse = launch(*(with_heads(t) for t in (query, key, value)))
    return output.squeeze(2) if query.dim() == 3 else output, lse


def _run(
    problem: Problem, op: str | None, signature: tuple | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if problem.needs_grad:
        # By a family made of operations that autograd knows: it has to see them.
        return ops.run(dispatch.choose(problem, op), problem)
    if signature is not None and not problem.is_empty:
        launch = dispatch.choose(problem, op).prepare(problem)
        if launch is not None:
            _launches.keep(signature, launch)
            return launch(problem.query, problem.key, problem.value)
    return ops.attention_forward(problem, op)
