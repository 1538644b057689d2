"""The contract of values: every family against float64, on random calls."""

from __future__ import annotations

import hypothesis.strategies as st
import torch
from families import examples, running
from hypothesis import given

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask
from cutlass_ext.testing.attention import LENGTHS, lse_tolerance, reference, samples, tolerance
from cutlass_ext.testing.device_code import schedules

# Host execution takes milliseconds a tile: most of the drawn problems have a few.
_SHORT = tuple(length for length in LENGTHS if length < 200)


@examples(300)
@given(data=st.data(), schedule=schedules())
def test_output_and_lse(variant, torch_device, data, schedule):
    on_host = torch_device == "cpu"
    sample = data.draw(samples(lengths=_SHORT if on_host else LENGTHS))
    query, key, value = sample.tensors(variant.dtype, torch_device)
    bias = LowerTriangularMask() if sample.causal else None
    options = {"op": variant.op, "precision": variant.precision}
    lse = None
    with running(variant, schedule):
        if variant.has_lse:
            output, lse = fmha.memory_efficient_attention_forward_requires_grad(
                query, key, value, bias, scale=sample.scale, **options
            )
        else:
            output = fmha.memory_efficient_attention(
                query, key, value, bias, scale=sample.scale, **options
            )

    operands = [tensor.cpu() for tensor in (query, key, value)]
    scale = sample.effective_scale
    expected = reference(*operands, sample.causal, scale)
    assert output.shape == expected.output.shape
    assert output.dtype == variant.dtype
    error = (output.cpu().double() - expected.output).abs()
    bound = tolerance(*operands, expected, sample.causal, scale, variant.arithmetic)
    assert not torch.isnan(error).any()
    assert error.numel() == 0 or error.max().item() <= bound
    if lse is not None:
        assert lse.shape == expected.lse.shape and lse.dtype == torch.float32
        hidden = expected.lse.isneginf()
        assert torch.equal(lse.cpu().isneginf(), hidden)
        error = (lse.cpu().double() - expected.lse)[~hidden].abs()
        bound = lse_tolerance(expected, sample.head_dim, sample.keys, variant.arithmetic)
        assert error.numel() == 0 or error.max().item() <= bound
