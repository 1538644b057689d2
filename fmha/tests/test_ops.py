"""The operator as PyTorch sees it: opcheck, compilation, autograd through other families."""

from __future__ import annotations

import pytest
import torch
from families import ours

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask
from cutlass_ext.testing.attention import Sample, eager
from cutlass_ext.testing.samples import SAMPLES

# One for each way through the operator: with and without work, copies and gaps.
OPERATOR = ("partial tiles", "every layout", "columns apart", "causal", "no query", "no key")


@pytest.mark.parametrize("name", OPERATOR)
@pytest.mark.parametrize("needs_lse", [False, True])
def test_opcheck(our_variant, torch_device, name, needs_lse):
    sample = SAMPLES[name]
    torch.library.opcheck(
        torch.ops.cutlass_ext.attention_forward.default,
        (
            *sample.tensors(our_variant.dtype, torch_device),
            sample.causal,
            sample.effective_scale,
            our_variant.op,
            our_variant.precision,
            our_variant.dtype,
            needs_lse,
        ),
    )


@pytest.mark.parametrize("causal", [False, True])
def test_compiles_in_one_graph(our_variant, torch_device, causal):
    operands = Sample(queries=40, keys=40).tensors(our_variant.dtype, torch_device)

    def attention(query, key, value):
        bias = LowerTriangularMask() if causal else None
        return fmha.memory_efficient_attention(
            query * 2, key, value, bias, op=our_variant.op, precision=our_variant.precision
        )

    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*operands), attention(*operands))


@pytest.mark.parametrize("op", [None, "torch", "sdpa"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_through_pytorch(torch_device, op, causal):
    sample = Sample(batch=2, heads=2, queries=33, keys=40, head_dim=8, value_dim=12, causal=causal)
    operands = sample.tensors(torch.float64, torch_device)
    mine, theirs = (
        [operand.detach().clone().requires_grad_() for operand in operands] for _ in range(2)
    )
    bias = LowerTriangularMask() if causal else None
    output = fmha.memory_efficient_attention(*mine, bias, op=op)
    expected = eager(*theirs, causal, sample.effective_scale)
    grad = torch.randn_like(output)
    output.backward(grad)
    expected.backward(grad)
    # The same formula in another order: float64's rounding and nothing else.
    for a, b in zip(
        (output, *(t.grad for t in mine)), (expected, *(t.grad for t in theirs)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_blocked_torch_family_has_exact_gradients():
    """More keys than a block, and rows that see none of the later blocks."""
    operands = Sample(queries=600, keys=1100, head_dim=4, value_dim=4).tensors(torch.float64)
    for causal in (False, True):
        mine, theirs = ([t.clone().requires_grad_() for t in operands] for _ in range(2))
        bias = LowerTriangularMask() if causal else None
        fmha.memory_efficient_attention(*mine, bias, op="torch").sum().backward()
        eager(*theirs, causal, 0.5).sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("op", [None, "torch", "sdpa"])
def test_gradients_without_keys_are_zero(torch_device, op):
    operands = Sample(queries=5, keys=0).tensors(torch.float32, torch_device)
    operands = [operand.detach().requires_grad_() for operand in operands]
    output = fmha.memory_efficient_attention(*operands, op=op)
    output.sum().backward()
    assert not output.any()
    for operand in operands:
        assert operand.grad.shape == operand.shape and not operand.grad.any()


def test_every_family_of_ours_is_tested(device):
    assert {variant.op for variant in ours(device).values()} == (
        {"host"} if device == "host" else {"simt", "sm80"}
    )
