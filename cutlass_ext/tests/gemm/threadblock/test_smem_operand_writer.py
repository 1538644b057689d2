"""SmemOperandWriter: what the stock iterators copy, each element once, nothing else touched."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given

from cutlass_ext.testing.access_log import shared_bytes_written, written_before
from cutlass_ext.testing.device_code import Schedule, Unit, schedules

_F16 = "GemmShape<16, 8, 16>"
_BF16 = "Sm80Mma<bfloat16_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,"
_SM70 = "Sm70Mma<GemmShape<64, 64, 32>,"
# name: (producer, consumer, operand, transposed,
#        rows and columns of the producer, of the operand, dtype, operand row major, vector)
CONFIGURATIONS = {
    "simt": (
        "SimtMma<GemmShape<64, 64, 8>, GemmShape<16, 64, 8>, Row, Column, 4>",
        "SimtMma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Row, 8>",
        "A", False, (64, 64), (64, 128), torch.float32, True, 4,
    ),
    "simt_transposed": (
        "SimtMma<GemmShape<64, 32, 8>, GemmShape<32, 16, 8>, Row, Row, 4>",
        "SimtMma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Row, 4>",
        "A", True, (64, 32), (64, 64), torch.float32, True, 2,
    ),
    "simt_two_stages": (
        "SimtMma<GemmShape<64, 16, 8>, GemmShape<32, 16, 8>, Row, Row, 2>",
        "SimtMma<GemmShape<64, 32, 8>, GemmShape<32, 32, 8>, Row, Row, 2>",
        "A", False, (64, 16), (64, 16), torch.float32, True, 4,
    ),
    "tf32x3": (
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Column, 3>",
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Row, 4>",
        "A", False, (64, 64), (64, 64), torch.float32, True, 2,
    ),
    "tf32x3_b": (
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<32, 32, 16>, Row, Column, 3>",
        "Tf32x3Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Row, 4>",
        "B", False, (64, 64), (128, 64), torch.float32, True, 2,
    ),
    "f16": (
        f"Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<16, 64, 32>, {_F16}, Row, Column, 3>",
        f"Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<16, 64, 32>, {_F16}, Row, Row, 4>",
        "A", False, (64, 64), (64, 128), torch.float16, True, 2,
    ),
    "f16_wide_k": (
        f"Sm80Mma<half_t, GemmShape<128, 64, 32>, GemmShape<32, 64, 32>, {_F16}, Row, Column, 3>",
        f"Sm80Mma<half_t, GemmShape<128, 64, 64>, GemmShape<32, 64, 64>, {_F16}, Row, Row, 3>",
        "A", False, (128, 64), (128, 192), torch.float16, True, 2,
    ),
    "bf16_transposed": (
        f"{_BF16} Row, Column, 3>",
        f"{_BF16} Column, Row, 4>",
        "A", True, (64, 64), (64, 128), torch.bfloat16, False, 2,
    ),
    "f16_transposed_crosswise": (
        f"Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, {_F16}, Row, Column, 3>",
        f"Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, {_F16}, Row, Row, 4>",
        "A", True, (64, 64), (64, 128), torch.float16, True, 1,
    ),
    "sm75": (
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Column>",
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Row>",
        "A", False, (64, 64), (64, 64), torch.float16, True, 2,
    ),
    "sm75_transposed_b": (
        "Sm75Mma<GemmShape<64, 32, 32>, GemmShape<32, 32, 32>, Row, Column>",
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<64, 32, 32>, Row, Column>",
        "B", True, (64, 32), (64, 64), torch.float16, False, 2,
    ),
    "simt_f64": (
        "SimtMma<GemmShape<64, 16, 8>, GemmShape<32, 16, 8>, Row, Row, 2, double>",
        "SimtMma<GemmShape<64, 32, 8>, GemmShape<32, 32, 8>, Row, Row, 2, double>",
        "A", False, (64, 16), (64, 16), torch.float64, True, 2,
    ),
    "tf32": (
        "Tf32Mma<GemmShape<64, 64, 16>, GemmShape<32, 32, 16>, Row, Column, 3>",
        "Tf32Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Row, 4>",
        "A", False, (64, 64), (64, 128), torch.float32, True, 2,
    ),
    "sm70": (
        f"{_SM70} GemmShape<32, 32, 32>, Row, Column>",
        f"{_SM70} GemmShape<32, 32, 32>, Row, Row>",
        "A", False, (64, 64), (64, 64), torch.float16, True, 2,
    ),
    "sm70_b_crosswise": (
        f"{_SM70} GemmShape<32, 32, 32>, Row, Column>",
        f"{_SM70} GemmShape<32, 32, 32>, Row, Column>",
        "B", True, (64, 64), (64, 64), torch.float16, False, 2,
    ),
    "sm70_b_congruous": (
        f"{_SM70} GemmShape<64, 32, 32>, Row, Column>",
        f"{_SM70} GemmShape<64, 32, 32>, Row, Row>",
        "B", False, (64, 64), (64, 64), torch.float16, True, 2,
    ),
    "sm70_f16_accumulators": (
        f"{_SM70} GemmShape<32, 32, 32>, Row, Column, 8, half_t>",
        f"{_SM70} GemmShape<32, 32, 32>, Row, Row>",
        "A", False, (64, 64), (64, 64), torch.float16, True, 4,
    ),
    "sm70_f16_accumulators_b": (
        f"{_SM70} GemmShape<32, 64, 32>, Row, Column, 8, half_t>",
        f"{_SM70} GemmShape<32, 64, 32>, Row, Row>",
        "B", False, (64, 64), (64, 64), torch.float16, True, 8,
    ),
    "sm70_transposed": (
        f"{_SM70} GemmShape<32, 64, 32>, Row, Column>",
        f"{_SM70} GemmShape<32, 64, 32>, Column, Row>",
        "A", True, (64, 64), (64, 64), torch.float16, False, 2,
    ),
    "sm70_transposed_crosswise": (
        f"{_SM70} GemmShape<32, 32, 32>, Row, Column>",
        f"{_SM70.replace('64, 64, 32', '64, 64, 64')} GemmShape<32, 32, 64>, Row, Row>",
        "A", True, (64, 64), (64, 128), torch.float16, True, 1,
    ),
}  # fmt: skip
UNIT = Unit(
    name="test_smem_operand_writer",
    headers=("smem_operand_writer.h",),
    functions=tuple(
        (f"{name}{suffix}", f"smem_operand_writer{suffix}<{producer}, {consumer}, "
         f"Operand::k{operand}, {str(transposed).lower()}>")
        for name, (producer, consumer, operand, transposed, *_) in CONFIGURATIONS.items()
        for suffix in ("", "_sizes")
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)  # fmt: skip
CANARY = 0xC5


def sizes(harness, name):
    """Bytes of the dump, threads, elements a write."""
    result = torch.zeros(3, dtype=torch.int32)
    harness.call(UNIT, f"{name}_sizes", result)
    return result.tolist()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_elements_of_a_write(harness, name):
    assert sizes(harness, name)[2] == CONFIGURATIONS[name][-1]


class Problem:
    """Accumulators, and the operand matrix that has them at one of the places that they fit."""

    def __init__(self, draw, harness, name):
        self.harness, self.name = harness, name
        # What assigns an element of Array<half_t> (array_subbyte.h:133) reads four bytes of the
        # two, and masks the rest.
        assume(harness.mode != "asan" or not name.startswith("sm70_f16_accumulators"))
        producer, _, operand, transposed, produced, shape, self.dtype, row_major, self.vector = (
            CONFIGURATIONS[name]
        )
        self.operand, self.shape = operand, shape
        self.bytes, self.threads, _ = sizes(harness, name)
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        self.source = torch.randn(produced, generator=generator) * 2.0 ** draw(st.integers(-20, 14))
        if producer.endswith("double>"):
            self.source = self.source.double()
        elif producer.endswith("half_t>"):
            self.source = self.source.half()
        placed = self.source.T if transposed else self.source
        rows, columns = (
            draw(st.integers(0, whole // part - 1)) * part
            for whole, part in zip(shape, placed.shape, strict=True)
        )
        self.offset = (columns, rows) if transposed else (rows, columns)
        # The rest of the operand: the canary's bytes, so that copying it changes nothing.
        pattern = torch.full((*shape, self.dtype.itemsize), CANARY, dtype=torch.uint8)
        whole = pattern.view(self.dtype).squeeze(-1)
        whole[rows : rows + placed.shape[0], columns : columns + placed.shape[1]] = placed.to(
            self.dtype
        )
        self.whole = whole if row_major else whole.T
        self.ld = self.whole.shape[1]

    def run(self, stock, schedule, log=False):
        dump = self.harness.tensor(torch.zeros(self.bytes, dtype=torch.uint8))
        marker = self.harness.tensor(torch.zeros(self.threads, dtype=torch.int32))
        records = self.harness.call(
            UNIT,
            self.name,
            *(int(stock), *self.offset, self.harness.tensor(self.source)),
            *(self.harness.tensor(self.whole), self.ld, *self.shape, dump, marker),
            schedule=schedule,
            log=log,
        )
        return dump.cpu(), records, marker


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_writes_what_the_stock_iterator_copies(harness, data, name, schedule):
    problem = Problem(data.draw, harness, name)
    written, _, _ = problem.run(False, schedule)
    copied, _, _ = problem.run(True, Schedule())
    assert torch.equal(written, copied)
    # Accumulators are placed somewhere, not nowhere.
    assert (written != CANARY).any()


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_each_element_once_in_vectors(logging_harness, data, name, schedule):
    problem = Problem(data.draw, logging_harness, name)
    written, log, marker = problem.run(False, schedule, log=True)
    log = log[written_before(log, marker, 1) & ~written_before(log, marker)]
    counts = shared_bytes_written(log, problem.bytes)
    size = problem.dtype.itemsize
    assert counts.max() == 1
    assert counts.sum() == problem.source.numel() * size
    assert (counts[written.numpy() != CANARY] == 1).all()
    shared = log[log["space"] == "shared"]
    assert (shared["kind"] == "store").all()
    assert set(np.unique(shared["bytes"])) == {problem.vector * size}
