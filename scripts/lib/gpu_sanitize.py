"""Attention calls for compute-sanitizer to watch: a small table of shapes for each family.

Inputs are made on the CPU and copied, and results compared on the CPU, so that no kernel but ours
runs on the GPU and everything that the sanitizer finds is ours.
"""

import sys

import torch

from cutlass_ext import fmha

# Family, dtype, precision of the kernels under test.
VARIANTS = (
    ("sm80", torch.float16, None),
    ("sm80", torch.bfloat16, None),
    ("sm80", torch.float32, "tf32x3"),
    ("simt", torch.float32, "ieee"),
)

# B, H, M, N, K, Kv, causal: one row; tiles met exactly and missed by one; every class of head
# dimension; rows whose length no vector divides; K beside another Kv; no key at all.
SHAPES = (
    (1, 1, 1, 1, 32, 32, False),
    (1, 2, 64, 64, 32, 32, False),
    (2, 1, 65, 129, 64, 64, False),
    (1, 2, 130, 200, 64, 64, True),
    (1, 1, 70, 140, 96, 96, False),
    (1, 2, 129, 127, 128, 128, True),
    (1, 1, 33, 97, 37, 37, False),
    (1, 1, 66, 65, 100, 60, True),
    (1, 1, 5, 0, 32, 32, False),
)

# The kernels' results are also looked at, loosely: 8 times the unit of the operands' rounding, with
# values within about 5 of zero. The tests proper hold them to more.
TOLERANCE = {torch.float16: 4e-3 * 5, torch.bfloat16: 3.2e-2 * 5, torch.float32: 1e-4}


def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool):
    """Attention of `[B, M, H, K]` tensors in float64."""
    query, key, value = (t.double().transpose(1, 2) for t in (query, key, value))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)


def main() -> int:
    """Run every shape in every variant; 1 where a result is wrong."""
    generator = torch.Generator().manual_seed(0)
    wrong = 0
    for family, dtype, precision in VARIANTS:
        for batch, heads, rows, keys, head_dim, value_dim, causal in SHAPES:
            query, key, value = (
                torch.randn(batch, length, heads, width, generator=generator).to(dtype)
                for length, width in ((rows, head_dim), (keys, head_dim), (keys, value_dim))
            )
            output = fmha.memory_efficient_attention_forward(
                *(tensor.cuda() for tensor in (query, key, value)),
                fmha.attn_bias.LowerTriangularMask() if causal else None,
                op=family,
                precision=precision,
            ).cpu()
            expected = reference(query, key, value, causal).nan_to_num()
            difference = (output.double() - expected).abs().max().item()
            if not difference <= TOLERANCE[dtype]:
                wrong += 1
                print(f"WRONG by {difference}: {family} {dtype} {precision}", flush=True)
    print(f"{len(VARIANTS) * len(SHAPES)} calls, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
