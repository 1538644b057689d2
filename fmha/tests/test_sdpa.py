"""Family `sdpa`: PyTorch's kernels where they are right, a reason where they are not."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from families import Variant, assert_values, attend, examples
from hypothesis import given

from cutlass_ext import fmha
from cutlass_ext.testing.attention import Sample, samples

F16 = Variant("sdpa", torch.float16)
VARIANTS = {
    "f16": F16,
    "bf16": Variant("sdpa", torch.bfloat16),
    "f32": Variant("sdpa", torch.float32, "tf32x3"),
}
SERVED = samples().filter(lambda sample: sample.effective_scale > 0)


@pytest.mark.parametrize("name", VARIANTS)
@examples(300)
@given(sample=SERVED)
def test_output(device, torch_device, name, sample):
    if device == "cuda":
        pytest.skip("random calls of PyTorch's GPU kernels have not been looked at yet")
    variant = VARIANTS[name]
    operands = sample.tensors(variant.dtype, torch_device)
    output, lse = attend(variant, *operands, sample.causal, sample.scale)
    assert_values(variant, operands, sample.causal, sample.effective_scale, output, lse)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [32, 64, 128, 256])
@pytest.mark.parametrize("layout", ["contiguous", "packed", "transposed"])
def test_values(torch_device, causal, width, layout):
    sample = Sample(2, 3, 130, 200, width, width, causal, layouts=(layout,) * 3)
    operands = sample.tensors(F16.dtype, torch_device)
    output, lse = attend(F16, *operands, causal)
    assert_values(F16, operands, causal, sample.effective_scale, output, lse)


@examples(60)
@given(
    queries=st.sampled_from((1, 5, 64, 100, 128, 130)),
    keys=st.sampled_from((140, 200, 257)),
    poison=st.sampled_from((math.nan, math.inf, -math.inf)),
)
def test_keys_that_no_query_sees_never_matter(torch_device, queries, keys, poison):
    sample = Sample(queries=queries, keys=keys, causal=True)
    query, key, value = sample.tensors(F16.dtype, torch_device)
    clean, _ = attend(F16, query, key, value, True)
    key[:, queries:] = poison
    value[:, queries:] = poison
    poisoned, _ = attend(F16, query, key, value, True)
    assert torch.equal(poisoned, clean)


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_scales_that_are_not_positive(torch_device, scale):
    operands = Sample().tensors(F16.dtype, torch_device)
    assert fmha.explain(*operands, scale=scale, op="sdpa").splitlines()[1:] == [
        f"  sdpa  no: scale is {scale} and PyTorch's kernels need a positive one; pass a positive "
        "scale and a query with its sign changed",
    ]


def test_rows_that_are_not_dense_on_a_gpu(device):
    if device != "cuda":
        pytest.skip("PyTorch's kernels on a CPU have no such fault")
    operands = Sample(layouts=("contiguous", "one_head", "contiguous"), heads=2).tensors(
        F16.dtype, "cuda"
    )
    assert fmha.explain(*operands, op="sdpa").splitlines()[1:] == [
        "  sdpa  no: PyTorch's kernels are not trusted with rows that are expanded or not "
        "multiples of 16 bytes; pass contiguous tensors whose head dims are multiples of 16 bytes",
    ]
