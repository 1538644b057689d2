"""What holds whatever the numbers: hidden data, empty rows, symmetries, repeatability."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from families import attend, examples
from hypothesis import given

from cutlass_ext.testing.attention import Sample, reference, tolerance
from cutlass_ext.testing.device_code import Schedule, schedules


@pytest.mark.parametrize(
    ("batch", "queries", "keys"), [(0, 5, 7), (2, 0, 7), (2, 5, 0), (0, 0, 0), (1, 130, 0)]
)
def test_empty(variant, torch_device, batch, queries, keys):
    sample = Sample(batch=batch, heads=3, queries=queries, keys=keys, head_dim=40, value_dim=24)
    output, lse = attend(variant, *sample.tensors(variant.dtype, torch_device))
    assert output.shape == (batch, queries, 3, 24)
    assert (output == 0).all()
    assert lse is None or (lse.shape == (batch, 3, queries) and lse.isneginf().all())


@pytest.mark.parametrize("causal", [False, True])
def test_rank_3_is_one_head(variant, torch_device, causal):
    query, key, value = Sample(batch=2, queries=33, keys=65).tensors(variant.dtype, torch_device)
    output, lse = attend(variant, query, key, value, causal)
    flat, flat_lse = attend(variant, *(t.squeeze(2) for t in (query, key, value)), causal)
    assert flat.shape == (2, 33, 64) and torch.equal(flat, output.squeeze(2))
    assert lse is None or torch.equal(flat_lse, lse)


@examples(60)
@given(
    queries=st.sampled_from((1, 5, 64, 100, 128, 130)),
    keys=st.sampled_from((140, 200, 257)),
    width=st.sampled_from((20, 32, 64, 96, 128)),
    poison=st.sampled_from((math.nan, math.inf, -math.inf)),
    schedule=schedules(),
)
def test_keys_that_no_query_sees_never_matter(
    our_variant, torch_device, queries, keys, width, poison, schedule
):
    """Causal, M < N: keys from M on are hidden. Their NaN and Inf reach neither output nor lse."""
    sample = Sample(queries=queries, keys=keys, head_dim=width, value_dim=width)
    query, key, value = sample.tensors(our_variant.dtype, torch_device)
    clean = attend(our_variant, query, key, value, True, schedule=schedule)
    key[:, queries:] = poison
    value[:, queries:] = poison
    poisoned = attend(our_variant, query, key, value, True, schedule=schedule)
    assert torch.equal(poisoned[0], clean[0]) and torch.equal(poisoned[1], clean[1])


def test_hidden_keys_are_masked_by_selection(our_variant, torch_device):
    """A NaN key makes NaN of the rows that see it, and of no other; its value stays finite."""
    query, key, value = Sample(queries=70, keys=70).tensors(our_variant.dtype, torch_device)
    key[:, 40] = math.nan
    output, lse = attend(our_variant, query, key, value, True)
    assert not output[:, :40].isnan().any() and not lse[..., :40].isnan().any()
    assert output[:, 40:].isnan().all()


@examples(60)
@given(
    factor=st.sampled_from((0.0, -0.3, 1e-3, 3.0, 30.0)),
    causal=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
    schedule=schedules(),
)
def test_scales_and_large_scores(variant, torch_device, factor, causal, seed, schedule):
    """Scores up to several hundred: weights of 0 and 1, jumps of the maximum between blocks."""
    sample = Sample(queries=70, keys=150, head_dim=64, value_dim=32, seed=seed)
    query, key, value = sample.tensors(variant.dtype, torch_device)
    scale = factor / 8
    output, _ = attend(variant, query, key, value, causal, scale, schedule)
    operands = [tensor.cpu() for tensor in (query, key, value)]
    expected = reference(*operands, causal, scale)
    error = (output.cpu().double() - expected.output).abs().max().item()
    assert error <= tolerance(*operands, expected, causal, scale, variant.arithmetic)


def test_maximum_that_grows_with_every_block(variant, torch_device):
    """Each block's greatest score exceeds the last's by far, in either direction of the walk."""
    for ascending in (True, False):
        query = torch.ones(1, 3, 1, 32, dtype=variant.dtype, device=torch_device)
        steps = torch.arange(300, device=torch_device)
        steps = steps if ascending else steps.flip(0)
        key = (steps / 4).to(variant.dtype).view(1, 300, 1, 1).expand(1, 300, 1, 32)
        value = torch.randn(1, 300, 1, 32).to(variant.dtype).to(torch_device)
        output, _ = attend(variant, query, key, value)
        operands = [tensor.cpu() for tensor in (query, key, value)]
        expected = reference(*operands, False, 1 / math.sqrt(32))
        error = (output.cpu().double() - expected.output).abs().max().item()
        assert error <= tolerance(*operands, expected, False, 1 / math.sqrt(32), variant.arithmetic)


@pytest.mark.parametrize("causal", [False, True])
def test_repeatable(our_variant, torch_device, causal):
    sample = Sample(heads=2, queries=70, keys=150, head_dim=44, value_dim=64)
    operands = sample.tensors(our_variant.dtype, torch_device)
    first = attend(our_variant, *operands, causal)
    for _ in range(19):
        again = attend(our_variant, *operands, causal)
        assert torch.equal(again[0], first[0]) and torch.equal(again[1], first[1])


def test_schedules_do_not_matter(device, our_variant, torch_device):
    if device != "host":
        pytest.skip("a GPU has its own schedule")
    operands = Sample(queries=130, keys=140).tensors(our_variant.dtype)
    first = attend(our_variant, *operands, True)
    for order in ("reverse", "random", "warp_priority"):
        for poison in (0x00, 0xFF):
            again = attend(our_variant, *operands, True, schedule=Schedule(order, 1, poison))
            assert torch.equal(again[0], first[0]) and torch.equal(again[1], first[1])


def test_heads_and_batch_entries_are_independent(our_variant, torch_device):
    """Any of them alone gives the same bits: neither neighbours nor places in the grid matter."""
    sample = Sample(batch=3, heads=3, queries=70, keys=90)
    query, key, value = sample.tensors(our_variant.dtype, torch_device)
    output, lse = attend(our_variant, query, key, value, True)
    for b, h in ((0, 0), (2, 1), (1, 2)):
        alone = attend(
            our_variant, *(t[b : b + 1, :, h : h + 1] for t in (query, key, value)), True
        )
        assert torch.equal(alone[0], output[b : b + 1, :, h : h + 1])
        assert torch.equal(alone[1], lse[b : b + 1, h : h + 1])


def test_values_of_one_give_one(variant, torch_device):
    """Weights sum to 1: with values of 1 the output is 1, up to the weights' own rounding."""
    query, key, _ = Sample(queries=130, keys=197, head_dim=32).tensors(variant.dtype, torch_device)
    output, _ = attend(variant, query, key, torch.ones_like(key))
    # Rounded weights are off by eps / 2 each, relative; so are their sum and the output.
    eps = torch.finfo(variant.dtype).eps
    allowed = eps * (32 if variant.dtype == torch.float32 else 1)
    assert (output.double() - 1).abs().max().item() <= allowed


