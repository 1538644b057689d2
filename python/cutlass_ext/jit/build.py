"""Building libraries that the cache lacks: ninja runs the compilers, each library once."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutlass_ext.jit import cache, toolchain
from cutlass_ext.jit.spec import Unit

_LOG = "build.log"
# A build that takes longer announces itself; a shorter one isn't worth a line.
_SILENT_SECONDS = 1.0
_POLL_SECONDS = 0.02


class BuildError(RuntimeError):
    """A compiler refused a source; the message has its command and its first errors."""


class CaptureError(RuntimeError):
    """A kernel was first needed while a CUDA graph is being captured."""


def ensure(units: Sequence[Unit], jobs: int | None = None) -> list[Path]:
    """Paths of the units' libraries, built where the cache lacks them.

    Units that another process builds at this moment are waited for. `jobs` compilers run at once,
    as many as there are cores if None. Raises BuildError with every unit that failed, after the
    others were built and kept; CaptureError where a build would start inside CUDA-graph capture.
    """
    entries = {unit: unit.entry() for unit in units}
    libraries = _find(entries)
    missing = [unit for unit in entries if unit not in libraries]
    if missing:
        _refuse_inside_capture(missing)
        with _Progress(missing) as progress:
            libraries.update(_build_or_await(missing, entries, jobs, progress))
    return [libraries[unit] for unit in units]


def build_log(library: Path) -> str:
    """What the compilers printed when `library` was built."""
    return (library.parent / _LOG).read_text()


def _find(entries: dict[Unit, cache.Entry]) -> dict[Unit, Path]:
    snapshot = cache.Snapshot()
    libraries = {}
    for unit, entry in entries.items():
        found = entry.find(snapshot)
        if found is None:
            continue
        libraries[unit] = found.path
        if not found.by_times:
            with entry.lock(wait=False) as held:
                if held:
                    entry.refresh(snapshot)
    return libraries


def _build_or_await(
    missing: list[Unit],
    entries: dict[Unit, cache.Entry],
    jobs: int | None,
    progress: _Progress,
) -> dict[Unit, Path]:
    """Builds what nobody else is building, then waits for the rest.

    No lock is waited for while another is held, so two processes can't block each other.
    """
    libraries: dict[Unit, Path] = {}
    failures: list[str] = []
    with contextlib.ExitStack() as locks:
        mine = {}
        for unit in missing:
            lock = contextlib.ExitStack()
            if lock.enter_context(entries[unit].lock(wait=False)):
                mine[unit] = lock
                locks.push(lock)
        # Another process may have finished one between the look at the cache and the lock.
        libraries.update(_find_locked({unit: entries[unit] for unit in mine}))
        mine = {unit: lock for unit, lock in mine.items() if unit not in libraries}
        if mine:
            _run_ninja(mine, entries, jobs, progress, libraries, failures)
    for unit in missing:
        if unit in libraries or unit in mine:
            continue
        with _waiting_lock(entries[unit], unit, progress):
            libraries.update(_find_locked({unit: entries[unit]}))
            if unit not in libraries:  # the other process failed or was killed
                alone = {unit: contextlib.ExitStack()}
                _run_ninja(alone, entries, jobs, progress, libraries, failures)
    if failures:
        raise BuildError("\n\n".join(failures))
    return libraries


def _find_locked(entries: dict[Unit, cache.Entry]) -> dict[Unit, Path]:
    snapshot = cache.Snapshot()
    found = {unit: entry.find(snapshot) for unit, entry in entries.items()}
    return {unit: hit.path for unit, hit in found.items() if hit is not None}


@contextlib.contextmanager
def _waiting_lock(entry: cache.Entry, unit: Unit, progress: _Progress):
    while True:
        with entry.lock(wait=False) as held:
            if held:
                yield
                return
        progress.tick(f"waiting for another process that builds {unit.name} for {unit.label}")
        time.sleep(_POLL_SECONDS)


def _run_ninja(
    locked: dict[Unit, contextlib.ExitStack],
    entries: dict[Unit, cache.Entry],
    jobs: int | None,
    progress: _Progress,
    libraries: dict[Unit, Path],
    failures: list[str],
) -> None:
    """Builds units whose entries are locked; publishes and unlocks each as soon as it is done."""
    ninja = toolchain.find_ninja()
    builds = [_Build(unit, entries[unit].make_work_folder(), time.time_ns()) for unit in locked]
    try:
        plan = builds[0].folder / "build.ninja"
        plan.write_text(_RULES + "".join(build.prepare() for build in builds))
        command = [str(ninja), "-f", str(plan), "-k", "0", "-j", str(jobs or _cores())]
        process = subprocess.Popen(
            command, cwd=plan.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            running = list(builds)
            while running:
                ended = process.poll() is not None  # before the look at the files: none is missed
                for build in [build for build in running if build.library.exists()]:
                    libraries[build.unit] = build.publish(entries[build.unit])
                    locked[build.unit].close()
                    running.remove(build)
                if ended:
                    break
                progress.tick()
                time.sleep(_POLL_SECONDS)
            failures.extend(build.failure(entries[build.unit]) for build in running)
        finally:
            if process.poll() is None:
                process.terminate()  # ninja ends its compilers
            process.wait()
    finally:
        for build in builds:
            shutil.rmtree(build.folder, ignore_errors=True)


_RULES = """ninja_required_version = 1.5
rule step
  command = $command
  description = $out
