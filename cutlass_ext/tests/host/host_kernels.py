"""Building the CUDA sources of this folder and calling what they export."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cutlass_ext import host
from cutlass_ext.jit import KernelSpec, build, load

FOLDER = Path(__file__).parent

SCHEDULES = [
    {"order": "forward"},
    {"order": "reverse"},
    *({"order": "random", "seed": seed} for seed in range(3)),
    *({"order": "warp_priority", "seed": seed} for seed in range(2)),
]


def schedule_name(schedule: dict) -> str:
    return "-".join(str(value) for value in schedule.values())


def spec(source: str, mode: str = "plain", arch: int = 80) -> KernelSpec:
    path = FOLDER / source
    text = f'#line 1 "{path}"\n{path.read_text()}'
    return KernelSpec(f"host_{path.stem}", text, "host", arch=arch, mode=mode)


def library(source: str, mode: str = "plain", arch: int = 80):
    return load(spec(source, mode, arch))


def call(source: str, function: str, *arguments, mode: str = "plain", arch: int = 80, **options):
    """Calls an exported function; returns its message, null on success."""
    if mode == "asan":
        return _call_in_process(source, function, arguments, options)
    with host.options(**options):
        try:
            library(source, mode, arch).call(function, list(arguments), 0)
        except RuntimeError as error:
            return str(error)
    return None


class _Process:
    """A Python process with AddressSanitizer in it, which answers calls one after another."""

    def __init__(self, path: Path) -> None:
        environment = os.environ | host.sanitizer_environment()
        environment["PYTHONPATH"] = os.pathsep.join(
            map(str, [FOLDER.parents[2] / "python", *sys.path])
        )
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER / "call_asan.py"), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def call(self, function: str, arguments: tuple, options: dict) -> str | None:
        request = {"function": function, "arguments": arguments, "options": options}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            pytest.fail(f"the process ended with {self._process.wait()}")
        return json.loads(answer)


@functools.cache
def _process(source: str) -> _Process:
    return _Process(build([spec(source, "asan")])[0])


def _call_in_process(source: str, function: str, arguments: tuple, options: dict) -> str | None:
    return _process(source).call(function, arguments, options)
