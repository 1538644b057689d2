"""AccumulatorMap: one to one, equal to where the stock iterator stores; row reductions."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given

from cutlass_ext.testing.device_code import Unit, schedules

OPERATORS = {
    "simt_32x32": "SimtWarpMma<32, 32>",
    "simt_32x64": "SimtWarpMma<32, 64>",
    "simt_16x64": "SimtWarpMma<16, 64>",
    "simt_16x128": "SimtWarpMma<16, 128>",
    "simt_64x32": "SimtWarpMma<64, 32>",
    "simt_16x32": "SimtWarpMma<16, 32>",
    "simt_f64_32x32": "SimtWarpMma<32, 32, double>",
    "simt_f64_32x64": "SimtWarpMma<32, 64, double>",
    "sm70_32x32": "Sm70WarpMma<32, 32>",
    "sm70_32x64": "Sm70WarpMma<32, 64>",
    "sm70_64x32": "Sm70WarpMma<64, 32>",
    "sm70_64x64": "Sm70WarpMma<64, 64>",
    "sm70_f16_32x32": "Sm70WarpMma<32, 32, half_t>",
    "sm70_f16_64x32": "Sm70WarpMma<64, 32, half_t>",
    "f16_32x32": "Sm80WarpMma<half_t, 32, 32>",
    "f16_16x64": "Sm80WarpMma<half_t, 16, 64>",
    "f16_64x64": "Sm80WarpMma<half_t, 64, 64>",
    "bf16_32x128": "Sm80WarpMma<bfloat16_t, 32, 128>",
    "sm75_32x32": "Sm75WarpMma<32, 32>",
    "sm75_64x32": "Sm75WarpMma<64, 32>",
    "sm75_32x128": "Sm75WarpMma<32, 128>",
    "tf32_32x32": "Tf32WarpMma<32, 32>",
    "tf32_64x16": "Tf32WarpMma<64, 16>",
    "tf32x3_16x64": "Tf32x3WarpMma<16, 64>",
    "tf32x3_32x32": "Tf32x3WarpMma<32, 32>",
}
# Where they are not float32, by what stands before the shape.
ACCUMULATORS = {"simt_f64": torch.float64, "sm70_f16": torch.float16}
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


def runs(harness, name):
    """Not f16 under ASan: what assigns an element of Array<half_t> (array_subbyte.h:133) reads four
    bytes of the two, and masks the rest."""
    return harness.mode != "asan" or not name.startswith("sm70_f16")


@pytest.mark.parametrize("name", OPERATORS)
def test_every_warp_shape(harness, name):
    if not runs(harness, name):
        pytest.skip("stock Array<half_t> reads past the value that it is given")
    check(harness, name, None, data_seed=0, padding=1)


@given(
    name=st.sampled_from(list(OPERATORS)),
    schedule=schedules(),
    data_seed=st.integers(0, 2**31),
    padding=st.integers(0, 5),
)
def test_map_is_where_the_stock_iterator_stores(harness, name, schedule, data_seed, padding):
    assume(runs(harness, name))
    check(harness, name, schedule, data_seed, padding)


def check(harness, name, schedule, data_seed, padding):
    shape = torch.zeros(4 + 32 * 64, dtype=torch.int32)
    harness.call(UNIT, f"{name}_shape", shape)
    rows, columns, rows_per_thread, row_mask = shape[:4].tolist()
    row_of = shape[4 : 4 + 32 * rows_per_thread].view(32, rows_per_thread)
    generator = torch.Generator().manual_seed(data_seed)
    dtype = ACCUMULATORS.get(name.rpartition("_")[0], torch.float32)
    # Distinct integers: whatever is permuted shows.
    values = torch.randperm(rows * columns, generator=generator).to(dtype) - rows * columns // 2
    # A vector of the stock SIMT iterator is four elements.
    ld = columns + 4 * padding
    canary = -6e4

    def run(values):
        """The tile that was stored, and each lane's maxima and sums of its rows."""
        stock, mapped = (
            harness.tensor(torch.full((rows + 1, ld), canary, dtype=dtype)) for _ in range(2)
        )
        maximum, total = (
            harness.tensor(torch.zeros(32, rows_per_thread, dtype=dtype)) for _ in range(2)
        )
        fragment = harness.tensor(values)
        harness.call(UNIT, name, fragment, stock, mapped, maximum, total, ld, schedule=schedule)
        assert torch.equal(stock, mapped)
        assert (mapped[:, columns:] == canary).all() and (mapped[rows:] == canary).all()
        return mapped[:rows, :columns].cpu(), maximum.cpu(), total.cpu()

    tile, maximum, total = run(values)
    assert torch.equal(tile.flatten().sort().values, values.sort().values), "not one to one"
    assert torch.equal(maximum, tile.max(dim=1).values[row_of.long()])
    if dtype == torch.float16:
        # Sums are exact in any order up to 2^11 only.
        tile, _, total = run(values.remainder(16) - 8)
    assert torch.equal(total, tile.sum(dim=1)[row_of.long()])
    # The mask holds exactly the lane bits that leave a lane's rows alone.
    lanes = torch.arange(32)
    for bit in (1, 2, 4, 8, 16):
        shares = torch.equal(row_of[lanes ^ bit], row_of)
        assert bool(row_mask & bit) == shares


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("f16_32x32", [0, 1, 2, 3]),
        ("sm75_32x32", [0, 1, 2, 3]),
        ("tf32x3_32x32", [0, 1, 2, 3]),
        ("sm70_32x32", [0, 2, 8, 10]),
        ("sm70_f16_32x32", [0, 8]),
        ("simt_32x32", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("simt_32x64", [0, 2, 4, 6, 8, 10, 12, 14]),
    ],
)
def test_lanes_that_share_row_0(harness, name, lanes):
    """As measured from stock iterators."""
    shape = torch.zeros(4 + 32 * 64, dtype=torch.int32)
    harness.call(UNIT, f"{name}_shape", shape)
    row_of = shape[4 : 4 + 32 * int(shape[2])].view(32, -1)
    assert [lane for lane in range(32) if (row_of[lane] == 0).any()] == lanes
