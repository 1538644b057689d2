"""StridedOutputIterator: rows anywhere in memory, at the traffic of rows one after another."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import accesses_of, elements_read, elements_written
from cutlass_ext.testing.device_code import Unit, schedules
from cutlass_ext.testing.stock_epilogues import TYPES, Configuration, table

CONFIGURATIONS = table(
    Configuration("simt", (64, 64), (32, 32), "float", 1, "float"),
    Configuration("sm75", (64, 64), (32, 32), "half_t", 8, "half_t"),
    Configuration("f16", (128, 128), (64, 64), "half_t", 8, "half_t"),
    Configuration("f16", (128, 16), (32, 16), "float", 4, "float"),
    Configuration("bf16", (64, 128), (32, 64), "bfloat16_t", 8, "bfloat16_t"),
    Configuration("tf32x3", (128, 64), (32, 64), "float", 4, "float"),
)
UNIT = Unit(
    name="test_strided_output_iterator",
    headers=("strided_output_iterator.h",),
    functions=tuple(
        (f"permuted_{name}", f"permuted<{c.mma}, {c.epilogue}>")
        for name, c in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
STOCK, STOCK_SCATTER, STRIDED, GATHERED, TWO_LEVEL, TWO_LEVEL_STOCK_ASPECT = range(6)
CANARY = -77


@dataclass
class Rows:
    """Where rows lie: in elements from the matrix's first one."""

    first: torch.Tensor
    indices: torch.Tensor
    rows_in_group: int
    group_stride: int
    row_stride: int

    @property
    def arguments(self):
        return (self.indices, self.rows_in_group, self.group_stride, self.row_stride)

    def elements(self, columns, rows=None):
        return self.first[:rows, None] + torch.arange(columns)


