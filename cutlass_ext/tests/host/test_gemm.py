"""Stock CUTLASS GEMMs give exact results on integers under every schedule, without an alarm."""

from __future__ import annotations

import pytest
from host_kernels import SCHEDULES, call, schedule_name
from hypothesis import given
from hypothesis import strategies as st

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
