"""Family `sdpa`: PyTorch's kernels where they are right, a reason where they are not."""

from __future__ import annotations

import pytest
import torch
from families import Variant, assert_values, attend

from cutlass_ext import fmha
from cutlass_ext.testing.attention import Sample

F16 = Variant("sdpa", torch.float16)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [32, 64, 128, 256])
@pytest.mark.parametrize("layout", ["contiguous", "packed", "transposed"])
def test_values(torch_device, causal, width, layout):
    sample = Sample(2, 3, 130, 200, width, width, causal, layouts=(layout,) * 3)
    operands = sample.tensors(F16.dtype, torch_device)
    output, lse = attend(F16, *operands, causal)
    assert_values(F16, operands, causal, sample.effective_scale, output, lse)


def test_refusals_on_a_gpu(device):
    if device != "cuda":
        pytest.skip("PyTorch's kernels on a CPU have no such faults")
    operands = Sample(layouts=("contiguous", "one_head", "contiguous"), heads=2).tensors(
        F16.dtype, "cuda"
    )
    text = fmha.explain(*operands, scale=-0.5, op="sdpa")
    assert text.splitlines()[1:] == [
        "  sdpa  no: scale is -0.5 and PyTorch's kernels need a positive one; pass a positive "
        "scale and a query with its sign changed",
        "          : PyTorch's kernels are not trusted with rows that are expanded or not "
        "multiples of 16 bytes; pass contiguous tensors whose head dims are multiples of 16 bytes",
    ]
