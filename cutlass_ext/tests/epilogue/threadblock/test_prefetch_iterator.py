"""PrefetchIterator: asks for what a load would touch, none else, before it; values stay."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import accesses_of
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
# base: (iterator, what its parameters are made of, level)
_BASES = {
    "stock": ("StockIterator<{}>", "Row", "kL2"),
    "stock_scatter": ("StockScatterIterator<{}>", "Row", "kL1"),
    "two_level": ("StridedIterator<{}, TwoLevelRows>", "TwoLevelRows", "kL2EvictLast"),
    "gathered": ("StridedIterator<{}, GatheredRows>", "GatheredRows", "kL2"),
}
FUNCTIONS = {
    f"{base}_{name}": (base, c)
    for name, c in CONFIGURATIONS.items()
    for base in _BASES
    # The stock scatter goes wrong where a thread map has several groups; that is refused.
    if not (base == "stock_scatter" and c.family == "simt")
}


def _instance(base: str, c: Configuration) -> str:
    iterator, made_of, level = _BASES[base]
    iterator = iterator.format(c.epilogue)
    return f"prefetched<{c.mma}, {c.epilogue}, {iterator}, {made_of}, PrefetchLevel::{level}>"


UNIT = Unit(
    name="test_prefetch_iterator",
    headers=("prefetch_iterator.h",),
    functions=tuple((name, _instance(*of)) for name, of in FUNCTIONS.items()),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
NEVER, EACH_STEP, ALL_FIRST, BEHIND_CLEARED_MASK = range(4)
CANARY = -77


class Problem:
    def __init__(self, draw, harness, name):
        base, c = FUNCTIONS[name]
        self.harness, self.name = harness, name
        # The matrix may end before the tile, or go on beyond.
        self.rows = draw(st.integers(1, c.tile[0]) | st.just(4 * c.tile[0]))
        self.columns = c.vector * draw(st.integers(1, c.tile[1] // c.vector + 2))
        self.covered = tuple(map(min, c.tile, (self.rows, self.columns)))
        self.pitch = self.columns + c.vector * draw(st.integers(0, 2))
        self.offset = c.vector * draw(st.integers(0, 2))
        dtype = TYPES[c.output]
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        places = torch.arange(self.rows)
        self.group = (1, 0, self.pitch)
        if base in ("stock_scatter", "gathered"):
            places = torch.randperm(self.rows, generator=generator)
        elif base == "two_level":
            group = draw(st.integers(1, self.rows))
            groups = -(-self.rows // group)
            self.group = (group, self.pitch, groups * self.pitch)
            places = places // group + places % group * groups
        self.indices = harness.tensor(places.int())
        self.values = torch.randn(self.rows, self.columns, generator=generator).to(dtype)
        source = torch.full((int(places.max()) + 1, self.pitch), float("nan"), dtype=dtype)
        source[places, : self.columns] = self.values
        nan = torch.full((self.offset,), float("nan"), dtype=dtype)
        self.source = harness.tensor(torch.cat((nan, source.view(-1))))
        self.output = harness.tensor(torch.full_like(self.values, CANARY))

    def run(self, when, **options):
        return self.harness.call(
            UNIT,
            self.name,
            *(when, self.source, self.output, self.rows, self.columns),
            *(self.indices, *self.group, self.offset),
            **options,
        )


names = st.sampled_from(list(FUNCTIONS))


@given(
    data=st.data(),
    name=names,
    when=st.sampled_from((NEVER, EACH_STEP, ALL_FIRST, BEHIND_CLEARED_MASK)),
    schedule=schedules(),
)
def test_values_stay(harness, data, name, when, schedule):
    problem = Problem(data.draw, harness, name)
    problem.run(when, schedule=schedule)
    rows, columns = problem.covered
    expected = torch.full_like(problem.values, CANARY)
    expected[:rows, :columns] = problem.values[:rows, :columns]
    assert torch.equal(problem.output.cpu(), expected)


@given(data=st.data(), name=names, when=st.sampled_from((EACH_STEP, ALL_FIRST)))
def test_asks_for_what_is_loaded_before_it_is(logging_harness, data, name, when):
    problem = Problem(data.draw, logging_harness, name)
    log = problem.run(when, log=True)
    loads = first_times(log[accesses_of(log, problem.source, "load")])
    prefetches = first_times(log[log["kind"] == "prefetch"])
    assert prefetches.keys() == loads.keys()
    assert all(prefetches[access] < loads[access] for access in loads)


@given(data=st.data(), name=names)
def test_a_cleared_mask_asks_for_nothing(logging_harness, data, name):
    problem = Problem(data.draw, logging_harness, name)
    log = problem.run(BEHIND_CLEARED_MASK, log=True)
    assert not (log["kind"] == "prefetch").any()


def first_times(accesses: np.ndarray) -> dict[tuple[int, int], int]:
    """When each thread's access of each address happened; each happens once."""
    keys = list(zip(accesses["thread"].tolist(), accesses["address"].tolist(), strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, accesses["sequence"].tolist(), strict=True))
