"""Emulated instructions agree bit by bit with vectors that a GPU has recorded.

record_vectors.py makes them, by the same source.
"""

from __future__ import annotations

import numpy as np
import pytest
from host_kernels import FOLDER, SCHEDULES, library
from record_vectors import LANES, cases, inputs, run

from cutlass_ext import host

VECTORS = FOLDER / "vectors.npz"


@pytest.fixture(scope="module")
def recorded():
    if not VECTORS.is_file():
        pytest.skip("no vectors.npz: run record_vectors.py on a GPU")
    with np.load(VECTORS) as archive:
        return dict(archive)


def _execute(case: str) -> np.ndarray:
    def call(name: str, *addresses: int) -> None:
        library("vectors.cu").call(name, list(addresses), 0)

    return run(call, case)[1]


@pytest.mark.parametrize("case", cases())
def test_bitwise_equal_to_a_gpu(recorded, case):
    if f"in_{case}" not in recorded:
        pytest.skip(f"vectors.npz lacks {case}: run record_vectors.py on a GPU")
    assert np.array_equal(recorded[f"in_{case}"], inputs(case)), "the generator has changed"
    result = _execute(case)
    lanes, words = np.nonzero(result != recorded[f"out_{case}"])
    assert len(lanes) == 0, [
        f"lane {lane} word {word}: {result[lane, word]:08x}, on {recorded['gpu']} "
        f"{recorded[f'out_{case}'][lane, word]:08x}"
        for lane, word in zip(lanes, words, strict=True)
    ]


@pytest.mark.parametrize("case", cases())
def test_independent_of_the_schedule(case):
    results = []
    for schedule in SCHEDULES:
        with host.options(**schedule):
            results.append(_execute(case))
    assert results[0].any()
    assert all(np.array_equal(results[0], result) for result in results[1:])


# ---- the same instructions against independent formulas ----


def _halves(words: np.ndarray) -> np.ndarray:
    """[lane, word] to [lane, word, 2] of float64."""
    return np.ascontiguousarray(words).view(np.float16).reshape(*words.shape, 2).astype(np.float64)


def _bfloats(words: np.ndarray) -> np.ndarray:
    pairs = np.stack([words << 16, words & 0xFFFF0000], axis=-1).astype(np.uint32)
    return pairs.view(np.float32).astype(np.float64)


def _floats(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float32)[..., None].astype(np.float64)


