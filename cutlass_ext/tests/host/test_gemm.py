"""Stock CUTLASS GEMMs give exact results on integers under every schedule, without an alarm."""

from __future__ import annotations

import pytest
import torch
from host_kernels import SCHEDULES, call, library, schedule_name
from hypothesis import given
from hypothesis import strategies as st

from cutlass_ext import host

# Multiples that the alignment of each kernel's operands asks for: of m, n, k.
KERNELS = {
    "simt": (1, 1, 1),
    "simt_multistage": (1, 1, 1),
    "half": (1, 1, 8),
    "half_transposed": (2, 2, 1),
    "bfloat": (1, 1, 8),
    "tf32": (1, 4, 4),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mode", ["plain", "asan", "instrumented"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=schedule_name)
def test_ragged_tiles(kernel, mode, schedule):
    m, n, k = (
        multiple * count for multiple, count in zip(KERNELS[kernel], (77, 41, 13), strict=True)
    )  # noqa: E501
    assert call("gemm.cu", f"gemm_{kernel}", m, n, k, 1, mode=mode, **schedule) is None


@pytest.mark.parametrize("mode", ["plain", "instrumented"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=schedule_name)
@pytest.mark.parametrize("resident_blocks", [1, 2, 5])
def test_slices_of_k_meet_at_a_semaphore(mode, schedule, resident_blocks):
    message = call(
        "gemm.cu",
        "gemm_half",
        70,
        64,
        200,
        3,
        mode=mode,
        resident_blocks=resident_blocks,
        **schedule,
    )
    assert message is None


@given(
    kernel=st.sampled_from(sorted(KERNELS)),
    counts=st.tuples(*[st.integers(1, 20)] * 3),
    schedule=st.sampled_from(["forward", "reverse", "random", "warp_priority"]),
    seed=st.integers(0, 1000),
)
def test_any_shape(kernel, counts, schedule, seed):
    m, n, k = (multiple * count for multiple, count in zip(KERNELS[kernel], counts, strict=True))
    assert call("gemm.cu", f"gemm_{kernel}", m, n, k, 1, order=schedule, seed=seed) is None


# ---- tensor cores before Ampere: of device_gemm.cu, for architectures 70 and 75 ----

# name: (A row major, B row major, type of C and D, alignment of A and B)
DEVICE_GEMMS = {
    "row_row": (True, True, torch.float32, 8),
    "row_column": (True, False, torch.float16, 8),
    "column_row": (False, True, torch.float32, 8),
    "column_column": (False, False, torch.float16, 8),
    "row_row_f16": (True, True, torch.float16, 2),
    "row_column_f16": (True, False, torch.float16, 1),
    "column_row_f16": (False, True, torch.float16, 4),
    "column_column_f16": (False, False, torch.float16, 8),
}


def device_gemm(arch, name, counts, padding, seed, mode="plain", **schedule):
    """Asserts that the GEMM equals torch bit by bit."""
    row_major_a, row_major_b, dtype, alignment = DEVICE_GEMMS[name]
    generator = torch.Generator().manual_seed(seed)
    m = counts[0] * (1 if row_major_a else alignment)
    n = counts[1] * (alignment if row_major_b else 1)
    k = counts[2] * alignment

    def operand(rows, columns, row_major):
        """Matrix, and how it lies in memory: NaN between its lines."""
        # With |sum| <= 4 k + 2 <= 642 every partial sum is exact in f16.
        values = torch.randint(-2, 3, (rows, columns), generator=generator).half()
        lines = values if row_major else values.T
        memory = torch.full((len(lines), lines.shape[1] + alignment * padding), float("nan")).half()
        memory[:, : lines.shape[1]] = lines
        return values, memory

    a, memory_a = operand(m, k, row_major_a)
    b, memory_b = operand(k, n, row_major_b)
    c = torch.randint(-2, 3, (m, n), generator=generator).to(dtype)
    d = torch.full((m, n), float("nan"), dtype=dtype)
    message = call(
        "device_gemm.cu",
        name,
        *(m, n, k, memory_a.data_ptr(), memory_a.shape[1]),
        *(memory_b.data_ptr(), memory_b.shape[1], c.data_ptr(), d.data_ptr()),
        arch=arch,
        mode=mode,
        **schedule,
    )
    assert message is None
    expected = (a.double() @ b.double() + c.double()).to(dtype)
    bits = {torch.float16: torch.int16, torch.float32: torch.int32}[dtype]
    assert torch.equal(d.view(bits), expected.view(bits))


@given(
    arch=st.sampled_from((70, 75)),
    name=st.sampled_from(sorted(DEVICE_GEMMS)),
    counts=st.tuples(*[st.integers(1, 20)] * 3),
    padding=st.integers(0, 2),
    order=st.sampled_from(["forward", "reverse", "random", "warp_priority"]),
    seed=st.integers(0, 1000),
)
def test_volta_and_turing_equal_torch(arch, name, counts, padding, order, seed):
    device_gemm(arch, name, counts, padding, seed, order=order)


@pytest.mark.parametrize("arch", [70, 75])
@pytest.mark.parametrize("name", DEVICE_GEMMS)
def test_volta_and_turing_without_races(arch, name):
    device_gemm(arch, name, (9, 9, 9), 1, 0, mode="instrumented", order="random")


@pytest.mark.parametrize("arch", [70, 75, 80])
def test_copies_are_asynchronous_from_ampere_on(arch):
    with host.options() as run:
        library("gemm.cu", arch=arch).call("gemm_simt_multistage", [70, 50, 40, 1], 0)
    assert (run.statistics["async_copies"] > 0) == (arch >= 80)


def test_an_instruction_needs_its_architecture():
    """CUTLASS as compiled for sm_75 has no m16n8k16."""
    message = call("gemm.cu", "gemm_half", 16, 8, 16, 1, arch=75)
    assert message.startswith("brkpt: reached")
