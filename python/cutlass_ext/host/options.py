"""Options of host execution for a stretch of Python, and what was observed in it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

_ORDERS = ("forward", "reverse", "random", "warp_priority")
_COPIES = ("deferred", "eager")
_KINDS = ("load", "store", "cp_async", "prefetch", "atomic")
_SPACES = ("global", "shared")
_VARIABLE = "CUTLASS_EXT_HOST_OPTIONS"

LOG_DTYPE = np.dtype(
    [
        ("launch", np.uint32),
        ("block", np.uint32),
        ("thread", np.uint32),
        ("sequence", np.uint64),
        ("kind", "U8"),
        ("space", "U6"),
        ("address", np.uint64),
        ("bytes", np.uint32),
    ]
)
"""An access of the log. `block` and `thread` are linear indices; `sequence` is the order of
execution; the address in shared memory counts from the beginning of the block's."""


class _Options(ctypes.Structure):
    """`cutlass_ext::host::Options`"""

    _fields_ = [
        ("order", ctypes.c_int32),
        ("eager_copies", ctypes.c_int32),
        ("poison", ctypes.c_int32),
        ("log", ctypes.c_int32),
        ("resident_blocks", ctypes.c_int32),
        ("shuffle_blocks", ctypes.c_int32),
        ("report_uninitialized", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
    ]


class _Statistics(ctypes.Structure):
    """`cutlass_ext::host::Statistics`"""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("launches", "blocks", "switches", "barriers", "collectives", "async_copies")
    ]


# `cutlass_ext::host::Access`
_ACCESS = np.dtype(
    [
        ("address", np.uint64),
        ("sequence", np.uint64),
        ("launch", np.uint32),
        ("block", np.uint32),
        ("thread", np.uint32),
        ("bytes", np.uint16),
        ("kind", np.uint8),
        ("space", np.uint8),
    ],
    align=True,
)


@dataclass
class Observation:
    """What the runtimes saw since the context was entered.

    log          structured array of LOG_DTYPE; empty unless `log=True`
    statistics   launches, blocks, switches, barriers, collectives, async_copies
    """

    _final: tuple[np.ndarray, dict[str, int]] | None = field(default=None, repr=False)

    @property
    def log(self) -> np.ndarray:
        """Accesses, in the order of execution within a block."""
        return self._final[0] if self._final else _read_log()

    @property
    def statistics(self) -> dict[str, int]:
        """Counts, by name."""
        return self._final[1] if self._final else _read_statistics()


def _loaded_runtimes() -> list[ctypes.CDLL]:
    """The runtime libraries in this process, one a mode at most; kernels brought them in."""
    paths = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith("libcutlass_ext_host_"):
                paths.add(path)
    return [ctypes.CDLL(path) for path in sorted(paths)]


def _read_log() -> np.ndarray:
    parts = []
    for runtime in _loaded_runtimes():
        runtime.cutlass_ext_host_log_size.restype = ctypes.c_uint64
        raw = np.empty(runtime.cutlass_ext_host_log_size(), _ACCESS)
        runtime.cutlass_ext_host_read_log(raw.ctypes.data_as(ctypes.c_void_p))
        log = np.empty(len(raw), LOG_DTYPE)
        for name in ("launch", "block", "thread", "sequence", "address", "bytes"):
            log[name] = raw[name]
        log["kind"] = np.array(_KINDS)[raw["kind"]]
        log["space"] = np.array(_SPACES)[raw["space"]]
        parts.append(log)
    return np.concatenate(parts) if parts else np.empty(0, LOG_DTYPE)


def _read_statistics() -> dict[str, int]:
    total = dict.fromkeys((name for name, _ in _Statistics._fields_), 0)
    for runtime in _loaded_runtimes():
        statistics = _Statistics()
        runtime.cutlass_ext_host_statistics(ctypes.byref(statistics))
        for name in total:
            total[name] += getattr(statistics, name)
    return total


def _set(values: _Options) -> None:
    for runtime in _loaded_runtimes():
        runtime.cutlass_ext_host_set_options(ctypes.byref(values))


def _clear() -> None:
    for runtime in _loaded_runtimes():
        runtime.cutlass_ext_host_clear()


def _choice(name: str, value: str, values: tuple[str, ...]) -> int:
    if value not in values:
        raise ValueError(f"{name} is {value!r}; it is one of {', '.join(map(repr, values))}.")
    return values.index(value)


@contextlib.contextmanager
def options(
    order: str = "forward",
    seed: int = 0,
    cp_async: str = "deferred",
    poison: int = 0xFF,
    log: bool = False,
    resident_blocks: int = 1,
    shuffle_blocks: bool = False,
    report_uninitialized: bool = False,
) -> Iterator[Observation]:
    """Sets the options of every launch in the process for the duration of a `with` statement.

    order                  thread that runs next: "forward", "reverse", "random", or
                           "warp_priority" (warps by a random priority)
    seed                   of all random choices
    cp_async               "deferred": a copy writes at its wait, the last legal moment; "eager": at
                           its issue
    poison                 byte that fills shared memory before a block, and a copy's destination
                           until its wait
    log                    record accesses; mode "instrumented" sees all of them, the others those
                           by inline PTX and by atomic functions
    resident_blocks        blocks in flight together
    shuffle_blocks         start blocks in a random order
    report_uninitialized   mode "instrumented": reading shared memory that nothing has written is an
                           error

    Yields an `Observation`, which starts empty and stays readable after the context. Contexts
    nest: the inner one's values hold while it lasts, and it starts log and statistics anew.
    """
    if not 0 <= poison <= 255:
        raise ValueError(f"poison is {poison}; it is a byte.")
    values = _Options(
        order=_choice("order", order, _ORDERS),
        eager_copies=_choice("cp_async", cp_async, _COPIES),
        poison=poison,
        log=log,
        resident_blocks=resident_blocks,
        shuffle_blocks=shuffle_blocks,
        report_uninitialized=report_uninitialized,
        seed=seed & 0xFFFFFFFFFFFFFFFF,
    )
    previous = os.environ.get(_VARIABLE)
    before = (
        _Options.from_buffer_copy(bytes.fromhex(previous)) if previous else _Options(poison=255)
    )
    if not previous:
        before.resident_blocks = 1
    # A runtime that is loaded inside the context takes its options from the environment.
    os.environ[_VARIABLE] = bytes(values).hex()
    _set(values)
    _clear()
    observation = Observation()
    try:
        yield observation
    finally:
        observation._final = (_read_log(), _read_statistics())
        if previous is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = previous
        _set(before)
        _clear()