def draw_rows(draw, harness, way, rows, pitch):
    """A map of `rows` rows at multiples of `pitch`, of the kind that `way` takes."""
    group, group_stride, row_stride = 1, 0, pitch
    indices = torch.arange(rows)
    if way in (GATHERED, STOCK_SCATTER):
        seed = draw(st.integers(0, 2**31))
        places = rows + draw(st.integers(0, 4))
        indices = torch.randperm(places, generator=torch.Generator().manual_seed(seed))[:rows]
        first = indices * pitch
    elif way in (TWO_LEVEL, TWO_LEVEL_STOCK_ASPECT):
        group = draw(st.integers(1, rows + 1))
        groups = -(-rows // group)
        # Groups one after another, or interleaved: [g, r] or [r, g] in memory.
        group_stride, row_stride = draw(
            st.sampled_from(((group * pitch, pitch), (pitch, groups * pitch)))
        )
        first = indices // group * group_stride + indices % group * row_stride
    else:
        first = indices * pitch
    return Rows(first, harness.tensor(indices.int()), group, group_stride, row_stride)


class Problem:
    def __init__(self, draw, harness, name, way, integers=True):
        c = CONFIGURATIONS[name]
        self.harness, self.name, self.way = harness, name, way
        self.dtype = TYPES[c.output]
        # The matrix may end before the tile, or go on beyond.
        self.rows = draw(st.integers(1, c.tile[0]) | st.just(4 * c.tile[0]))
        self.columns = c.vector * draw(st.integers(1, c.tile[1] // c.vector + 2))
        self.covered = tuple(map(min, c.tile, (self.rows, self.columns)))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

        def values(*shape):
            if integers:
                return torch.randint(-64, 65, shape, generator=generator).float()
            return torch.randn(*shape, generator=generator)

        self.accumulators = values(*c.tile)
        self.values = values(self.rows, self.columns).to(self.dtype)
        # Rows begin at sectors of 32 bytes, as they do in every matrix of some width.
        sector = 32 // self.dtype.itemsize
        self.pitches = [
            sector * (-(-self.columns // sector) + draw(st.integers(0, 1))) for _ in range(2)
        ]
        self.place(draw)

    def place(self, draw):
        self.source_rows, self.output_rows = (
            draw_rows(draw, self.harness, self.way, self.rows, pitch) for pitch in self.pitches
        )
        self.source = self.matrix(self.source_rows, float("nan"))
        self.source.view(-1)[self.source_rows.elements(self.columns)] = self.values
        self.source = self.harness.tensor(self.source)
        self.reset_output()

    def matrix(self, rows, value):
        size = int(rows.first.max()) + max(self.pitches)
        return torch.full((size,), value, dtype=self.dtype)

    def reset_output(self):
        self.output = self.harness.tensor(self.matrix(self.output_rows, CANARY))

    @property
    def expected(self):
        rows, columns = self.covered
        sums = self.accumulators[:rows, :columns] + self.values[:rows, :columns].float()
        expected = self.matrix(self.output_rows, CANARY)
        expected[self.output_rows.elements(columns, rows)] = sums.to(self.dtype)
        return expected

    def run(self, way=None, **options):
        return self.harness.call(
            UNIT,
            f"permuted_{self.name}",
            *(self.way if way is None else way, self.harness.tensor(self.accumulators)),
            *(self.source, self.output, self.rows, self.columns),
            *(*self.source_rows.arguments, *self.output_rows.arguments),
            **options,
        )


names = st.sampled_from(list(CONFIGURATIONS))
ways = st.sampled_from((STRIDED, GATHERED, TWO_LEVEL, TWO_LEVEL_STOCK_ASPECT))


@given(data=st.data(), name=names, way=ways, schedule=schedules())
def test_equals_indexing(harness, data, name, way, schedule):
    problem = Problem(data.draw, harness, name, way)
    problem.run(schedule=schedule)
    assert torch.equal(problem.output.cpu(), problem.expected)


@given(data=st.data(), name=names)
def test_equals_the_stock_scatter(harness, data, name):
    problem = Problem(data.draw, harness, name, GATHERED, integers=False)
    problem.source.zero_()  # the stock scatter is called without
    problem.run()
    ours = problem.output.cpu()
    problem.reset_output()
    problem.run(STOCK_SCATTER)
    assert torch.equal(ours, problem.output.cpu())


@given(data=st.data(), name=names)
def test_equals_the_stock_iterator(harness, data, name):
    problem = Problem(data.draw, harness, name, STRIDED, integers=False)
    problem.run()
    ours = problem.output.cpu()
    problem.reset_output()
    problem.run(STOCK)
    assert torch.equal(ours, problem.output.cpu())


@given(data=st.data(), name=names, way=ways)
def test_each_element_is_read_and_stored_once(logging_harness, data, name, way):
    problem = Problem(data.draw, logging_harness, name, way)
    log = problem.run(log=True)
    rows, columns = problem.covered
    for counts, places in (
        (elements_read(log, problem.source), problem.source_rows),
        (elements_written(log, problem.output), problem.output_rows),
    ):
        assert (counts[places.elements(columns, rows).numpy()] == 1).all()
        assert counts.sum() == rows * columns


@given(data=st.data(), name=names, way=ways)
def test_traffic_is_that_of_the_stock_iterator(logging_harness, data, name, way):
    """Each warp touches the same 32-byte sectors of each row, in as many accesses."""
    problem = Problem(data.draw, logging_harness, name, way)
    permuted = problem.run(log=True)
    ours = sectors(permuted, problem)
    problem.way = STOCK
    problem.place(data.draw)
    stock = sectors(problem.run(log=True), problem)
    assert ours == stock


def sectors(log, problem):
    """(warp, row, sector in the row, accesses of it) of the loads and of the stores."""
    result = []
    for kind, matrix, rows in (
        ("load", problem.source, problem.source_rows),
        ("store", problem.output, problem.output_rows),
    ):
        accesses = log[accesses_of(log, matrix, kind)]
        order = np.argsort(rows.first.numpy())
        element = (accesses["address"].astype(np.int64) - matrix.data_ptr()) // matrix.itemsize
        position = np.searchsorted(rows.first.numpy()[order], element, side="right") - 1
        row = order[position]
        within = (element - rows.first.numpy()[row]) * matrix.itemsize // 32
        touched = np.stack((accesses["thread"].astype(np.int64) // 32, row, within), axis=1)
        result.append([x.tolist() for x in np.unique(touched, axis=0, return_counts=True)])
    return result


@given(data=st.data(), name=names, way=st.sampled_from((STRIDED, GATHERED, TWO_LEVEL)))
def test_offsets_beyond_32_bits(harness, vast, data, name, way):
    """Rows so far apart that their offsets exceed 2^31 elements."""
    problem = Problem(data.draw, harness, name, way)
    problem.rows, problem.columns = 6, problem.covered[1]
    problem.values = 2 * problem.accumulators[: problem.rows, : problem.columns].to(problem.dtype)
    far = 2**29 + 64  # a multiple of any vector; the last row begins beyond 2^31
    order = torch.arange(problem.rows)
    group, group_stride, row_stride = 1, 0, far
    if way == TWO_LEVEL:
        group, group_stride, row_stride = 2, 2 * far, far
    rows = Rows(order * far, harness.tensor(order.int()), group, group_stride, row_stride)
    problem.source_rows = problem.output_rows = rows
    problem.output = problem.source = vast.view(problem.dtype)
    views = torch.as_strided(problem.output, (problem.rows, problem.columns), (far, 1))
    views.copy_(problem.values)
    problem.run()
    sums = problem.accumulators[: problem.rows, : problem.columns] + problem.values.float()
    assert torch.equal(views.cpu(), sums.to(problem.dtype))


@pytest.fixture(scope="module")
def vast(harness):
    """Bytes for 2^31 elements of f32 and more; on the host only those touched take memory."""
    size = 4 * (2**31 + 2**30)
    if harness.device != "host":
        return torch.empty(size, dtype=torch.uint8, device="cuda")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8)
