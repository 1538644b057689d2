"""Family `sdpa`: PyTorch's own fused backends."""

from __future__ import annotations

import functools

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import override

from cutlass_ext.fmha.families.family import Launch, Obstacle
from cutlass_ext.fmha.kernels import is_aligned
from cutlass_ext.fmha.problem import Problem

# In order of speed on the GPUs that each runs on; PyTorch takes the first that accepts the call.
_BACKENDS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


class PyTorch:
    """`torch.nn.functional.scaled_dot_product_attention`, the fastest backend first."""

    name = "sdpa"
    ours = False

    @override
    def obstacles(self, problem: Problem) -> list[Obstacle]:
        found = []
        if problem.needs_lse:
            found.append(
                Obstacle(
                    "PyTorch's call does not return the log-sum-exp",
                    "use memory_efficient_attention, which doesn't ask for it",
                )
            )
        if problem.precision == "ieee" and problem.device.type == "cuda":
            found.append(
                Obstacle(
                    "PyTorch's kernels do not promise IEEE float32 products",
                    "pass precision=None or 'tf32x3'",
                )
            )
        # They scale hidden scores too: -inf * 0 is NaN, -inf * -1 is +inf.
        if not problem.scale > 0:
            found.append(
                Obstacle(
                    f"scale is {problem.scale} and PyTorch's kernels need a positive one",
                    "pass a positive scale and a query with its sign changed",
                )
            )
        if problem.device.type == "cuda":
            found += _obstacles_on_gpu(problem)
        return found

    @override
    def forward(self, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.prepare(problem)(problem.query, problem.key, problem.value)

    @override
    def prepare(self, problem: Problem) -> Launch:
        return functools.partial(_attend, problem.causal, problem.scale, problem.output_dtype)


def _attend(
    causal: bool,
    scale: float,
    output_dtype: torch.dtype,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
) -> tuple[torch.Tensor, None]:
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    if causal:
        # Keys from M on are hidden; PyTorch's kernels multiply them by 0, and NaN stays NaN.
        key, value = (tensor[:, :, : query.shape[2]] for tensor in (key, value))
    with sdpa_kernel(_BACKENDS, set_priority=True):
        output = functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=scale
        )
    return output.transpose(1, 2).to(output_dtype), None


def _obstacles_on_gpu(problem: Problem) -> list[Obstacle]:
    """Calls that PyTorch's fused backends accept and get wrong (seen with torch 2.11, cuDNN): data
    from between the rows where these are not dense.
    """
    operands = (problem.query, problem.key, problem.value)
    if all(is_aligned(operand) and 0 not in operand.stride() for operand in operands):
        return []
    return [
        Obstacle(
            "PyTorch's kernels are not trusted with rows that are expanded or not multiples of "
            "16 bytes",
            "pass contiguous tensors whose head dims are multiples of 16 bytes",
        )
    ]
