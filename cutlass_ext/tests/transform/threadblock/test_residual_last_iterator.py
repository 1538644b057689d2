"""ResidualLast: each element in range once, nothing outside; tiles as of fresh stock iterators."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from cutlass_ext.testing.device_code import Unit, schedules

_MATRIX = "cutlass::MatrixShape<{}>"
_PITCH_LINEAR = "cutlass::PitchLinearShape<{}>"
# name: (shape of a tile, element, layout, advance rank, thread map: contiguous, strided, vector,
#        elements an access, over vectors)
CONFIGURATIONS = {
    "row_major_along_rows": ("16, 32", "half_t", "Row", 0, (32, 16, 8), 8, True),
    "row_major_along_columns": ("16, 32", "half_t", "Row", 1, (32, 16, 8), 8, True),
    "column_major_along_rows": ("32, 8", "float", "Column", 0, (32, 8, 4), 4, True),
    "column_major_along_columns": ("32, 8", "float", "Column", 1, (32, 8, 4), 4, True),
    "several_accesses_a_vector": ("16, 32", "half_t", "Row", 1, (32, 16, 8), 2, True),
    "alignment_1": ("8, 16", "float", "Row", 0, (16, 8, 1), 1, True),
    "pitch_linear": ("32, 8", "float", "PitchLinear", 0, (32, 8, 4), 1, True),
    "fragments_along_rows": ("16, 32", "half_t", "Row", 0, (32, 16, 8), 8, False),
    "fragments_along_columns": ("16, 32", "half_t", "Row", 1, (32, 16, 8), 2, False),
    "fragments_column_major": ("16, 8", "float", "Column", 0, (16, 8, 1), 1, False),
    "fragments_pitch_linear": ("32, 8", "float", "PitchLinear", 1, (32, 8, 4), 4, False),
    "bf16": ("8, 64", "bfloat16_t", "Row", 1, (64, 8, 8), 4, True),
    "f64": ("16, 16", "double", "Row", 0, (16, 16, 2), 2, True),
    "fragments_f64": ("8, 16", "double", "Column", 1, (8, 16, 1), 1, False),
    # As in two-stage Mmas of one warp for tensor cores.
    "sm70_a": ("32, 32", "half_t", "Row", 1, (32, 32, 8), 8, False),
    "sm70_b": ("32, 64", "half_t", "Row", 0, (64, 32, 8), 2, False),
    "sm75_a": ("64, 32", "half_t", "Column", 1, (64, 32, 8), 4, False),
    "sm75_b": ("32, 32", "half_t", "Column", 0, (32, 32, 8), 8, False),
}
# Iterators of these Mmas; their shapes and thread maps are those above.
STOCK = {
    "sm70_a": "Sm70Mma<GemmShape<32, 64, 32>, GemmShape<32, 64, 32>, Row, Row, 8>::IteratorA",
    "sm70_b": "Sm70Mma<GemmShape<32, 64, 32>, GemmShape<32, 64, 32>, Row, Row, 2>::IteratorB",
    "sm75_a": "Sm75Mma<GemmShape<64, 32, 32>, GemmShape<64, 32, 32>, Column, Column, 4>::IteratorA",
    "sm75_b": "Sm75Mma<GemmShape<64, 32, 32>, GemmShape<64, 32, 32>, Column, Column, 8>::IteratorB",
}
DTYPES = {
    "half_t": torch.float16,
    "bfloat16_t": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}
THREADS = 32
SEEK, REWIND, ALONG, ACROSS, CLEAR, NEXT = range(6)


def _iterator(tile, element, layout, rank, thread_map, access, over_vectors):
    shape = (_PITCH_LINEAR if layout == "PitchLinear" else _MATRIX).format(tile)
    layout = f"cutlass::layout::{layout}" if layout == "PitchLinear" else layout
    family = "AccessIterator" if over_vectors else "FragmentIterator"
    threads = f"StripminedMap<{', '.join(map(str, thread_map))}>"
    return f"{family}<{shape}, {element}, {layout}, {rank}, {threads}, {access}>"


UNIT = Unit(
    name="test_residual_last_iterator",
    headers=("stock_mma.h", "residual_last_iterator.h"),
    functions=tuple(
        (name, f"residual_last<{STOCK.get(name) or _iterator(*parts)}, {str(parts[-1]).lower()}>")
        for name, parts in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
)


class Problem:
    """A tensor of non-zero values; NaN after each line, no memory after the last."""

    def __init__(self, draw, harness, name):
        """`draw(strategy)`, or None: a tensor of three and a half tiles by as many."""
        tile, element, layout, rank, thread_map, access, self.over_vectors = CONFIGURATIONS[name]
        self.harness, self.name = harness, name
        self.tile, self.rank = tuple(map(int, tile.split(","))), rank
        self.dtype = DTYPES[element]
        # Index of the contiguous coordinate.
        self.contiguous = 1 if layout == "Row" else 0
        unit = [1, 1]
        unit[self.contiguous] = access
        most = [int(3.5 * t) // u for u, t in zip(unit, self.tile, strict=True)]
        self.extent = [
            u * (draw(st.one_of(st.integers(n // 3, n), st.integers(0, n))) if draw else n)
            for u, n in zip(unit, most, strict=True)
        ]
        self.offset = [
            u * (draw(st.one_of(st.just(0), st.integers(0, e // u))) if draw else 0)
            for u, e in zip(unit, self.extent, strict=True)
        ]
        padding = draw(st.integers(0, 2)) if draw else 1
        self.ld = self.extent[self.contiguous] + access * padding
        lines = self.extent[1 - self.contiguous]
        # f16 holds integers up to 2048 exactly; bf16 rounds them, on both sides.
        values = torch.full((lines, max(self.ld, 1)), float("nan"))
        length = self.extent[self.contiguous]
        values[:, :length] = (torch.arange(lines * length) % 2039 + 1).view(lines, length)
        self.exists = ~values.isnan()
        self.values = values.to(self.dtype)
        self.elements = thread_map[0] * thread_map[1] // THREADS
        self.vectors = self.elements // access
        self.access = access

    def run(self, moves, schedule):
        steps = len(moves) + 1
        harness = self.harness
        data = harness.tensor(self.values)
        flat = torch.tensor(moves or [(0, 0)], dtype=torch.int32)
        residual, stock = (
            harness.tensor(torch.zeros(steps, THREADS, self.elements, dtype=self.dtype))
            for _ in range(2)
        )
        addresses, expected = (
            harness.tensor(torch.zeros(steps, THREADS, self.vectors, dtype=torch.int64))
            for _ in range(2)
        )
        position = harness.tensor(torch.zeros(steps, 2, dtype=torch.int32))
        harness.call(
            UNIT,
            self.name,
            *(data, *self.extent, *self.offset, self.ld, harness.tensor(flat), len(moves)),
            *(residual, stock, addresses, expected, position),
            schedule=schedule,
        )
        return [x.cpu() for x in (residual, stock, addresses, expected, position)]

    @property
    def tiles(self):
        length = self.extent[self.rank] - self.offset[self.rank]
        return -(-length // self.tile[self.rank])


_STEPS = st.one_of(
    st.tuples(st.just(ALONG), st.integers(-2, 3)),
    st.tuples(st.just(NEXT), st.just(0)),
)
MOVES = st.lists(
    st.one_of(
        _STEPS,
        _STEPS,
        st.tuples(st.just(SEEK), st.integers(-1, 4)),
        st.tuples(st.just(REWIND), st.integers(-2, 3)),
        st.tuples(st.just(ACROSS), st.integers(0, 2)),
        st.tuples(st.just(CLEAR), st.sampled_from((1, 1, 0))),
    ),
    min_size=2,
    max_size=10,
)


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    moves=MOVES,
    schedule=schedules(),
)
def test_each_tile_is_a_fresh_stock_iterator(harness, data, name, moves, schedule):
    """Addresses, predicates and values after any moves, in both dimensions."""
    problem = Problem(data.draw, harness, name)
    residual, stock, addresses, expected, position = problem.run(moves, schedule)
    assert torch.equal(residual, stock), "values"
    assert not residual.isnan().any()
    if problem.over_vectors:
        assert torch.equal(addresses, expected), "addresses or predicates"
    tile, cleared = 0, False
    for step, (kind, amount) in enumerate([(NEXT, 0), *moves]):
        if step > 0:
            tile = {
                SEEK: amount,
                REWIND: tile - amount,
                ALONG: tile + amount,
                ACROSS: tile + amount % 3,
                CLEAR: tile,
                NEXT: tile + 1,
            }[kind]
            cleared = kind not in (SEEK, REWIND) and (cleared or (kind == CLEAR and amount == 1))
        assert position[step].tolist() == [tile, problem.tiles]
        if cleared or not 0 <= tile < problem.tiles:
            assert not residual[step].any(), "an access outside the tiles, or after clear_mask"


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_every_element_once(harness, data, name, schedule):
    """All tiles in ascending order, and the ones across: the whole rest of the tensor, once."""
    problem = Problem(data.draw, harness, name)
    across = 1 - problem.rank
    rows = -(-(problem.extent[across] - problem.offset[across]) // problem.tile[across])
    moves = []
    for row in range(max(rows, 1)):
        # Overshoot by a tile at the end of each row of tiles, as a main loop does.
        moves += [(NEXT, 0)] * problem.tiles
        if row + 1 < rows:
            moves += [(ACROSS, 1), (SEEK, 0)]
    residual, _, addresses, _, _ = problem.run(moves, schedule)
    assert not residual.isnan().any()
    counts = torch.zeros_like(problem.values, dtype=torch.int32).flatten()
    if problem.over_vectors:
        start = addresses[addresses >= 0]
        for i in range(problem.access):
            counts.index_add_(0, start + i, torch.ones_like(start, dtype=torch.int32))
    else:
        values = residual[residual != 0].float().long()
        seen = torch.bincount(values, minlength=2040)
        wanted = problem.values[inside(problem)].float().long()
        assert torch.equal(seen, torch.bincount(wanted, minlength=2040))
        return
    assert torch.equal(counts.view(problem.values.shape), inside(problem).int())


def inside(problem):
    """Which elements in memory lie in range, from the offset on."""
    chosen = torch.zeros_like(problem.exists)
    line, first = problem.offset[1 - problem.contiguous], problem.offset[problem.contiguous]
    chosen[line:, first:] = problem.exists[line:, first:]
    return chosen


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("step", [(1, 0), (0, 1), (1, 1), (2, 3)])
@pytest.mark.parametrize("before", [0, 1])
def test_moves_that_stock_iterators_get_wrong(harness, name, step, before):
    """add_tile_offset before and after the first tile: stock steps across without element size."""
    problem = Problem(None, harness, name)
    along, across = step
    # ACROSS moves along by its amount modulo 3.
    moves = [(NEXT, 0)] * before + [(ACROSS, across), (ALONG, along - across % 3)]
    residual, stock, addresses, expected, _ = problem.run(moves, None)
    assert torch.equal(residual, stock) and torch.equal(addresses, expected)
