"""ResidentOperand: the stock result, and not one global access for the resident operand."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import elements_read, written_before
from cutlass_ext.testing.device_code import Schedule, Unit, schedules

# name: (Mma, tile m, n, k, stages, dtype, alignment, contiguous index of A and of B)
CONFIGURATIONS = {
    "simt_two_stages": (
        "SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 64, 8>, Row, Column, 2>",
        (64, 64, 8, 2, torch.float32, 1, "k", "k"),
    ),
    "simt_padded": (
        "cutlass_ext::gemm::threadblock::WithPadding<"
        "SimtMma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Column, 4>,"
        " cutlass::MatrixShape<4, 0>, cutlass::MatrixShape<0, 4>>",
        (64, 64, 16, 4, torch.float32, 1, "k", "k"),
    ),
    "f16": (
        "Sm80Mma<half_t, GemmShape<64, 128, 32>, GemmShape<32, 64, 32>, GemmShape<16, 8, 16>,"
        " Row, Row, 3>",
        (64, 128, 32, 3, torch.float16, 8, "k", "n"),
    ),
    "bf16_column_major_a": (
        "Sm80Mma<bfloat16_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,"
        " Column, Column, 4>",
        (64, 64, 32, 4, torch.bfloat16, 8, "m", "k"),
    ),
    "tf32x3": (
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Row, 4>",
        (64, 64, 16, 4, torch.float32, 4, "k", "n"),
    ),
    "tf32x3_alignment_1": (
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Column, 4, 1>",
        (64, 64, 16, 4, torch.float32, 1, "k", "k"),
    ),
    "sm75": (
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Column>",
        (64, 64, 32, 2, torch.float16, 8, "k", "k"),
    ),
    "simt_f64": (
        "SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 64, 8>, Row, Row, 3, double>",
        (64, 64, 8, 3, torch.float64, 1, "k", "n"),
    ),
    "tf32_narrow": (
        "Tf32Mma<GemmShape<128, 32, 32>, GemmShape<32, 32, 32>, Row, Column, 3>",
        (128, 32, 32, 3, torch.float32, 4, "k", "k"),
    ),
    "sm75_alignment_4": (
        "Sm75Mma<GemmShape<128, 128, 32>, GemmShape<64, 64, 32>, Column, Row, 4>",
        (128, 128, 32, 2, torch.float16, 4, "m", "n"),
    ),
    "sm70": (
        "Sm70Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Row>",
        (64, 64, 32, 2, torch.float16, 8, "k", "n"),
    ),
    "sm70_alignment_2": (
        "Sm70Mma<GemmShape<64, 128, 64>, GemmShape<32, 64, 64>, Column, Column, 2>",
        (64, 128, 64, 2, torch.float16, 2, "m", "k"),
    ),
}
UNIT = Unit(
    name="test_resident_operand",
    headers=("resident_operand.h",),
    functions=tuple(
        (f"{name}_{operand}", f"resident_operand<{mma}, Operand::k{operand.upper()}>")
        for name, (mma, _) in CONFIGURATIONS.items()
        for operand in "ab"
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)


class Problem:
    """One resident operand and two that stream past it; memory outside them is NaN."""

    def __init__(self, draw, harness, configuration, operand):
        tile_m, tile_n, tile_k, stages, dtype, align, contiguous_a, contiguous_b = configuration
        self.harness, self.operand = harness, operand
        self.generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

        def extent(limit, aligned):
            """One that a vector divides, where it is the contiguous one."""
            value = draw(st.integers(1, limit))
            return -(-value // align) * align if aligned else value

        self.m = extent(tile_m, contiguous_a == "m")
        self.n = extent(tile_n, contiguous_b == "n")
        self.k = extent(tile_k * stages, True)
        padding = align * draw(st.integers(0, 2))
        self.tile = (tile_m, tile_n)
        double = dtype == torch.float64
        self.accumulated, self.bits = (
            (torch.float64, torch.int64) if double else (torch.float32, torch.int32)
        )

        def matrix(rows, columns, row_major):
            lines, length = (rows, columns) if row_major else (columns, rows)
            values = torch.full((lines + 2, length + padding), float("nan"))
            values[:lines, :length] = torch.randn(lines, length, generator=self.generator)
            return harness.tensor(values.to(dtype))

        a = [matrix(self.m, self.k, contiguous_a == "k") for _ in range(2)]
        b = [matrix(self.k, self.n, contiguous_b == "n") for _ in range(2)]
        self.resident, self.streamed = (a[0], b) if operand == "a" else (b[0], a)
        self.lda, self.ldb = a[0].shape[1], b[0].shape[1]

    def run(self, name, stock, schedule, log=False):
        accumulators = self.harness.tensor(torch.zeros(2, *self.tile, dtype=self.accumulated))
        marker = self.harness.tensor(torch.zeros(1024, dtype=torch.int32))
        records = self.harness.call(
            UNIT,
            f"{name}_{self.operand}",
            *(int(stock), self.m, self.n, self.k, self.resident, *self.streamed),
            *(self.lda, self.ldb, accumulators, marker),
            schedule=schedule,
            log=log,
        )
        return accumulators[:, : self.m, : self.n].cpu().contiguous(), records, marker


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    operand=st.sampled_from("ab"),
    schedule=schedules(),
)
def test_equal_to_stock(harness, data, name, operand, schedule):
    problem = Problem(data.draw, harness, CONFIGURATIONS[name][1], operand)
    stock, _, _ = problem.run(name, True, Schedule())
    result, _, _ = problem.run(name, False, schedule)
    assert not stock.isnan().any()
    assert torch.equal(result.view(problem.bits), stock.view(problem.bits))


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    operand=st.sampled_from("ab"),
    schedule=schedules(),
)
def test_resident_operand_is_read_once(logging_harness, data, name, operand, schedule):
    """All of it by fill(), nothing afterwards; of the others every element once."""
    problem = Problem(data.draw, logging_harness, CONFIGURATIONS[name][1], operand)
    _, log, marker = problem.run(name, False, schedule, log=True)
    filling = written_before(log, marker)
    exists = ~problem.resident.isnan().numpy()
    assert (elements_read(log[filling], problem.resident) == exists).all()
    assert not elements_read(log[~filling], problem.resident).any()
    for operand_b in problem.streamed:
        exists = ~operand_b.isnan().numpy()
        assert (elements_read(log[~filling], operand_b) == exists).all()
        assert not elements_read(log[filling], operand_b).any()