"""


@dataclass(frozen=True)
class _Build:
    """One unit on its way into the cache."""

    unit: Unit
    folder: Path
    since_ns: int

    @property
    def output(self) -> Path:
        """Becomes the library's folder in the cache."""
        return self.folder / "output"

    @property
    def library(self) -> Path:
        return self.output / f"{self.unit.name}.so"

    @property
    def source(self) -> Path:
        return self.output / f"{self.unit.name}{self.unit.suffix}"

    @property
    def log(self) -> Path:
        return self.output / _LOG

    def commands(self) -> tuple[list[str], list[str]]:
        """The compiler's command and the linker's."""
        object_file, unfinished = self.folder / "unit.o", self.folder / "unfinished.so"
        compile_command = [
            *self.unit.compile,
            *("-MD", "-MF", str(self.folder / "unit.d")),
            *("-c", str(self.source), "-o", str(object_file)),
        ]
        link_command = [
            *self.unit.link,
            *("-o", str(unfinished), str(object_file)),
            *self.unit.link_after,
        ]
        return compile_command, link_command

    def prepare(self) -> str:
        """Writes the source; returns ninja's lines for this unit."""
        self.output.mkdir()
        self.source.write_text(self.unit.source)
        compile_command, link_command = self.commands()
        object_file, unfinished = self.folder / "unit.o", self.folder / "unfinished.so"
        log = shlex.quote(str(self.log))
        compile_step = f"{shlex.join(compile_command)} > {log} 2>&1"
        # The rename tells the process that watches that the library is whole.
        move = shlex.join(["mv", str(unfinished), str(self.library)])
        link_step = f"{shlex.join(link_command)} >> {log} 2>&1 && {move}"
        return "".join(
            f"build {_ninja_path(output)}: step {_ninja_path(given)}\n"
            f"  command = {step.replace('$', '$$')}\n"
            for output, given, step in (
                (object_file, self.source, compile_step),
                (self.library, object_file, link_step),
            )
        )

    def publish(self, entry: cache.Entry) -> Path:
        files = _dependencies(self.folder / "unit.d")
        headers = [path for path in files if not path.startswith(str(self.folder))]
        return entry.publish(self.output, headers, cache.Snapshot(), self.since_ns)

    def failure(self, entry: cache.Entry) -> str:
        """Describes why there is no library; source and output are kept, and the command works."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        compile_command, link_command = self.commands()
        command = link_command if (self.folder / "unit.o").exists() else compile_command
        message = (
            f"{self.unit.name} can't be built for {self.unit.label}.\n"
            f"command: {shlex.join(command)}\n"
            f"first errors:\n{_first_errors(text)}\n"
            f"whole output: {self.log}"
        )
        os.rename(self.folder, entry.failed)
        return message.replace(str(self.folder), str(entry.failed))


def _ninja_path(path: Path) -> str:
    return re.sub(r"([$ :])", r"$\1", str(path))


def _dependencies(depfile: Path) -> list[str]:
    """Files named by a depfile (make's syntax: `target: file file \\`)."""
    text = depfile.read_text().replace("\\\n", " ")
    _, _, names = text.partition(": ")
    return [re.sub(r"\\(.)", r"\1", name) for name in re.findall(r"(?:\\.|[^\s\\])+", names)]


def _first_errors(text: str, most_lines: int = 12) -> str:
    """The first lines from the first error on; the end of the text where none is marked."""
    lines = text.strip().splitlines()
    for i, line in enumerate(lines):
        if re.search(r"\berror\b|undefined reference|[Ff]atal", line):
            return "\n".join(f"  {line}" for line in lines[i : i + most_lines])
    return "\n".join(f"  {line}" for line in lines[-most_lines:]) or "  (the compiler said nothing)"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _refuse_inside_capture(missing: list[Unit]) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    if torch.cuda.is_current_stream_capturing():
        raise CaptureError(
            f"{_names(missing)} would have to be built while a CUDA graph is being captured: "
            "call the operator once with these shapes and dtypes before the capture."
        )


def _names(units: Iterable[Unit]) -> str:
    names = [unit.name for unit in units]
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


class _Progress:
    """Lines on stderr for a build that takes longer than a second."""

    def __init__(self, units: list[Unit]) -> None:
        labels = sorted({unit.label for unit in units})
        self._what = f"building {_names(units)} for {'; '.join(labels)}"
        self._start = time.monotonic()
        self._said: str | None = None

    def __enter__(self) -> _Progress:
        return self

    def tick(self, what: str | None = None) -> None:
        """Says what is going on, once, where it has gone on for longer than a second."""
        what = what or self._what
        if what != self._said and time.monotonic() - self._start > _SILENT_SECONDS:
            self._said = what
            self._print(f"{what} ...")

    def __exit__(self, kind, error, traceback) -> None:
        if self._said is not None:
            ending = "ready" if kind is None else "stopped"
            self._print(f"{ending} after {time.monotonic() - self._start:.1f} s")

    @staticmethod
    def _print(text: str) -> None:
        print(f"cutlass_ext: {text}", file=sys.stderr, flush=True)
