"""The access log: what is in it, in which order, and that it is empty unless asked for."""

from __future__ import annotations

import numpy as np
import pytest
from host_kernels import library

from cutlass_ext import host

BLOCKS, THREADS = 3, 64


def _aligned(count: int) -> np.ndarray:
    raw = np.zeros(count + 4, np.float32)
    return raw[(-raw.ctypes.data // 4) % 4 :][:count]


def _run(mode: str = "plain", **options):
    source = _aligned(4 * BLOCKS * THREADS)
    source[:] = np.arange(len(source))
    out, total = np.zeros(BLOCKS * THREADS, np.float32), np.zeros(1, np.float32)
    with host.options(**options) as observed:
        arguments = [array.ctypes.data for array in (source, out, total)]
        library("log.cu", mode).call("by_instruction", [*arguments, BLOCKS, THREADS], 0)
    assert np.array_equal(out, source[1::4])
    return source, out, total, observed


def _select(log: np.ndarray, kind: str, space: str) -> np.ndarray:
    return log[(log["kind"] == kind) & (log["space"] == space)]


@pytest.mark.parametrize("mode", ["plain", "instrumented"])
@pytest.mark.parametrize("order", ["forward", "random"])
def test_each_access_is_logged_once(mode, order):
    source, out, total, observed = _run(mode, log=True, order=order)
    log = observed.log
    index = log["block"].astype(np.int64) * THREADS + log["thread"]
    for kind, space, size, address in (
        ("prefetch", "global", 1, source.ctypes.data + 16 * index),
        ("cp_async", "global", 16, source.ctypes.data + 16 * index),
        ("cp_async", "shared", 16, 16 * log["thread"]),
        ("load", "shared", 4, 16 * log["thread"] + 4),
        ("store", "global", 4, out.ctypes.data + 4 * index),
        ("atomic", "global", 4, np.full(len(log), total.ctypes.data)),
    ):
        chosen = (log["kind"] == kind) & (log["space"] == space)
        assert np.count_nonzero(chosen) == BLOCKS * THREADS, (kind, space)
        assert np.array_equal(np.unique(index[chosen]), np.arange(BLOCKS * THREADS))
        assert np.all(log["bytes"][chosen] == size)
        assert np.array_equal(log["address"][chosen], np.asarray(address, np.uint64)[chosen])
    assert len(log) == 6 * BLOCKS * THREADS


def test_the_sequence_is_the_order_of_execution():
    log = _run(log=True)[3].log
    assert np.array_equal(log["sequence"], np.arange(len(log)))
    for thread in range(THREADS):
        mine = log[(log["block"] == 0) & (log["thread"] == thread)]
        assert list(mine["kind"]) == ["prefetch", "cp_async", "cp_async", "load", "store", "atomic"]
    # Every copy comes before the barrier, every load after it.
    first = log[log["block"] == 0]
    copies, loads = (first["sequence"][first["kind"] == kind] for kind in ("cp_async", "load"))
    assert copies.max() < loads.min()


def test_instrumented_mode_logs_plain_expressions():
    source, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with host.options(log=True) as observed:
        arguments = [source.ctypes.data, out.ctypes.data]
        library("log.cu", "instrumented").call("by_expression", arguments, 0)
    assert np.array_equal(out, source[::-1])
    log = observed.log
    loads = _select(log, "load", "global")
    assert np.array_equal(np.sort(loads["address"]), source.ctypes.data + 4 * np.arange(64))
    reads = _select(log, "load", "shared")
    assert np.array_equal(np.sort(reads["address"] - reads["address"].min()), 4 * np.arange(64))
    assert len(_select(log, "store", "shared")) == len(_select(log, "store", "global")) == 64
    assert len(log) == 256


def test_the_log_is_empty_unless_asked_for():
    assert len(_run()[3].log) == 0


def test_statistics():
    statistics = _run()[3].statistics
    assert statistics["launches"] == 1
    assert statistics["blocks"] == BLOCKS
    assert statistics["barriers"] == BLOCKS
    assert statistics["async_copies"] == BLOCKS * THREADS


def test_a_random_order_is_a_function_of_its_seed():
    def order(seed: int) -> list:
        return list(_run(log=True, order="random", seed=seed)[3].log["thread"])

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_contexts_nest():
    with host.options(order="reverse"):
        with host.options(order="forward", log=True) as inner:
            first = _threads_in_order(inner)
        with host.options(log=True, order="reverse") as inner:
            second = _threads_in_order(inner)
        assert first == second[::-1]


def _threads_in_order(observed) -> list:
    source = _aligned(4 * THREADS)
    out, total = np.zeros(THREADS, np.float32), np.zeros(1, np.float32)
    arguments = [array.ctypes.data for array in (source, out, total)]
    library("log.cu").call("by_instruction", [*arguments, 1, THREADS], 0)
    return list(_select(observed.log, "prefetch", "global")["thread"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "backward"}, "order is 'backward'; it is one of 'forward', 'reverse', "),
        ({"cp_async": "late"}, "cp_async is 'late'; it is one of 'deferred', 'eager'."),
        ({"poison": 256}, "poison is 256; it is a byte."),
    ],
)
def test_bad_options_are_refused(arguments, message):
    with pytest.raises(ValueError) as error, host.options(**arguments):
        pass
    assert str(error.value).startswith(message)
