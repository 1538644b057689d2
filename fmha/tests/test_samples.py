"""The table of sample inputs, and inputs that broke other implementations."""

from __future__ import annotations

import pytest
import torch
from families import assert_values, attend

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask
from cutlass_ext.testing.attention import Sample, eager, reference, tolerance
from cutlass_ext.testing.samples import SAMPLES


@pytest.fixture
def uninitialized_memory_is_nan():
    """What `torch.empty` returns is full of NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", SAMPLES)
def test_values(variant, torch_device, name):
    sample = SAMPLES[name]
    operands = sample.tensors(variant.dtype, torch_device)
    output, lse = attend(variant, *operands, sample.causal, sample.scale)
    assert_values(variant, operands, sample.causal, sample.effective_scale, output, lse)


VIEWS = [name for name, sample in SAMPLES.items() if sample.layouts != Sample().layouts]


@pytest.mark.parametrize("name", VIEWS)
def test_layouts_do_not_matter(our_variant, torch_device, name):
    """To the bit: how rows are read changes nothing of what is computed."""
    sample = SAMPLES[name]
    operands = sample.tensors(our_variant.dtype, torch_device)
    output, lse = attend(our_variant, *operands, sample.causal, sample.scale)
    contiguous = [tensor.contiguous() for tensor in operands]
    again, lse_again = attend(our_variant, *contiguous, sample.causal, sample.scale)
    assert torch.equal(output, again) and torch.equal(lse, lse_again)


@pytest.mark.parametrize("length", [5, 8, 13, 64])
def test_one_packed_tensor(our_variant, torch_device, length):
    """Unbound from `[B, M, 3, H, K]`."""
    packed = torch.randn(2, length, 3, 2, 32).to(our_variant.dtype).to(torch_device)
    operands = packed.unbind(2)
    output, _ = attend(our_variant, *operands)
    assert torch.equal(output, attend(our_variant, *(t.contiguous() for t in operands))[0])


@pytest.mark.parametrize("name", ["partial tiles", "causal, fewer keys", "head dim 7"])
def test_every_element_is_written(our_variant, torch_device, uninitialized_memory_is_nan, name):
    """And nothing behind the last: lse has M entries a head, however large the tiles are."""
    sample = SAMPLES[name]
    operands = sample.tensors(our_variant.dtype, torch_device)
    assert torch.empty(3, device=torch_device).isnan().all()
    output, lse = attend(our_variant, *operands, sample.causal)
    assert not output.isnan().any() and not lse.isnan().any()
    assert lse.shape == (sample.batch, sample.heads, sample.queries) and lse.is_contiguous()


@pytest.mark.parametrize(("count", "stride"), [(3, 2**30 + 8), (131, 2**24 + 8)])
def test_rows_beyond_32_bits(our_variant, torch_device, tmp_path, count, stride):
    """Offsets in elements leave 31 bits, in bytes 32: within a tile, and from tile to tile."""
    length, dtype = (count - 1) * stride + 32, our_variant.dtype
    if torch_device == "cpu":
        # A file without contents: only the pages that are touched take memory.
        memory = torch.from_file(str(tmp_path / "rows"), shared=True, size=length, dtype=dtype)
    else:
        memory = torch.empty(length, dtype=dtype, device=torch_device)
    rows = memory.as_strided((1, count, 1, 32), (count * stride, stride, 32, 1))
    rows.copy_(torch.randn(1, count, 1, 32))
    near = rows.contiguous()
    output, lse = attend(our_variant, rows, rows, rows, causal=True)
    again, lse_again = attend(our_variant, near, near, near, causal=True)
    assert torch.equal(output, again) and torch.equal(lse, lse_again)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_head_dims_beyond_the_kernels(torch_device, dtype):
    """Served all the same: (4, 12, 4096, 1024) of a report, cut down."""
    sample = Sample(heads=2, queries=256, keys=256, head_dim=1024, value_dim=1024, causal=True)
    query, key, value = sample.tensors(dtype, torch_device)
    output = fmha.memory_efficient_attention(query, key, value, LowerTriangularMask())
    operands = [tensor.cpu() for tensor in (query, key, value)]
    expected = reference(*operands, True, sample.effective_scale)
    bound = tolerance(*operands, expected, True, sample.effective_scale)
    assert (output.cpu().double() - expected.output).abs().max().item() <= bound


def test_many_short_rows_in_training(torch_device):
    """(831, 43, 32, 8) of a report, with a tenth of its batch: gradients are right, too."""
    sample = Sample(batch=83, heads=32, queries=43, keys=43, head_dim=8, value_dim=8)
    operands = sample.tensors(torch.float32, torch_device)
    mine = [tensor.clone().requires_grad_() for tensor in operands]
    exact = [tensor.double().requires_grad_() for tensor in operands]
    theirs = [tensor.clone().requires_grad_() for tensor in operands]
    grad = torch.randn_like(operands[2])
    fmha.memory_efficient_attention(*mine).backward(grad)
    eager(*theirs, False, 8**-0.5).backward(grad)
    eager(*exact, False, 8**-0.5).backward(grad.double())
    for own, composite, right in zip(mine, theirs, exact, strict=True):
        # Twice the composite formula's own error, and that of a sum over 43 rows or keys, whose
        # rounding errors add as their root: see `tolerance`.
        allowed = 2 * (composite.grad - right.grad).abs().max()
        allowed += 2.4 * 43**0.5 * torch.finfo(torch.float32).eps * right.grad.abs().max()
        assert (own.grad - right.grad).abs().max() <= allowed


LARGE = {
    "BMK (65536, 16, 80)": Sample(65536, 1, 16, 16, 80, 80),
    "BMHK (133, 77, 8, 64)": Sample(133, 8, 77, 77, 64, 64),
    "BMHK (2, 498, 8, 32), 700 keys": Sample(2, 8, 498, 700, 32, 32),
    "BHMK (32, 12, 441, 64)": Sample(32, 12, 441, 441, 64, 64),
}


@pytest.mark.parametrize("name", LARGE)
def test_large(device, variant, torch_device, name):
    if device == "host":
        pytest.skip("too many blocks for the CPU")
    sample = LARGE[name]
    operands = sample.tensors(variant.dtype, torch_device)
    output, lse = attend(variant, *operands)
    # A few batch entries: the reference takes float64 for all pairs of rows.
    for entry in (0, sample.batch // 2, sample.batch - 1):
        one = slice(entry, entry + 1)
        parts = [tensor[one] for tensor in operands]
        part = None if lse is None else lse[one]
        assert_values(variant, parts, False, sample.effective_scale, output[one], part)


def test_wide_rows_of_zeros(device, torch_device):
    """BMK (1, 33728, 512) in float32: more scores than 2^30, and no NaN."""
    if device == "host":
        pytest.skip("minutes on the CPU")
    zeros = torch.zeros(1, 33728, 512, device=torch_device)
    assert not fmha.memory_efficient_attention(zeros, zeros, zeros).any()


def test_scores_beyond_32_bits(device, our_variant, torch_device):
    """S = 65537, causal: row 65536 has scores whose index in `[M, N]` is above 2^32."""
    if device == "host":
        pytest.skip("minutes on the CPU")
    sample = Sample(queries=65537, keys=65537, head_dim=128, value_dim=128)
    query, key, value = sample.tensors(our_variant.dtype, torch_device)
    output, lse = attend(our_variant, query, key, value, causal=True)
    # The last row sees every key: it is a call of its own without a mask.
    last = (query[:, -1:], key, value)
    assert_values(our_variant, last, False, 128**-0.5, output[:, -1:], lse[..., -1:])
