"""Fused attention: softmax(scale * query key^T + bias) value, without the matrix of scores.

`memory_efficient_attention` takes `[B, M, H, K]` tensors; `explain` says which family of kernels
serves a call, why the others don't, and what would mend it.
"""

from cutlass_ext.fmha import attn_bias
from cutlass_ext.fmha.api import (
    explain,
    memory_efficient_attention,
    memory_efficient_attention_forward,
    memory_efficient_attention_forward_requires_grad,
)

__all__ = [
    "attn_bias",
    "explain",
    "memory_efficient_attention",
    "memory_efficient_attention_forward",
    "memory_efficient_attention_forward_requires_grad",
]
