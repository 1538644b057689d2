"""Family `torch`: attention in torch operations, a block of keys at a time."""

from __future__ import annotations

import math

import torch
from typing_extensions import override

from cutlass_ext.fmha.families.family import Obstacle
from cutlass_ext.fmha.problem import Problem

_KEYS = 512  # a block's scores stay in the cache, its products are large enough for a library


class TorchOperations:
    """Online softmax over blocks of keys; memory grows with M, not with M * N.

    Accumulates in float32 (float64 for float64 operands). Key blocks that a causal mask hides from
    every query are skipped. Any head dim, any device; gradients by autograd.
    """

    name = "torch"
    ours = True

    @override
    def obstacles(self, problem: Problem) -> list[Obstacle]:
        allows_tf32 = torch.backends.cuda.matmul.allow_tf32
        if (
            problem.device.type == "cuda"
            and problem.precision in ("ieee", "tf32x3")
            and allows_tf32
        ):
            return [
                Obstacle(
                    f"precision is {problem.precision} and PyTorch's products may use TF32",
                    "call torch.set_float32_matmul_precision('highest')",
                )
            ]
        return []

    @override
    def prepare(self, problem: Problem) -> None:
        return None

    @override
    def forward(self, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None]:
        dtype = torch.float64 if problem.dtype == torch.float64 else torch.float32
        query = problem.query.transpose(1, 2).to(dtype) * problem.scale
        key, value = (tensor.transpose(1, 2) for tensor in (problem.key, problem.value))
        queries, keys = query.shape[2], key.shape[2]
        visible = min(queries, keys) if problem.causal else keys

        maximum = query.new_full((*query.shape[:3], 1), -math.inf)
        total = torch.zeros_like(maximum)
        output = query.new_zeros((*query.shape[:3], value.shape[3]))
        for first in range(0, visible, _KEYS):
            last = min(first + _KEYS, visible)
            # Rows before the block's first key see none of it.
            row = first if problem.causal else 0
            scores = query[:, :, row:] @ key[:, :, first:last].to(dtype).transpose(2, 3)
            if problem.causal:
                hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device)
                scores = scores.masked_fill(hidden.triu(row - first + 1), -math.inf)
            old = maximum[:, :, row:]
            # Its gradient cancels: softmax doesn't depend on what is subtracted.
            new = torch.maximum(old, scores.detach().amax(dim=3, keepdim=True))
            weights = torch.exp(scores - new)
            factor = torch.exp(old - new)
            total = _with_rows(
                total, row, total[:, :, row:] * factor + weights.sum(3, keepdim=True)
            )
            product = weights @ value[:, :, first:last].to(dtype)
            output = _with_rows(output, row, output[:, :, row:] * factor + product)
            maximum = _with_rows(maximum, row, new)
        output = (output / total).transpose(1, 2).to(problem.output_dtype)
        lse = (maximum + total.log()).squeeze(3).float() if problem.needs_lse else None
        return output, lse


def _with_rows(tensor: torch.Tensor, first: int, rows: torch.Tensor) -> torch.Tensor:
    """`tensor` with its rows (dimension 2) from `first` on replaced."""
    return rows if first == 0 else torch.cat([tensor[:, :, :first], rows], dim=2)
