"""The components together: two chained products in one kernel equal two products."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import torch
from hypothesis import given

from cutlass_ext.testing.device_code import Unit, schedules

_SIMT = "SimtMma<GemmShape<{}>, GemmShape<{}>, Row, {}, {}>"
_TF32 = "Tf32x3Mma<GemmShape<{}>, GemmShape<{}>, Row, {}, {}, {}>"
_F16 = "Sm80Mma<half_t, GemmShape<{}>, GemmShape<{}>, GemmShape<16, 8, 16>, Row, {}, {}>"
_SM75 = "Sm75Mma<GemmShape<{}>, GemmShape<{}>, Row, {}>"
_SM70 = "Sm70Mma<GemmShape<{}>, GemmShape<{}>, Row, {}, {}>"
# name: (first product, second product, output vector (0: SIMT), most queries, head and value
#        dimension, alignment, dtype)
CONFIGURATIONS = {
    "simt": (
        _SIMT.format("64, 64, 16", "16, 64, 16", "Column", 4),
        _SIMT.format("64, 64, 16", "16, 64, 16", "Row", 4),
        0, 64, 64, 64, 1, torch.float32,
    ),
    "simt_two_stages": (
        _SIMT.format("64, 32, 8", "32, 32, 8", "Row", 2).replace("Row, Row", "Row, Column"),
        _SIMT.format("64, 64, 16", "32, 64, 16", "Row", 3),
        0, 64, 16, 64, 1, torch.float32,
    ),
    "tf32x3": (
        _TF32.format("64, 64, 16", "16, 64, 16", "Column", 3, 4),
        _TF32.format("64, 64, 16", "16, 64, 16", "Row", 4, 4),
        4, 64, 48, 64, 4, torch.float32,
    ),
    "tf32x3_alignment_1": (
        _TF32.format("64, 32, 16", "16, 32, 16", "Column", 4, 1),
        _TF32.format("64, 32, 16", "16, 32, 16", "Row", 3, 1),
        1, 64, 64, 32, 1, torch.float32,
    ),
    "f16_warps_along_n": (
        _F16.format("64, 64, 32", "32, 32, 32", "Column", 3),
        _F16.format("64, 64, 32", "32, 32, 32", "Row", 3),
        4, 64, 64, 64, 8, torch.float16,
    ),
    "sm75": (
        _SM75.format("64, 64, 32", "32, 32, 32", "Column"),
        _SM75.format("64, 64, 32", "32, 32, 32", "Row"),
        4, 64, 64, 64, 8, torch.float16,
    ),
    "sm70": (
        _SM70.format("64, 64, 32", "32, 32, 32", "Column", 8),
        _SM70.format("64, 64, 32", "32, 32, 32", "Row", 8),
        4, 64, 64, 64, 8, torch.float16,
    ),
    "sm70_alignment_2": (
        _SM70.format("128, 32, 32", "32, 32, 32", "Column", 2),
        _SM70.format("128, 64, 32", "64, 32, 32", "Row", 2),
        2, 128, 64, 64, 2, torch.float16,
    ),
}  # fmt: skip


def stock_epilogue(mma, vector):
    if not vector:
        return f"SimtEpilogue<{mma}>"
    return f"{'Volta' if 'Sm70' in mma else 'TensorOp'}Epilogue<{mma}, float, {vector}>"


UNIT = Unit(
    name="test_chained_products",
    headers=("chained_products.h",),
    functions=tuple(
        (
            name,
            f"chained_products<{first}, {second}, "
            f"{stock_epilogue(second, vector)}>",
        )
        for name, (first, second, vector, *_) in CONFIGURATIONS.items()
    ),
    directory=Path(__file__).parents[2] / "harness",
)  # fmt: skip


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    keys=st.integers(0, 130),
    schedule=schedules(),
)
def test_equal_to_two_products(harness, data, name, keys, schedule):
    """Small integers, for which every sum is exact; the second product's k is `keys`."""
    _, _, _, most_queries, most_head, most_value, align, dtype = CONFIGURATIONS[name]
    queries = data.draw(st.integers(1, most_queries))
    head = align * data.draw(st.integers(1, most_head // align))
    value = align * data.draw(st.integers(1, most_value // align))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))

    def operand(rows, columns, high):
        """Integers with NaN to the right and below."""
        padding = align * data.draw(st.integers(0, 2))
        whole = torch.full((rows + 1, columns + padding), float("nan"))
        whole[:rows, :columns] = torch.randint(
            -high, high + 1, (rows, columns), generator=generator
        )
        return harness.tensor(whole.to(dtype))

    # In f16 the first product is rounded to 11 bits: |scores| <= 64 * 2 * 2.
    q, k, v = operand(queries, head, 2), operand(keys, head, 2), operand(keys, value, 4)
    output = harness.tensor(torch.full((queries + 1, value + align), 7.5))
    row_data = harness.tensor(torch.arange(queries).float())
    column_data = harness.tensor(torch.arange(value).float())
    harness.call(
        UNIT,
        name,
        *(q, k, v, output, row_data, column_data, queries, keys, head, value),
        *(q.shape[1], k.shape[1], v.shape[1], output.shape[1]),
        schedule=schedule,
    )
    q, k, v = (x.cpu().double() for x in (q, k, v))
    expected = torch.full(output.shape, 7.5, dtype=torch.float64)
    product = (q[:queries, :head] @ k[:keys, :head].T) @ v[:keys, :value]
    expected[:queries, :value] = torch.arange(queries)[:, None] * product + torch.arange(value)
    assert torch.equal(output.cpu().double(), expected)
