"""AccumulatorMap: one to one, equal to where the stock iterator stores; row reductions."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from cutlass_ext.testing.device_code import Unit, schedules

OPERATORS = {
    "simt_32x32": "SimtWarpMma<32, 32>",
    "simt_32x64": "SimtWarpMma<32, 64>",
    "simt_16x64": "SimtWarpMma<16, 64>",
    "simt_16x128": "SimtWarpMma<16, 128>",
    "simt_64x32": "SimtWarpMma<64, 32>",
    "simt_16x32": "SimtWarpMma<16, 32>",
    "f16_32x32": "Sm80WarpMma<half_t, 32, 32>",
    "f16_16x64": "Sm80WarpMma<half_t, 16, 64>",
    "f16_64x64": "Sm80WarpMma<half_t, 64, 64>",
    "bf16_32x128": "Sm80WarpMma<bfloat16_t, 32, 128>",
    "sm75_32x32": "Sm75WarpMma<32, 32>",
    "sm75_64x32": "Sm75WarpMma<64, 32>",
    "tf32x3_16x64": "Tf32x3WarpMma<16, 64>",
    "tf32x3_32x32": "Tf32x3WarpMma<32, 32>",
}
UNIT = Unit(
    name="test_accumulator_map",
    headers=("accumulator_map.h",),
    functions=tuple(
        function
        for name, operator in OPERATORS.items()
        for function in (
            (name, f"accumulator_map<{operator}>"),
            (f"{name}_shape", f"accumulator_map_shape<{operator}>"),
        )
    ),
    directory=Path(__file__).parents[2] / "harness",
)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_warp_shape(harness, name):
    check(harness, name, None, data_seed=0, padding=1)


@given(
    name=st.sampled_from(list(OPERATORS)),
    schedule=schedules(),
    data_seed=st.integers(0, 2**31),
    padding=st.integers(0, 5),
)
def test_map_is_where_the_stock_iterator_stores(harness, name, schedule, data_seed, padding):
    check(harness, name, schedule, data_seed, padding)


def check(harness, name, schedule, data_seed, padding):
    shape = torch.zeros(4 + 32 * 64, dtype=torch.int32)
    harness.call(UNIT, f"{name}_shape", shape)
    rows, columns, rows_per_thread, row_mask = shape[:4].tolist()
    row_of = shape[4 : 4 + 32 * rows_per_thread].view(32, rows_per_thread)
    generator = torch.Generator().manual_seed(data_seed)
    # Distinct integers: whatever is permuted shows, and sums are exact in any order.
    values = torch.randperm(rows * columns, generator=generator).float() - rows * columns // 2
    fragment = harness.tensor(values)
    # A vector of the stock SIMT iterator is four floats.
    ld = columns + 4 * padding
    canary = -1e30
    stock = harness.tensor(torch.full((rows + 1, ld), canary))
    mapped = harness.tensor(torch.full((rows + 1, ld), canary))
    maximum = harness.tensor(torch.zeros(32, rows_per_thread))
    total = harness.tensor(torch.zeros(32, rows_per_thread))
    harness.call(UNIT, name, fragment, stock, mapped, maximum, total, ld, schedule=schedule)

    assert torch.equal(stock, mapped)
    tile = mapped[:rows, :columns].cpu()
    assert torch.equal(tile.flatten().sort().values, values.sort().values), "not one to one"
    assert (mapped[:, columns:] == canary).all() and (mapped[rows:] == canary).all()

    assert torch.equal(maximum.cpu(), tile.max(dim=1).values[row_of.long()])
    assert torch.equal(total.cpu(), tile.sum(dim=1)[row_of.long()])
    # The mask holds exactly the lane bits that leave a lane's rows alone.
    lanes = torch.arange(32)
    for bit in (1, 2, 4, 8, 16):
        shares = torch.equal(row_of[lanes ^ bit], row_of)
        assert bool(row_mask & bit) == shares
