"""Attention calls for compute-sanitizer to watch: a small table of shapes for each family.

Inputs are made on the CPU and copied, and results compared on the CPU, so that no kernel but ours
runs on the GPU and everything that the sanitizer finds is ours.
"""

import sys

import torch

from cutlass_ext import fmha
from cutlass_ext.gemm import chained_gemm, grouped_chained_gemm

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


# Chained products: dtype, precision, M, N0, K0, N1. Ring with b0 resident and beside a, chunks of
# the intermediate, rows of every alignment, the intermediate in shared memory; no column at all.
PRODUCTS = (
    (torch.float16, None, 300, 64, 64, 64),
    (torch.float16, None, 130, 128, 128, 128),
    (torch.bfloat16, None, 129, 64, 200, 72),
    (torch.float16, None, 129, 200, 136, 64),
    (torch.float16, None, 65, 68, 36, 20),
    (torch.float16, None, 33, 13, 7, 5),
    (torch.float16, None, 33, 8, 0, 8),
    (torch.float32, "tf32x3", 130, 100, 36, 68),
    (torch.float32, "ieee", 70, 33, 17, 9),
)


def wrong_products(generator: torch.Generator) -> int:
    """Chained products, singly and as a list; how many are wrong."""
    wrong = 0
    for dtype, precision, m, n0, k0, n1 in PRODUCTS:
        a, b0, b1 = (
            torch.randint(-2, 3, size, generator=generator).to(dtype)
            for size in ((m, k0), (k0, n0), (n0, n1))
        )
        expected = torch.relu(a.double() @ b0.double()) @ b1.double()
        a, b0, b1 = a.cuda(), b0.cuda(), b1.cuda()
        options = {"activation": "relu", "precision": precision}
        options["op"] = "shared" if precision else "registers"
        outputs = [chained_gemm(a, b0, b1, **options)]
        outputs += grouped_chained_gemm([a, a[:0], a], [b0] * 3, [b1] * 3, **options)[::2]
        for output in outputs:
            # Small integers: exact, unless their sum is rounded to a 16-bit output.
            difference = (output.cpu().double() - expected).abs()
            if not (difference <= torch.finfo(dtype).eps * expected.abs()).all():
                wrong += 1
                print(f"WRONG: chained {dtype} {precision} {m} {n0} {k0} {n1}", flush=True)
    return wrong


def main() -> int:
    """Run every shape in every variant; 1 where a result is wrong."""
    generator = torch.Generator().manual_seed(0)
    wrong = wrong_products(generator)
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
    calls = len(VARIANTS) * len(SHAPES) + 3 * len(PRODUCTS)
    print(f"{calls} calls, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
