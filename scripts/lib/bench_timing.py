"""Device time of a call: from events, with cold caches, in bursts that backends take in turn.

Power moves a GPU's clock by several per cent, so a comparison needs its backends interleaved, and
an idle moment before each burst that lets the chip start from the same state.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    warm_up: int = 3
    rounds: int = 5
    calls: int = 6
    """Timed calls a burst; a result is the median over all rounds."""
    idle: float = 0.15
    """Seconds of idleness before each burst."""
    sustained_above: float = 0.5
    """Milliseconds above which a call is also timed under sustained load."""
    sustained_warm_up: int = 500
    sustained_seconds: float = float("inf")
    """The warm-up ends after this long, too: a clock has settled long before."""
    sustained_calls: int = 100


FULL = Effort()
QUICK = Effort(rounds=3, calls=5, sustained_above=float("inf"))


class CudaClock:
    """Times calls on the current GPU."""

    def __init__(self) -> None:
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        # The flush also keeps the GPU busy while the host enqueues the timed call.
        size = max(4 * cache, 512 << 20)
        self._flush = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), device="cuda")

    def idle(self, seconds: float) -> None:
        """Wait until the GPU is done, and then `seconds` more."""
        torch.cuda.synchronize()
        time.sleep(seconds)

    def cold(self, call: Callable[[], object], count: int) -> list[float]:
        """Milliseconds of each of `count` calls, the caches flushed before each."""
        return self._time(call, count, flush=True)

    def back_to_back(self, call: Callable[[], object], count: int) -> list[float]:
        """Milliseconds of each of `count` calls with nothing between them."""
        return self._time(call, count, flush=False)

    def _time(self, call: Callable[[], object], count: int, flush: bool) -> list[float]:
        pairs = []
        for _ in range(count):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if flush:
                # By reading: lines that a flush had written would have to go back to memory at the
                # cost of the call that comes after it.
                torch.sum(self._flush, dim=0, out=self._sum)
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]


class HostClock:
    """Times calls on a CPU with the wall clock: it proves the benchmark, not the kernels."""

    def idle(self, seconds: float) -> None:
        """Nothing to wait for."""

    def cold(self, call: Callable[[], object], count: int) -> list[float]:
        """Milliseconds of each of `count` calls."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        return times

    back_to_back = cold


def make_clock(device: str) -> CudaClock | HostClock:
    """The clock of a device."""
    return CudaClock() if device == "cuda" else HostClock()


def interleaved(
    clock: CudaClock | HostClock, calls: dict[str, Callable[[], object]], effort: Effort
) -> dict[str, float]:
    """Median milliseconds of each call by name, the bursts of the calls taken in turn."""
    for call in calls.values():
        clock.back_to_back(call, effort.warm_up)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(effort.rounds):
        for name, call in calls.items():
            clock.idle(effort.idle)
            times[name] += clock.cold(call, effort.calls)
    return {name: statistics.median(values) for name, values in times.items()}


def sustained(clock: CudaClock | HostClock, call: Callable[[], object], effort: Effort) -> float:
    """Median milliseconds of a call under a load that lasts."""
    clock.idle(effort.idle)
    # In parts, so that the queue of launches and events stays short.
    begin = time.monotonic()
    for _ in range(effort.sustained_warm_up // 20):
        clock.back_to_back(call, 20)
        if time.monotonic() - begin > effort.sustained_seconds:
            break
    return statistics.median(clock.back_to_back(call, effort.sustained_calls))


def launch_cost(call: Callable[[], object], synchronize: Callable[[], None]) -> float:
    """Median milliseconds that the host spends in one call of a small kernel."""
    batches = []
    for _ in range(20):
        synchronize()
        start = time.perf_counter()
        for _ in range(50):
            call()
        batches.append(1e3 * (time.perf_counter() - start) / 50)
    synchronize()
    return statistics.median(batches)