def test_one_dominant_key_gives_its_value(our_variant, torch_device):
    """A weight of 1 among zeros: the value row comes back to the bit."""
    value = torch.randn(1, 100, 1, 64).to(our_variant.dtype).to(torch_device)
    if our_variant.arithmetic == "tf32x3":
        # 22 bits of a value pass.
        value = (value * 2**10).round() / 2**10
    query = torch.zeros(1, 5, 1, 64, dtype=our_variant.dtype, device=torch_device)
    key = torch.zeros(1, 100, 1, 64, dtype=our_variant.dtype, device=torch_device)
    query[..., 0] = 32
    key[:, 77, :, 0] = 32
    output, _ = attend(our_variant, query, key, value, scale=1.0)
    assert torch.equal(output, value[:, 77:78].expand_as(output))


def test_no_element_between_rows_is_written(our_variant, torch_device):
    """Outputs are made by the op: their memory is exactly full."""
    for width in (1, 5, 40, 100):
        sample = Sample(batch=2, heads=2, queries=77, keys=33, head_dim=8, value_dim=width)
        output, lse = attend(our_variant, *sample.tensors(our_variant.dtype, torch_device))
        assert output.is_contiguous() and not output.isnan().any()
        assert lse.is_contiguous() and lse.shape == (2, 2, 77) and not lse.isnan().any()


def test_grids_have_one_dimension(device, our_variant, torch_device):
    """More batch entries than a grid's second or third dimension takes."""
    if device == "host":
        pytest.skip("too many blocks for the CPU")
    query = torch.randn(65537, 3, 1, 16, device=torch_device).to(our_variant.dtype)
    output, _ = attend(our_variant, query, query, query)
    for entry in (0, 65535, 65536):
        one = query[entry : entry + 1]
        assert torch.equal(output[entry : entry + 1], attend(our_variant, one, one, one)[0])
