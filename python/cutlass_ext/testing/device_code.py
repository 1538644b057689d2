"""Running test functions written in CUDA: on the CPU through `cutlass_ext.host`, or on a GPU.

A `Unit` names headers and functions of a harness; `Harness` compiles it for the device that pytest
was asked for and calls its functions with tensors and integers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from hypothesis import strategies as st

from cutlass_ext import jit

_ORDERS = ("forward", "reverse", "random", "warp_priority")


@dataclass(frozen=True)
class Unit:
    """One translation unit of test functions.

    Every function is a C++ template in namespace harness that takes `Arguments`; `functions` pairs
    the name that Python calls with the instance.
    """

    name: str
    headers: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]
    directory: Path
    """Where the headers lie."""
    declarations: str = ""
    """C++ aliases that `functions` use."""
    arch: int = 80
    logged: bool = False
    """Whether tests read the access log of its functions."""

    def source(self) -> str:
        """The rendered translation unit."""
        lines = [f'#include "{header}"' for header in self.headers]
        lines += ["namespace harness {", self.declarations]
        lines += [
            f"CUTLASS_EXT_EXPORT char const *{name}(cutlass_ext::Word const *words, int count, "
            "void *stream) {\n"
            f"  return cutlass_ext::guarded([&] {{ {call}"
            "(Arguments(words, count, stream)); });\n}"
            for name, call in self.functions
        ]
        lines.append("}  // namespace harness")
        return "\n".join(lines) + "\n"

    def spec(self, device: str, mode: str) -> jit.KernelSpec:
        """The library that holds the functions; on a GPU there is one mode."""
        target = "host" if device == "host" else jit.targets()[0]
        return jit.KernelSpec(
            name=self.name,
            source=self.source(),
            target=target,
            arch=self.arch,
            mode=mode if device == "host" else "plain",
            include_dirs=(str(self.directory),),
        )


@dataclass(frozen=True)
class Schedule:
    """How the CPU runs the threads of a block; a GPU does as it likes."""

    order: str = "forward"
    seed: int = 0
    poison: int = 0xFF


def schedules() -> st.SearchStrategy[Schedule]:
    """All orders, any seed, two poisons."""
    return st.builds(
        Schedule,
        order=st.sampled_from(_ORDERS),
        seed=st.integers(0, 2**31 - 1),
        poison=st.sampled_from((0xFF, 0x00)),
    )


@dataclass(frozen=True)
class Harness:
    """Compiles and calls test functions on `device` (`"host"` or `"cuda"`)."""

    device: str
    mode: str = "plain"

    def build(self, units: Iterable[Unit]) -> None:
        """Builds together whatever of `units` compiles; the rest raises when it is loaded.

        In mode "plain" a unit with `logged` functions is built a second time, instrumented.
        """
        with contextlib.suppress(jit.BuildError):
            jit.build(
                [unit.spec(self.device, mode) for unit in units for mode in self._modes(unit)]
            )

    def load(self, unit: Unit) -> None:
        """Loads the unit's libraries, so that later calls find them."""
        for mode in self._modes(unit):
            jit.load(unit.spec(self.device, mode))

    def _modes(self, unit: Unit) -> tuple[str, ...]:
        if self.device == "host" and unit.logged and self.mode == "plain":
            return ("plain", "instrumented")
        return (self.mode,)

    def call(
        self,
        unit: Unit,
        function: str,
        *arguments: torch.Tensor | int,
        schedule: Schedule | None = None,
        log: bool = False,
    ):
        """Calls `function`; returns the access log if it was asked for.

        Copies are deferred to the last legal moment. The log needs the host; it holds plain loads
        and stores, too, because it is taken in an instrumented build.
        """
        if log and self.device != "host":
            raise ValueError("Accesses are logged on the host only.")
        mode = "instrumented" if log else self.mode
        library = jit.load(unit.spec(self.device, mode))
        words = [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in arguments]
        with self._running(schedule or Schedule(), log) as run:
            library.call(function, words)
            if self.device == "cuda":
                torch.cuda.synchronize()
        return run.log if log else None

    def tensor(self, values: torch.Tensor) -> torch.Tensor:
        """A contiguous copy on the device."""
        return values.contiguous().to("cpu" if self.device == "host" else "cuda", copy=True)

    @contextlib.contextmanager
    def _running(self, schedule: Schedule, log: bool) -> Iterator:
        if self.device == "cuda":
            yield None
            return
        from cutlass_ext import host

        with host.options(
            order=schedule.order,
            seed=schedule.seed,
            poison=schedule.poison,
            cp_async="deferred",
            log=log,
        ) as run:
            yield run
