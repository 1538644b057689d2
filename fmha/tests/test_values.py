"""The contract of values: every family against float64, on random calls."""

from __future__ import annotations

import hypothesis.strategies as st
from families import assert_values, attend, examples
from hypothesis import given

from cutlass_ext.testing.attention import LENGTHS, samples
from cutlass_ext.testing.device_code import schedules

# Host execution takes milliseconds a tile: a drawn problem has a few.
_SHORT = tuple(length for length in LENGTHS if length < 200)


@examples(300)
@given(data=st.data(), schedule=schedules())
def test_output_and_lse(variant, torch_device, data, schedule):
    drawn = samples(_SHORT, heads=2) if torch_device == "cpu" else samples()
    sample = data.draw(drawn)
    operands = sample.tensors(variant.dtype, torch_device)
    output, lse = attend(variant, *operands, sample.causal, sample.scale, schedule)
    assert_values(variant, operands, sample.causal, sample.effective_scale, output, lse)
