"""RowVectorStore: each element in range once, in whole sectors, and nothing else."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import accesses_of, elements_written
from cutlass_ext.testing.device_code import Unit, schedules

_SM80 = "Sm80Mma<half_t, GemmShape<{}, 32>, GemmShape<{}, 32>, GemmShape<16, 8, 16>, Row, Row, 3>"
_TF32 = "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<32, 32, 16>, Row, Row, 3>"
_SM75 = "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Column>"
# name: (Mma, output type, alignment, tile, dtype)
CONFIGURATIONS = {
    "f16": (_SM80.format("64, 64", "32, 64"), "half_t", 8, (64, 64), torch.float16),
    "bf16_wide": (
        _SM80.format("32, 128", "16, 128"),
        *("bfloat16_t", 8, (32, 128), torch.bfloat16),
    ),
    "f16_halves": (_SM80.format("64, 64", "32, 32"), "half_t", 8, (64, 64), torch.float16),
    "f16_alignment_4": (_SM80.format("64, 64", "32, 64"), "half_t", 4, (64, 64), torch.float16),
    "f16_alignment_1": (_SM80.format("64, 64", "32, 64"), "half_t", 1, (64, 64), torch.float16),
    "f16_to_float": (_SM80.format("64, 64", "32, 64"), "float", 4, (64, 64), torch.float32),
    "tf32x3": (_TF32, "float", 4, (64, 64), torch.float32),
    "tf32x3_alignment_1": (_TF32, "float", 1, (64, 64), torch.float32),
    "sm75": (_SM75, "half_t", 8, (64, 64), torch.float16),
}
UNIT = Unit(
    name="test_row_vector_store",
    headers=("row_vector_store.h",),
    functions=tuple(
        (name, f"row_vector_store<{mma}, {output}, {alignment}>")
        for name, (mma, output, alignment, _, _) in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
CANARY = -77.0


class Problem:
    def __init__(self, draw, harness, name):
        _, _, alignment, tile, dtype = CONFIGURATIONS[name]
        self.rows = draw(st.integers(0, tile[0]))
        self.columns = alignment * draw(st.integers(0, tile[1] // alignment))
        self.ld = self.columns + alignment * draw(st.integers(0, 2))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        accumulators = torch.randn(tile, generator=generator)
        self.accumulators = harness.tensor(accumulators)
        self.output = harness.tensor(torch.full((tile[0] + 1, self.ld), CANARY, dtype=dtype))
        self.expected = self.output.cpu().clone()
        self.expected[: self.rows, : self.columns] = accumulators[: self.rows, : self.columns]
        self.harness, self.name = harness, name

    def run(self, schedule, log=False):
        return self.harness.call(
            *(UNIT, self.name, self.accumulators, self.output, self.ld, self.rows, self.columns),
            schedule=schedule,
            log=log,
        )


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_rounds_and_stores_the_tile(harness, data, name, schedule):
    problem = Problem(data.draw, harness, name)
    problem.run(schedule)
    assert torch.equal(problem.output.cpu(), problem.expected)


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_each_element_is_stored_once(logging_harness, data, name, schedule):
    problem = Problem(data.draw, logging_harness, name)
    stores = elements_written(problem.run(schedule, log=True), problem.output)
    assert (stores[: problem.rows, : problem.columns] == 1).all()
    assert stores.sum() == problem.rows * problem.columns


def test_full_vectors_are_stored_whole(logging_harness):
    """16 bytes a lane, at multiples of 16, though a lane computes pairs."""
    output = torch.zeros(64, 64, dtype=torch.float16)
    log = logging_harness.call(
        *(UNIT, "f16", torch.ones(64, 64), output, 64, 64, 64), schedule=None, log=True
    )
    stores = log[accesses_of(log, output, "store")]
    assert len(stores) == output.nbytes // 16
    assert (stores["bytes"] == 16).all() and (stores["address"] % 16 == 0).all()
