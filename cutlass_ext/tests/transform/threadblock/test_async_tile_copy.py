"""AsyncTileCopy: what is in range arrives once, zeros stand for the rest, nothing else is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from cutlass_ext.testing.device_code import Unit, schedules


@dataclass(frozen=True)
class Case:
    mma: str
    access: str
    dtype: torch.dtype
    rows: int
    columns: int

    @property
    def vector(self) -> int:
        return 1 if self.access == "kElement" else 16 // self.dtype.itemsize


def _f16(layout: str, n: int, k: int) -> str:
    return (
        f"Sm80Mma<half_t, GemmShape<64, {n}, {k}>, GemmShape<32, {n // 2}, {k}>, "
        f"GemmShape<16, 8, 16>, Row, {layout}, 3>"
    )


CASES = {
    f"{name}_{access}": Case(mma, access, dtype, rows, columns)
    for name, (mma, dtype, rows, columns) in {
        "keys": (_f16("Column", 64, 64), torch.float16, 64, 64),
        "keys_32": (_f16("Column", 128, 32), torch.float16, 128, 32),
        "values": (_f16("Row", 128, 32), torch.float16, 32, 128),
        "values_64": (_f16("Row", 64, 64), torch.float16, 64, 64),
        "tf32": (
            "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<32, 32, 16>, Row, Column, 3>",
            torch.float32,
            64,
            16,
        ),
    }.items()
    for access in ("kAligned", "kElement")
}
UNIT = Unit(
    name="test_async_tile_copy",
    headers=("async_tile_copy.h",),
    functions=tuple(
        (name, f"harness::async_tile_copy<{case.mma}, TileAccess::{case.access}>")
        for name, case in CASES.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
)


@st.composite
def tiles(draw, case: Case) -> tuple[int, int, int, int, bool]:
    """rows, columns, stride and offset of the source in elements, whether rows are predicated."""
    vector = case.vector
    columns = draw(st.integers(0, case.columns // vector + 2)) * vector
    whole = draw(st.booleans())
    rows = case.rows if whole else draw(st.integers(0, case.rows + 3))
    stride = max(columns, vector) + draw(st.integers(0, 3)) * vector
    offset = draw(st.integers(0, 3)) * vector
    return rows, columns, stride, offset, not whole or draw(st.booleans())


@given(
    name=st.sampled_from(sorted(CASES)),
    data=st.data(),
    schedule=schedules(),
    seed=st.integers(0, 2**31),
)
def test_copy(harness, name, data, schedule, seed):
    case = CASES[name]
    rows, columns, stride, offset, partial = data.draw(tiles(case))
    generator = torch.Generator().manual_seed(seed)
    # NaN everywhere but in range: what is read outside shows.
    memory = torch.full((offset + max(rows, 1) * stride,), float("nan"), dtype=case.dtype)
    source = memory[offset:].view(max(rows, 1), stride)
    source[:rows, :columns] = torch.randn(rows, columns, generator=generator)
    expected = torch.zeros(case.rows, case.columns, dtype=case.dtype)
    copied_rows, copied_columns = min(rows, case.rows), min(columns, case.columns)
    expected[:copied_rows, :copied_columns] = source[:copied_rows, :copied_columns]

    memory = harness.tensor(memory)
    tile = harness.tensor(torch.full_like(expected, float("nan")))
    arguments = (int(partial), rows, columns, memory[offset:], stride, tile)
    harness.call(UNIT, name, *arguments, schedule=schedule)
    assert torch.equal(tile.cpu(), expected)


@given(name=st.sampled_from(sorted(CASES)), data=st.data())
def test_reads_each_element_in_range_once(harness, name, data):
    if harness.device != "host":
        pytest.skip("accesses are logged on the host")
    case = CASES[name]
    rows, columns, stride, offset, partial = data.draw(tiles(case))
    memory = torch.zeros(offset + max(rows, 1) * stride, dtype=case.dtype)
    tile = torch.zeros(case.rows, case.columns, dtype=case.dtype)
    arguments = (int(partial), rows, columns, memory[offset:], stride, tile)
    log = harness.call(UNIT, name, *arguments, log=True)

    size = case.dtype.itemsize
    begin = memory.data_ptr()
    read = log[
        np.isin(log["kind"], ("load", "cp_async"))
        & (log["space"] == "global")
        & (log["address"] >= begin)
        & (log["address"] < begin + memory.numel() * size)
    ]
    touched = np.concatenate(
        [np.arange(a, a + n, size) for a, n in zip(read["address"], read["bytes"], strict=True)]
        or [np.empty(0, dtype=np.uint64)]
    )
    r = np.arange(min(rows, case.rows))[:, None]
    c = np.arange(min(columns, case.columns))[None, :]
    expected = begin + (offset + r * stride + c) * size
    assert np.array_equal(np.sort(touched.astype(np.int64)), np.sort(expected.ravel()))
