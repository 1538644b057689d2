"""Tile schedulers: every tile once, for any extents and any number of blocks."""

from __future__ import annotations

import itertools
from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.device_code import Unit

ROWS = 16
_ASCENDING, _DESCENDING = f"{ROWS}, TileOrder::kAscending", f"{ROWS}, TileOrder::kDescending"
UNIT = Unit(
    name="test_tile_scheduler",
    headers=("tile_scheduler.h",),
    functions=(
        ("dense", f"dense<{_ASCENDING}>"),
        ("dense_descending", f"dense<{_DESCENDING}>"),
        ("dense_large", "dense<(1 << 29), TileOrder::kAscending>"),
        ("segments", f"segments<{_ASCENDING}>"),
        ("segments_descending", f"segments<{_DESCENDING}>"),
        ("grouped", "grouped"),
    ),
    directory=Path(__file__).parents[2] / "harness",
)
CAPACITY = 4096

# Rows of segments: none, a few, around a tile's end, many.
lengths = st.lists(
    st.one_of(st.just(0), st.integers(1, 5), st.integers(ROWS - 1, ROWS + 1), st.integers(0, 100)),
    max_size=20,
)
blocks = st.one_of(st.just(0), st.integers(1, 40))
orders = st.sampled_from(("", "_descending"))


def run(harness, function, *arguments, blocks) -> list[tuple[int, ...]]:
    """What all blocks were given, ordered by block and turn: group, member, tile, rows, first row,
    block, turn."""
    count = harness.tensor(torch.zeros(1, dtype=torch.int32))
    works = harness.tensor(torch.full((CAPACITY, 7), -1, dtype=torch.int64))
    harness.call(UNIT, function, *arguments, count, works, CAPACITY, blocks)
    found = works[: int(count.item())].cpu()
    return sorted(map(tuple, found.tolist()), key=lambda work: work[5:])


def tiles(rows: int) -> int:
    return -(-rows // ROWS)


def assert_ordered(works, descending: bool) -> None:
    """A group's tiles come to a block in their order."""
    for _, mine in itertools.groupby(works, key=lambda work: work[5]):
        for _, alike in itertools.groupby(mine, key=lambda work: work[:1]):
            of_group = [work[2] for work in alike]
            assert of_group == sorted(of_group, reverse=descending)


@given(
    groups=st.integers(0, 6), members=st.integers(0, 4), rows=st.integers(0, 100), order=orders,
    blocks=blocks,
)  # fmt: skip
def test_dense_tiles_once(harness, groups, members, rows, order, blocks):
    works = run(harness, f"dense{order}", groups, members, rows, blocks=blocks)
    expected = {
        (group, member, tile, rows, group * rows)
        for group in range(groups)
        for member in range(members)
        for tile in range(tiles(rows))
    }
    assert len(works) == len(expected)
    assert {work[:5] for work in works} == expected
    assert_ordered(works, bool(order))


@given(
    lengths=lengths, members=st.integers(0, 4), spare=st.integers(0, 50), order=orders,
    blocks=blocks,
)  # fmt: skip
def test_segments_tiles_once(harness, lengths, members, spare, order, blocks):
    """The packed tensor may have rows behind the last segment."""
    boundaries = list(itertools.accumulate(lengths, initial=0))
    works = run(
        harness,
        f"segments{order}",
        harness.tensor(torch.tensor(boundaries, dtype=torch.int32)),
        *(len(lengths), members, boundaries[-1] + spare),
        blocks=blocks,
    )
    expected = {
        (segment, member, tile, length, boundaries[segment])
        for segment, length in enumerate(lengths)
        for member in range(members)
        for tile in range(tiles(length))
    }
    assert len(works) == len(expected)
    assert {work[:5] for work in works} == expected
    assert_ordered(works, bool(order))


@given(lengths=lengths, blocks=st.integers(1, 40))
def test_grouped_tiles_once(harness, lengths, blocks):
    """In contiguous ranges whose lengths differ by one at most."""
    first = list(itertools.accumulate(map(tiles, lengths), initial=0))
    listed = harness.tensor(torch.tensor(first, dtype=torch.int32))
    works = run(harness, "grouped", listed, len(lengths), 0, first[-1], blocks=blocks)
    expected = [(group, tile) for group, n in enumerate(lengths) for tile in range(tiles(n))]
    assert [(work[0], work[2]) for work in works] == expected
    counts = [sum(work[5] == block for work in works) for block in range(blocks)]
    assert max(counts) - min(counts) <= 1


@given(groups=st.integers(0, 6), members=st.integers(1, 3), rows=st.integers(0, 100), blocks=blocks)
def test_all_three_agree_on_equal_groups(harness, groups, members, rows, blocks):
    boundaries = torch.arange(groups + 1, dtype=torch.int32) * rows
    dense = run(harness, "dense", groups, members, rows, blocks=blocks)
    segments = run(
        *(harness, "segments", harness.tensor(boundaries), groups, members, groups * rows),
        blocks=blocks,
    )
    assert {work[:5] for work in dense} == {work[:5] for work in segments}
    count = groups * members * tiles(rows)
    grouped = run(
        *(harness, "grouped", 0, groups * members, max(tiles(rows), 1), count),
        blocks=max(blocks, 1),
    )
    pairs = {(work[0] * members + work[1], work[2]) for work in dense}
    assert {(work[0], work[2]) for work in grouped} == pairs


def test_rows_beyond_32_bits(harness):
    rows = 2**31 - 1
    works = run(harness, "dense_large", 5, 1, rows, blocks=0)
    assert [work[:5] for work in works] == [
        (group, 0, tile, rows, group * rows) for group in range(5) for tile in range(4)
    ]
