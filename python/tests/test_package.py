"""The package: what import gives, include directories, the command line, the CMake package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cutlass_ext
from cutlass_ext.jit import toolchain

ROOT = Path(__file__).parents[2]


def run(*command: str, **options) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    environment["CUTLASS_PATH"] = str(toolchain.find_cutlass())
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_from_the_root_gives_the_python_package():
    """The folder `cutlass_ext` of the root holds C++."""
    program = "import cutlass_ext; print(cutlass_ext.__file__)"
    assert run(sys.executable, "-c", program, cwd=ROOT).strip() == str(
        ROOT / "python" / "cutlass_ext" / "__init__.py"
    )


def test_import_needs_neither_torch_nor_compiler():
    program = (
        "import sys, cutlass_ext, cutlass_ext.jit; "
        "print(any(name in sys.modules for name in ('torch', 'numpy')))"
    )
    environment = {"PYTHONPATH": str(ROOT / "python"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_include_directories():
    folders = [Path(folder) for folder in cutlass_ext.get_include()]
    assert any((folder / "cutlass_ext" / "device" / "launch.h").is_file() for folder in folders)
    assert any((folder / "fmha" / "forward.h").is_file() for folder in folders)
    printed = run(sys.executable, "-m", "cutlass_ext", "--include-dirs")
    assert all(str(folder) in printed for folder in folders)


def test_doctor():
    text = run(sys.executable, "-m", "cutlass_ext", "doctor")
    for word in ("g++", "nvcc", "CUTLASS", "GPU", "driver", "cache", "families"):
        assert word in text
    for family in ("torch", "sdpa", "host", "simt", "sm80"):
        assert f"\n  {family}" in text
