"""Launches: limits, failures that leave nothing behind, several host threads."""

from __future__ import annotations

import re
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest
from host_kernels import call, library

from cutlass_ext import host

LIMITS = {70: 96, 75: 64, 80: 163, 90: 227}  # KiB


def _launch(threads=32, blocks=1, shared=0, opt_in=0, arch=80):
    return call("faults.cu", "launch_empty", threads, blocks, shared, opt_in, arch=arch)


@pytest.mark.parametrize("arch", [70, 80, 90])
def test_shared_memory_up_to_the_architecture_limit(arch):
    limit = LIMITS[arch] * 1024
    assert _launch(shared=limit, opt_in=limit, arch=arch) is None
    message = _launch(shared=limit + 1, arch=arch)
    assert f"sm_{arch} has {limit} bytes of shared memory for a block" in message
    message = _launch(shared=limit + 1, opt_in=limit + 1, arch=arch)
    assert message.startswith("cudaFuncSetAttribute: a value is outside")


def test_shared_memory_above_48_kib_needs_the_attribute():
    # The attribute stays with the kernel, as on a device, so a library of its own.
    assert _launch(shared=48 * 1024, arch=75) is None
    message = _launch(shared=48 * 1024 + 16, arch=75)
    assert "need cudaFuncSetAttribute" in message
    limit = LIMITS[75] * 1024
    assert _launch(shared=limit, opt_in=limit, arch=75) is None
    assert f"sm_75 has {limit} bytes" in _launch(shared=limit + 1, arch=75)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "a block has 1 to 1024 threads"),
        ({"threads": 1025}, "a block has 1 to 1024 threads"),
        ({"blocks": 0}, "the grid is empty"),
    ],
)
def test_configurations_that_a_device_refuses(arguments, message):
    assert message in _launch(**arguments)


def test_any_number_of_threads():
    for threads in (1, 31, 33, 1024):
        assert _launch(threads=threads, blocks=3) is None


FAILURES = [("barrier", 1), ("barrier", 4), ("collective", 2), ("copy", 5), ("instruction", 2)]


@pytest.mark.parametrize("order", ["forward", "random"])
@pytest.mark.parametrize("mode", ["plain", "instrumented"])
def test_the_launch_after_a_failure_works(mode, order):
    for function, fault in FAILURES:
        assert call("faults.cu", function, fault, mode=mode, order=order) is not None
        assert call("faults.cu", "copy", 0, mode=mode, order=order) is None
        assert call("faults.cu", "barrier", 0, mode=mode, order=order) is None


def test_failures_leak_no_memory():
    def fail(count: int) -> int:
        for _ in range(count):
            for function, fault in FAILURES:
                assert call("faults.cu", function, fault) is not None
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = fail(10)
    # 1 MiB: 200 failed launches may not leave 5 KiB each; the touched page of one fiber's stack,
    # of 128 a launch, would.
    assert fail(40) - before < 1024


def test_host_threads_take_turns():
    shift = library("faults.cu")
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(shift.call, "shift", [0], 0) for _ in range(200)]
        assert all(future.result() is None for future in futures)


def test_a_fault_names_its_block():
    message = call("faults.cu", "livelock", 0)
    assert re.search(r"\[block \(0,0,0\) thread \(0,0,0\)\]$", message)


def test_schedules_differ():
    counts = set()
    for order in ("forward", "random"):
        with host.options(order=order) as observed:
            library("faults.cu").call("collective", [0], 0)
        counts.add(observed.statistics["switches"])
    assert len(counts) == 2
