"""Flags with which a translated source is compiled into a library that runs on the CPU."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_ext._locations import include_dirs

from .errors import HostBuildError
from .overlay import cutlass_overlay, source_overlay
from .runtime import MODES, SANITIZER_FLAGS, build_runtime, wrapped_functions

# The optimiser pays where a kernel runs long; a launch here takes milliseconds, a compile seconds.
_OPTIMIZATION = {"plain": "-O1", "asan": "-O1", "instrumented": "-O1"}


@dataclass(frozen=True)
class HostBuild:
    """How to compile and link one library of kernels.

    compile_flags   for a translated source; they hold the include paths
    link_flags      with -shared
    runtime         the runtime library that the kernels are linked to, by its absolute path
    """

    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    runtime: Path


def build_flags(
    cutlass: Path,
    cuda_include: Sequence[Path],
    cache: Path,
    mode: str = "plain",
    arch: int = 80,
    include: Sequence[Path] = (),
) -> HostBuild:
    """Flags for a source that `translate` has gone over.

    cutlass        folder that holds cutlass/cutlass.h, of CUTLASS 4.2.0
    cuda_include   folders that hold cuda_runtime.h and, under CUDA 13, the cccl folder
    cache          where overlays and the runtime are kept; made where missing
    mode           "plain"; "asan" finds accesses out of bounds; "instrumented" finds data races
    arch           architecture to imitate: 80 for sm_80
    include        further folders of headers that need translation

    Generates what is missing; any number of processes may call this at once. Raises HostBuildError.
    """
    if mode not in MODES:
        raise HostBuildError(f"The mode is {mode!r}; it is one of {', '.join(MODES)}.")
    cutlass = Path(cutlass)
    if not (cutlass / "cutlass").is_dir() and (cutlass / "include" / "cutlass").is_dir():
        cutlass = cutlass / "include"
    roots = include_dirs()
    directory = Path(cache) / "host"
    cuda = [folder for path in cuda_include for folder in (Path(path), Path(path) / "cccl")]
    cuda = [folder for folder in dict.fromkeys(cuda) if folder.is_dir()]
    with _lock(directory):
        overlays = [source_overlay(root, directory) for root in [*include, *roots] if root.is_dir()]
        overlays.append(cutlass_overlay(cutlass, directory))
        runtime = build_runtime(roots[0], cuda, directory / "runtime", mode)

    compile_flags = ["-std=c++17", "-fPIC", "-fvisibility=hidden", _OPTIMIZATION[mode]]
    # CUTLASS counts on nvcc's leniency: -fpermissive; -w drops the warnings that come with it. It
    # also reads registers of one type as another.
    compile_flags += ["-fpermissive", "-w", "-fno-strict-aliasing", "-ffp-contract=off"]
    # Libraries of two modes may share a process: nothing of one may stand in for the other's.
    compile_flags += ["-fno-gnu-unique"]
    compile_flags += [*SANITIZER_FLAGS[mode]]
    if mode == "instrumented":
        # The callbacks are the runtime's; libtsan is never linked.
        compile_flags += ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]
    compile_flags += [f"-DCUTLASS_EXT_HOST_EXECUTION={arch * 10}"]
    compile_flags += [f"-I{path}" for path in (*overlays, *cuda)]
    compile_flags += ["-include", "cutlass_ext/host/prelude.h"]

    link_flags = ["-shared", *SANITIZER_FLAGS[mode], str(runtime), f"-Wl,-rpath,{runtime.parent}"]
    host = roots[0] / "cutlass_ext" / "host"
    link_flags += [f"-Wl,--wrap={function}" for function in wrapped_functions(host, mode)]
    return HostBuild(tuple(compile_flags), tuple(link_flags), runtime)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
