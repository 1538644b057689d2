"""RegisterOperandGemm: the shared-memory way's result, without its shared memory."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import written_before
from cutlass_ext.testing.device_code import Schedule, Unit, schedules

# name: (Mma, columns of the source = k, tile m, tile n, dtype, bytes of B that a thread reads)
CONFIGURATIONS = {
    "f16_16_rows": (
        "Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<16, 64, 32>, GemmShape<16, 8, 16>,"
        " Row, Row, 4>",
        128, 64, 64, torch.float16,
    ),
    "f16_32_rows": (
        "Sm80Mma<half_t, GemmShape<64, 128, 32>, GemmShape<32, 128, 32>, GemmShape<16, 8, 16>,"
        " Row, Row, 3>",
        64, 64, 128, torch.float16,
    ),
    "bf16": (
        "Sm80Mma<bfloat16_t, GemmShape<64, 32, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,"
        " Row, Column, 3>",
        64, 64, 32, torch.bfloat16,
    ),
    "bf16_wide_k": (
        "Sm80Mma<bfloat16_t, GemmShape<32, 64, 64>, GemmShape<16, 64, 64>, GemmShape<16, 8, 16>,"
        " Row, Row, 3>",
        128, 32, 64, torch.bfloat16,
    ),
    "sm75": (
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 64, 32>, Row, Row>",
        64, 64, 64, torch.float16,
    ),
    "sm75_16_rows": (
        "Sm75Mma<GemmShape<64, 64, 64>, GemmShape<16, 64, 64>, Row, Column>",
        128, 64, 64, torch.float16,
    ),
}  # fmt: skip
UNIT = Unit(
    name="test_register_operand_gemm",
    headers=("register_operand_gemm.h",),
    functions=tuple(
        (name, f"register_operand_gemm<{mma}, {columns}>")
        for name, (mma, columns, *_) in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
WAYS = {"registers": 0, "by_step": 1, "shared_memory": 2}


class Problem:
    def __init__(self, draw, harness, name):
        self.harness, self.name = harness, name
        mma, k, m, tile_n, dtype = CONFIGURATIONS[name]
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        column_major = "Column" in mma
        self.n = (
            draw(st.integers(1, tile_n)) if column_major else 8 * draw(st.integers(1, tile_n // 8))
        )
        self.tile = (m, tile_n)
        self.source = torch.randn(m, k, generator=generator)
        b = torch.randn(k, self.n, generator=generator)
        if draw(st.booleans()):  # one-hot rows pick rows of B exactly
            picked = torch.randint(k, (m,), generator=generator)
            self.source = torch.nn.functional.one_hot(picked, k).float()
            self.expected = b.to(dtype).float()[picked]
        else:
            self.expected = None
        self.b = (b.T if column_major else b).contiguous().to(dtype)
        self.ldb = self.b.shape[1]

    def run(self, way, schedule, log=False):
        accumulators = self.harness.tensor(torch.zeros(self.tile))
        marker = self.harness.tensor(torch.zeros(1024, dtype=torch.int32))
        records = self.harness.call(
            UNIT,
            self.name,
            *(WAYS[way], self.harness.tensor(self.source), self.harness.tensor(self.b)),
            *(self.n, self.ldb, accumulators, marker),
            schedule=schedule,
            log=log,
        )
        return accumulators.cpu()[:, : self.n].contiguous(), records, marker


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    way=st.sampled_from(("registers", "by_step")),
    schedule=schedules(),
)
def test_equal_to_the_way_through_shared_memory(harness, data, name, way, schedule):
    problem = Problem(data.draw, harness, name)
    result, _, _ = problem.run(way, schedule)
    reference, _, _ = problem.run("shared_memory", Schedule())
    assert torch.equal(result.view(torch.int32), reference.view(torch.int32))
    if problem.expected is not None:
        assert torch.equal(result, problem.expected)


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_no_shared_memory_for_the_intermediate(logging_harness, data, name, schedule):
    """Between the markers: loads of operand B, which the warps share, and nothing else."""
    problem = Problem(data.draw, logging_harness, name)
    _, log, marker = problem.run("registers", schedule, log=True)
    log = log[written_before(log, marker, 1) & ~written_before(log, marker)]
    log = log[log["space"] == "shared"]
    assert (log["kind"] == "load").all()
    # Operand A comes first in the shared storage.
    _, k, m, tile_n, dtype = CONFIGURATIONS[name]
    size = dtype.itemsize
    assert log["address"].min() >= m * k * size
    # Every warp reads B once.
    warps = int(log["thread"].max()) // 32 + 1
    assert log["bytes"].sum() == warps * k * tile_n * size
