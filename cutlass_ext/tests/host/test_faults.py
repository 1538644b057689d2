"""Each kind of fault is planted and found in every run, and the controls raise no alarm."""

from __future__ import annotations

import re

import numpy as np
import pytest
from host_kernels import SCHEDULES, call, schedule_name

# function, fault, mode -> what the message says. Every mode that is named must find the fault
# under every schedule.
FAULTS = [
    # Races: only happens-before sees them whatever the order.
    ("shift", 1, {"instrumented": r"data race: (read|write) of shared memory"}),
    ("shift", 2, {"instrumented": r"data race: (read|write) of shared memory"}),
    ("warp_exchange", 1, {"instrumented": r"data race: (read|write) of shared memory"}),
    ("warp_exchange", 2, {"instrumented": r"data race: (read|write) of shared memory"}),
    ("global", 1, {"instrumented": r"data race: .* global memory"}),
    ("global", 2, {"instrumented": r"data race: .* global memory"}),
    ("global", 3, {"instrumented": r"data race: .* global memory.*atomic|atomic.*global memory"}),
    ("copy", 3, {"instrumented": r"data race|in flight"}),
    # Barriers.
    (
        "barrier",
        1,
        dict.fromkeys(
            ("plain", "asan", "instrumented"),
            r"deadlock(.|\n)*block \(0,0,0\)(.|\n)*threads 0-63 wait at bar.sync 1 \(.*faults.cu:\d+\)"  # noqa: E501
            r"(.|\n)*threads 64-127 wait at bar.sync 2",
        ),
    ),
    (
        "barrier",
        2,
        dict.fromkeys(
            ("plain", "instrumented"),
            r"deadlock(.|\n)*threads 0-95 wait at bar.sync 1(.|\n)*threads 96-127 returned",
        ),
    ),
    # Whether the two counts meet depends on the order; if they don't, the second is never reached.
    (
        "barrier",
        3,
        {
            "plain": r"barrier 1: this thread expects .* \[block \(0,0,0\) thread|deadlock(.|\n)*bar.sync 1"  # noqa: E501
        },
    ),
    (
        "barrier",
        4,
        {"plain": r"divergent __syncthreads\(\): this thread is at .*faults.cu:\d+.*others wait"},
    ),
    # Warp collectives.
    ("collective", 1, {"plain": r"mismatched warp collectives.*(vote|shuffle).*\[block"}),
    ("collective", 2, {"plain": r"shuffle: lane \d+ reads lane 20, which does not take part"}),
    ("collective", 3, {"plain": r"the mask 0x0000ffff does not name the lane"}),
    # Likewise: half a warp may have come and gone before the other half names it.
    (
        "collective",
        4,
        {"plain": r"this lane names the mask 0x|reads lane 0, which does not take part"},
    ),
    ("collective", 5, {"plain": r"deadlock(.|\n)*wait at ldmatrix"}),
    (
        "collective",
        6,
        {"plain": r"deadlock(.|\n)*wait at shuffle(.|\n)*thread 7 wait at bar.sync 0"},
    ),
    # Copies.
    ("copy", 1, {"plain": "wrong numbers", "asan": "wrong numbers", "instrumented": "in flight"}),
    ("copy", 2, {"plain": "wrong numbers", "instrumented": "in flight"}),
    ("copy", 4, {"plain": r"the source changed.*\[block \(0,0,0\) thread"}),
    ("copy", 5, {"plain": r"cp.async.*misaligned.*faults.cu:\d+.*\[block \(0,0,0\) thread"}),
    ("copy", 6, {"plain": r"cp.async.*misaligned.*\[block \(0,0,0\) thread"}),
    ("copy", 7, {"instrumented": r"write of shared memory.*in flight"}),
    # Alignment.
    ("alignment", 1, {"plain": r"ld.global.v4.f32: misaligned.*\[block \(0,0,0\) thread"}),
    ("alignment", 2, {"plain": r"ldmatrix.*misaligned.*thread \(3,0,0\)"}),
    ("alignment", 3, {"plain": r"atomic: the address .* is not a multiple of 4 \[block"}),
    ("alignment", 4, {"plain": r"st.shared.v2.f32: misaligned.*\[block"}),
    # Bounds.
    ("bounds", 1, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    ("bounds", 2, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    ("bounds", 3, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    ("bounds", 4, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    ("bounds", 5, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    (
        "bounds",
        6,
        dict.fromkeys(
            ("plain", "asan"),
            r"st.shared.f32: the shared address .* is outside.*thread \(127,0,0\)",
        ),
    ),
    ("bounds", 7, {"asan": r"heap-buffer-overflow(.|\n)*thread \(127,0,0\)"}),
    # The rest.
    ("chain", 1, {"instrumented": r"data race"}),
    ("chain", 2, {"instrumented": r"data race"}),
    (
        "instruction",
        1,
        {"plain": r"this instruction is not known: bfind.u32 %0, %1 \(.*faults.cu:\d+\)"},
    ),
    ("instruction", 2, {"plain": r"__trap\(\) \[block \(0,0,0\) thread \(\d+,0,0\)\]"}),
    ("instruction", 3, {"plain": r"trap: reached .*\[block"}),
    ("livelock", 0, {"plain": r"livelock"}),
]

CONTROLS = [
    ("shift", 0),
    ("warp_exchange", 0),
    ("barrier", 0),
    ("collective", 0),
    ("copy", 0),
    ("alignment", 0),
    ("bounds", 0),
    ("global", 0),
    ("chain", 0),
    ("chain", 3),
    ("uninitialized", 0),
    ("instruction", 0),
]


@pytest.mark.parametrize(
    ("function", "fault", "mode", "message"),
    [(f, n, mode, message) for f, n, by_mode in FAULTS for mode, message in by_mode.items()],
    ids=lambda value: str(value) if not isinstance(value, str) or len(value) < 15 else "",
)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=schedule_name)
def test_fault_is_found(function, fault, mode, message, schedule):
    found = call("faults.cu", function, fault, mode=mode, **schedule)
    assert found is not None
    assert re.search(message, found), found


@pytest.mark.parametrize(("function", "fault"), CONTROLS)
@pytest.mark.parametrize("mode", ["plain", "asan", "instrumented"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=schedule_name)
@pytest.mark.parametrize("resident_blocks", [1, 3])
def test_control_raises_no_alarm(function, fault, mode, schedule, resident_blocks):
    message = call(
        "faults.cu", function, fault, mode=mode, resident_blocks=resident_blocks, **schedule
    )
    assert message is None


def test_eager_copies_hide_a_missing_wait():
    """The reason for deferred copies: with eager ones the numbers are right."""
    assert call("faults.cu", "copy", 1, cp_async="eager") is None
    assert "in flight" in call("faults.cu", "copy", 1, mode="instrumented", cp_async="eager")


def test_livelock_ends_where_the_other_block_is_resident():
    assert call("faults.cu", "livelock", 0, resident_blocks=2) is None


def _sum(fault: int, poison: int) -> int:
    result = np.zeros(1, np.int64)
    assert call("faults.cu", "uninitialized_sum", fault, result.ctypes.data, poison=poison) is None
    return int(result[0])


def test_two_poisons_tell_a_read_before_the_first_write():
    assert _sum(0, 0xFF) == _sum(0, 0x7E)
    assert _sum(1, 0xFF) != _sum(1, 0x7E)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=schedule_name)
def test_uninitialized_shared_memory_is_reported_on_request(schedule):
    arguments = {"mode": "instrumented", "report_uninitialized": True, **schedule}
    assert call("faults.cu", "uninitialized", 0, **arguments) is None
    message = call("faults.cu", "uninitialized", 1, **arguments)
    assert re.search(r"read of shared memory \+ 0x\w+, which nothing has written", message)