@pytest.mark.parametrize(
    ("case", "k", "values"),
    [
        ("half_mma_m16n8k16_f32", 16, _halves),
        ("half_mma_m16n8k8_f32", 8, _halves),
        ("bfloat_mma_m16n8k16_f32", 16, _bfloats),
        ("bfloat_mma_m16n8k8_f32", 8, _bfloats),
        ("tf32_mma_m16n8k8_f32", 8, _floats),
        ("tf32_mma_m16n8k4_f32", 4, _floats),
    ],
)
def test_mma_by_the_fragment_layouts_of_the_ptx_manual(case, k, values):
    words, result = inputs(case), _execute(case)
    per_register = values(words).shape[-1]
    a, b, c = np.zeros((16, k)), np.zeros((k, 8)), np.zeros((16, 8))
    d = np.zeros((16, 8))
    for lane in range(LANES):
        group, thread = divmod(lane, 4)
        a_values = values(words[lane : lane + 1, 0:4])[0].reshape(-1)
        b_values = values(words[lane : lane + 1, 4:6])[0].reshape(-1)
        for i in range(16 * k // LANES):
            # For f16: row = group for a0, a1, a4, a5, else group + 8.
            register, element = divmod(i, per_register)
            row = group + 8 * (register % 2)
            column = thread * per_register + element + 4 * per_register * (register // 2)
            a[row, column] = a_values[i]
        for i in range(8 * k // LANES):
            register, element = divmod(i, per_register)
            b[thread * per_register + element + 4 * per_register * register, group] = b_values[i]
        for i in range(4):
            place = group + 8 * (i // 2), 2 * thread + i % 2
            c[place] = words[lane, 8 + i : 9 + i].view(np.float32)[0]
            d[place] = result[lane, i : i + 1].view(np.float32)[0]
    assert np.array_equal(d, a @ b + c)


@pytest.mark.parametrize("row_major_a", [True, False])
@pytest.mark.parametrize("row_major_b", [True, False])
@pytest.mark.parametrize("accumulators", ["f32", "f16"])
def test_quad_pairs_by_the_fragment_layouts_of_the_ptx_manual(
    row_major_a, row_major_b, accumulators
):
    layouts = "_".join("row" if x else "col" for x in (row_major_a, row_major_b))
    case = f"half_mma_m8n8k4_{layouts}_{accumulators}"
    words, result = inputs(case), _execute(case)
    a, b = _halves(words[:, 0:2]).reshape(LANES, 4), _halves(words[:, 4:6]).reshape(LANES, 4)
    if accumulators == "f32":
        c, d = words[:, 8:16].view(np.float32), result.view(np.float32)
    else:
        c, d = (_halves(x).reshape(LANES, 8) for x in (words[:, 12:16], result[:, 0:4]))
    for pair in range(4):
        lanes = np.r_[4 * pair : 4 * pair + 4, 16 + 4 * pair : 20 + 4 * pair]
        if row_major_a:  # a lane holds a row
            matrix_a = a[lanes]
        else:  # a lane holds a column of the upper or the lower half
            matrix_a = np.concatenate([a[lanes[:4]].T, a[lanes[4:]].T])
        if row_major_b:  # a lane holds the left or the right half of a row
            matrix_b = np.concatenate([b[lanes[:4]], b[lanes[4:]]], axis=1)
        else:  # a lane holds a column
            matrix_b = b[lanes].T
        product = matrix_a @ matrix_b
        for lane in lanes:
            for i in range(8):
                if accumulators == "f32":
                    row = (lane & 1) + (i & 2) + (4 if lane >= 16 else 0)
                    column = (i & 4) + (lane & 2) + (i & 1)
                else:
                    row, column = lane % 4 + (4 if lane >= 16 else 0), i
                assert d[lane, i] == c[lane, i] + product[row, column]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_by_the_ptx_manual(count, transposed):
    case = f"int_ldmatrix_x{count}{'_trans' if transposed else ''}"
    rows = np.ascontiguousarray(inputs(case)[:, :4]).view(np.uint16).reshape(LANES, 8)
    address = {1: lambda i: i, 2: lambda i: i ^ 1, 4: lambda i: (i + 3) % 32}[count]
    result = _execute(case)
    for matrix in range(count):
        elements = np.stack([rows[address(8 * matrix + row)] for row in range(8)])
        if transposed:
            elements = elements.T
        expected = np.ascontiguousarray(elements).view(np.uint32).reshape(LANES)
        assert np.array_equal(result[:, matrix], expected)


def test_conversions_by_numpy():
    words, result = inputs("float_convert"), _execute("float_convert")
    values = words.view(np.float32)
    with np.errstate(over="ignore"):
        low, high = values[:, 2].astype(np.float16), values[:, 1].astype(np.float16)
    expected = low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16
    assert np.array_equal(result[:, 1], expected)
    rounded = np.clip(np.rint(values[:, 7].astype(np.float64)), -(2**31), 2**31 - 1)
    assert np.array_equal(result[:, 7].view(np.int32), rounded.astype(np.int32))


def test_exp2_of_integers_is_exact():
    words = inputs("float_exp2_of_integers")
    exponents = (words[:, 0] % 400).astype(np.int64) - 200
    with np.errstate(over="ignore"):
        expected = np.exp2(exponents.astype(np.float64)).astype(np.float32)
    expected[exponents < -126] = 0  # subnormal results are flushed
    assert np.array_equal(_execute("float_exp2_of_integers")[:, 0].view(np.float32), expected)
