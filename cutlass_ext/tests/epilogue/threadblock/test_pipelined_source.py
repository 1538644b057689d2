"""PipelinedSource: the source arrives early, whole, in any type, at its own coordinates."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import assume, given

from cutlass_ext.testing.access_log import accesses_of, elements_read, elements_written
from cutlass_ext.testing.device_code import Unit, schedules
from cutlass_ext.testing.stock_epilogues import TYPES, Configuration, table

# Each source with each output, and then each family and tile.
_OF_TYPES = table(
    *(
        Configuration("f16", (64, 64), (32, 32), output, vector, source)
        for output, vector in (("half_t", 8), ("bfloat16_t", 8), ("float", 4))
        for source in TYPES
    )
)
_OF_TILES = table(
    Configuration("simt", (64, 64), (32, 32), "float", 1, "float"),
    Configuration("simt", (128, 128), (32, 64), "half_t", 1, "int"),
    Configuration("sm75", (64, 64), (32, 32), "half_t", 8, "half_t"),
    Configuration("sm75", (128, 64), (64, 32), "float", 4, "bfloat16_t"),
    Configuration("f16", (128, 128), (64, 64), "half_t", 8, "float"),
    Configuration("f16", (128, 32), (32, 32), "half_t", 8, "half_t"),
    Configuration("f16", (128, 16), (32, 16), "float", 4, "half_t"),
    Configuration("f16", (64, 64), (32, 32), "half_t", 1, "half_t"),
    Configuration("bf16", (64, 128), (32, 64), "bfloat16_t", 8, "bfloat16_t"),
    Configuration("tf32", (64, 64), (32, 32), "float", 4, "float"),
    Configuration("tf32x3", (64, 128), (32, 64), "float", 4, "float"),
)
CONFIGURATIONS = {**_OF_TYPES, **_OF_TILES}
LIKE_STOCK = [name for name, c in CONFIGURATIONS.items() if c.source == c.output]
UNIT = Unit(
    name="test_pipelined_source",
    headers=("pipelined_source.h",),
    functions=tuple(
        (f"linear_{name}", f"linear<{c.mma}, {c.epilogue}, {c.source}>")
        for name, c in CONFIGURATIONS.items()
    )
    + tuple(
        (f"coordinates_{name}", f"coordinates<{c.mma}, {c.epilogue}, {c.source}>")
        for name, c in _OF_TILES.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
CANARY = -77
depths = st.sampled_from((1, 2))


class Problem:
    """A tile of random matrices, which may end before it or go on beyond.

    Whatever lies beside an extent is NaN in the source.
    """

    def __init__(self, draw, harness, name, whole=False):
        c = CONFIGURATIONS[name]
        self.harness, self.name = harness, name
        self.rows, self.columns = c.tile
        if not whole:
            self.rows = draw(st.integers(1, c.tile[0]) | st.just(4 * c.tile[0]))
            self.columns = c.vector * draw(st.integers(1, c.tile[1] // c.vector + 2))
        self.covered = tuple(map(min, c.tile, (self.rows, self.columns)))
        self.source_ld, self.output_ld = (
            self.columns + c.vector * draw(st.integers(0, 2)) for _ in range(2)
        )
        self.dtype, source_dtype = TYPES[c.output], TYPES[c.source]
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

        def integers(bound, *shape):
            return torch.randint(-bound, bound + 1, shape, generator=generator)

        self.accumulators = integers(512, *c.tile).float()
        self.reals = torch.randn(c.tile, generator=generator)
        self.row_data = integers(4, self.rows).float()
        self.column_data = integers(4, self.columns).float()
        fraction = 1 if c.source == "int" else 1024
        self.source = (integers(2**17, self.rows, self.columns) / fraction).to(source_dtype)
        self.reset_output()
        self.stray = harness.tensor(torch.zeros(1, dtype=torch.int32))
        self.steps = harness.tensor(torch.zeros(1, dtype=torch.int32))

    @property
    def padded_source(self):
        whole = torch.full(
            (self.rows, self.source_ld),
            float("nan") if self.source.is_floating_point() else -1,
            dtype=self.source.dtype,
        )
        whole[:, : self.columns] = self.source
        return self.harness.tensor(whole)

    def reset_output(self):
        self.output = self.harness.tensor(
            torch.full((self.rows + 1, self.output_ld), CANARY, dtype=self.dtype)
        )

    def canvas(self, result, around=None):
        """`result` in the tile, with what must not have changed around it."""
        expected = torch.full((self.rows + 1, self.output_ld), CANARY, dtype=self.dtype)
        expected[: self.rows, : self.columns] = around if around is not None else CANARY
        rows, columns = self.covered
        expected[:rows, :columns] = result.to(self.dtype)
        return expected

    @property
    def tiles(self):
        """Accumulators and source of the tile, as far as it exists."""
        rows, columns = self.covered
        return self.accumulators[:rows, :columns], self.source[:rows, :columns]

    def call(self, function, *first, source=None, last=(), schedule=None, log=False):
        self.memory = self.padded_source if source is None else source
        ld = self.source_ld if source is None else self.output_ld
        return self.harness.call(
            UNIT,
            f"{function}_{self.name}",
            *first,
            *(self.harness.tensor(self.accumulators), self.memory, self.output),
            *(ld, self.output_ld, self.rows, self.columns, self.steps),
            *last,
            schedule=schedule,
            log=log,
        )

    def linear(self, depth, alpha=4, beta=4, **options):
        return self.call("linear", depth, alpha, beta, **options)

    def coordinates(self, depth, **options):
        data = [self.harness.tensor(x) for x in (self.row_data, self.column_data)]
        return self.call("coordinates", depth, last=(*data, self.stray), **options)


def linear_combination(accumulators, source, alpha, beta):
    """round32(alpha * accumulators + round32(beta * source)), as LinearCombination does it.

    Exact before each rounding: products of at most 24 bits with 5, and sums of multiples of 2^-12
    (of 2^-24 where the source is f32) below 2^23 fit into the 53 bits of a double.
    """
    addend = (beta / 4 * source.double()).float()
    return (alpha / 4 * accumulators.double() + addend.double()).float()


scalars = st.integers(-15, 15)


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    depth=depths,
    alpha=scalars,
    beta=scalars,
    schedule=schedules(),
)
def test_equals_the_rounded_combination(harness, data, name, depth, alpha, beta, schedule):
    problem = Problem(data.draw, harness, name)
    problem.linear(depth, alpha, beta, schedule=schedule)
    expected = linear_combination(*problem.tiles, alpha, beta)
    assert torch.equal(problem.output.cpu(), problem.canvas(expected))


@given(data=st.data(), name=st.sampled_from(LIKE_STOCK), depth=depths, beta=scalars)
def test_equals_the_stock_epilogue(harness, data, name, depth, beta):
    assume(beta != 0)  # the stock epilogue does not read the source then
    problem = Problem(data.draw, harness, name)
    problem.accumulators = problem.reals  # sums that have to be rounded
    problem.linear(0, 5, beta)
    stock = problem.output.cpu()
    problem.reset_output()
    problem.linear(depth, 5, beta)
    assert torch.equal(problem.output.cpu(), stock)


@given(data=st.data(), name=st.sampled_from(LIKE_STOCK), depth=depths, beta=scalars, s=schedules())
def test_source_and_destination_may_be_the_same_memory(harness, data, name, depth, beta, s):
    problem = Problem(data.draw, harness, name)
    problem.output[: problem.rows, : problem.columns] = problem.source.to(problem.output.device)
    problem.linear(depth, 3, beta, source=problem.output, schedule=s)
    expected = linear_combination(*problem.tiles, 3, beta)
    assert torch.equal(problem.output.cpu(), problem.canvas(expected, around=problem.source))


@given(data=st.data(), name=st.sampled_from(list(_OF_TILES)), depth=depths, schedule=schedules())
def test_coordinates_are_those_read_and_written(harness, data, name, depth, schedule):
    problem = Problem(data.draw, harness, name)
    # Small integers, exact in every type: one element at a wrong place shows.
    problem.accumulators = (problem.accumulators % 16) - 8
    problem.source = (problem.source.float().round() % 16 - 8).to(problem.source.dtype)
    problem.coordinates(depth, schedule=schedule)
    accumulators, source = problem.tiles
    rows, columns = problem.covered
    expected = problem.row_data[:rows, None] * source.float()
    expected += problem.column_data[:columns] * accumulators
    assert torch.equal(problem.output.cpu(), problem.canvas(expected))
    assert problem.stray.item() == 0, "beyond the extent the operator saw another source than 0"


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), depth=depths)
def test_each_element_is_read_and_stored_once(logging_harness, data, name, depth):
    problem = Problem(data.draw, logging_harness, name)
    log = problem.linear(depth, log=True)
    for counts in (elements_read(log, problem.memory), elements_written(log, problem.output)):
        rows, columns = problem.covered
        assert (counts[:rows, :columns] == 1).all()
        assert counts.sum() == rows * columns


@given(
    data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), depth=depths, schedule=schedules()
)
def test_loads_are_asked_for_before_the_barriers(logging_harness, data, name, depth, schedule):
    """All threads' loads of step i + depth - 1 before any thread's shared store of step i.

    Between them lies nothing but the first barrier of step i, so that in some schedule a load after
    it would be late.
    """
    problem = Problem(data.draw, logging_harness, name, whole=True)
    log = problem.linear(depth, schedule=schedule, log=True)
    steps = problem.steps.item()
    loads = by_step(log[accesses_of(log, problem.memory, "load")], steps)
    exchanges = by_step(log[(log["space"] == "shared") & (log["kind"] == "store")], steps)
    for i in range(steps - depth + 1):
        assert loads[:, i + depth - 1].max() < exchanges[:, i].min()


def by_step(accesses: np.ndarray, steps: int) -> np.ndarray:
    """When each thread made its accesses, by thread and step; steps have equally many."""
    accesses = accesses[np.lexsort((accesses["sequence"], accesses["thread"]))]
    threads = len(np.unique(accesses["thread"]))
    return accesses["sequence"].astype(np.int64).reshape(threads, steps, -1)
