"""RowAwareEpilogue: the row and column that the operator gets are those that are written."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import elements_written
from cutlass_ext.testing.device_code import Unit, schedules

_SIMT = "SimtMma<GemmShape<64, 64, 8>, GemmShape<{}, 8>, Row, Row, 4>"
_F16 = "Sm80Mma<half_t, GemmShape<{}, 32>, GemmShape<{}, 32>, GemmShape<16, 8, 16>, Row, Row, 3>"
_TF32 = "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Row, 3>"
_SM75 = "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Column>"
_SM70 = "Sm70Mma<GemmShape<{}, 32>, GemmShape<{}, 32>, Row, Column>"
# name: (Mma, output type, output vector, tile, dtype)
CONFIGURATIONS = {
    "simt": (_SIMT.format("32, 32"), "float", 0, (64, 64), torch.float32),
    "simt_16_rows": (_SIMT.format("16, 64"), "float", 0, (64, 64), torch.float32),
    "f16": (_F16.format("128, 64", "32, 64"), "half_t", 8, (128, 64), torch.float16),
    "f16_alignment_1": (_F16.format("64, 64", "32, 32"), "half_t", 1, (64, 64), torch.float16),
    "f16_to_float": (_F16.format("64, 128", "32, 64"), "float", 4, (64, 128), torch.float32),
    "tf32x3": (_TF32, "float", 4, (64, 64), torch.float32),
    "tf32x3_alignment_1": (_TF32, "float", 1, (64, 64), torch.float32),
    "simt_f64": (
        _SIMT.format("32, 32").replace("4>", "4, double>"),
        *("double", 0, (64, 64), torch.float64),
    ),
    "tf32": (_TF32.replace("Tf32x3", "Tf32"), "float", 4, (64, 64), torch.float32),
    "bf16": (
        _F16.format("128, 32", "32, 32").replace("half_t", "bfloat16_t"),
        *("bfloat16_t", 8, (128, 32), torch.bfloat16),
    ),
    "f16_narrow": (
        _F16.replace(" 32>", " 64>").format("128, 16", "32, 16").replace("Row, Row", "Row, Column"),
        *("float", 4, (128, 16), torch.float32),
    ),
    "sm75": (_SM75, "half_t", 8, (64, 64), torch.float16),
    "sm75_to_float": (_SM75, "float", 2, (64, 64), torch.float32),
    "sm70": (_SM70.format("64, 64", "32, 32"), "half_t", 8, (64, 64), torch.float16),
    "sm70_alignment_2": (_SM70.format("128, 64", "64, 32"), "half_t", 2, (128, 64), torch.float16),
    "sm70_to_float": (_SM70.format("128, 128", "64, 64"), "float", 4, (128, 128), torch.float32),
}


def stock_epilogue(mma, output, vector):
    if not vector:
        return f"SimtEpilogue<{mma}>"
    return f"{'Volta' if 'Sm70' in mma else 'TensorOp'}Epilogue<{mma}, {output}, {vector}>"


UNIT = Unit(
    name="test_row_aware_epilogue",
    headers=("row_aware_epilogue.h",),
    functions=tuple(
        (
            name,
            f"row_aware_epilogue<{mma}, {output}, {stock_epilogue(mma, output, vector)}>",
        )
        for name, (mma, output, vector, _, _) in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
    logged=True,
)
CANARY = -77.0


class Problem:
    def __init__(self, draw, harness, name):
        _, _, vector, tile, dtype = CONFIGURATIONS[name]
        vector = max(vector, 1)
        self.rows = draw(st.integers(1, tile[0]))
        self.columns = vector * draw(st.integers(1, tile[1] // vector))
        self.ld = self.columns + vector * draw(st.integers(0, 2))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        # Small integers: one rounding at the end, exact in every type used here.
        computed = torch.float64 if dtype == torch.float64 else torch.float32
        accumulators = torch.randint(-8, 9, tile, generator=generator).to(computed)
        row_data = torch.randint(-8, 9, (self.rows,), generator=generator).to(computed)
        column_data = torch.arange(self.columns).to(computed)
        self.arguments = [harness.tensor(x) for x in (accumulators, row_data, column_data)]
        self.output = harness.tensor(torch.full((tile[0] + 1, self.ld), CANARY, dtype=dtype))
        expected = self.output.cpu().clone()
        expected[: self.rows, : self.columns] = (
            row_data[:, None] * accumulators[: self.rows, : self.columns] + column_data
        ).to(dtype)
        self.expected = expected
        self.harness, self.name = harness, name

    def run(self, schedule, log=False):
        accumulators, row_data, column_data = self.arguments
        return self.harness.call(
            UNIT,
            self.name,
            *(accumulators, self.output, self.ld, row_data, column_data),
            *(self.rows, self.columns),
            schedule=schedule,
            log=log,
        )


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_coordinates_are_those_written(harness, data, name, schedule):
    problem = Problem(data.draw, harness, name)
    problem.run(schedule)
    assert torch.equal(problem.output.cpu(), problem.expected)


@given(data=st.data(), name=st.sampled_from(list(CONFIGURATIONS)), schedule=schedules())
def test_each_element_is_stored_once(logging_harness, data, name, schedule):
    problem = Problem(data.draw, logging_harness, name)
    log = problem.run(schedule, log=True)
    stores = elements_written(log, problem.output)
    assert (stores[: problem.rows, : problem.columns] == 1).all()
    assert stores.sum() == problem.rows * problem.columns
