"""A stranger's CMake project: against the package that pip installs and the one that CMake does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutlass_ext import jit
from cutlass_ext.jit import toolchain

ROOT = Path(__file__).parents[2]
PROJECT = Path(__file__).parent / "downstream"


@pytest.fixture(autouse=True)
def in_one_mode(mode: str) -> None:
    """The project chooses its own mode; the compilers need no sanitizer."""
    if mode != "plain":
        pytest.skip("the same in every mode")


def find_cmake() -> str:
    """On PATH, or beside the interpreter (PyPI's package)."""
    found = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("no cmake: pip install cmake")
    return found


def run(*command: str | Path) -> str:
    """The command's output; its message where it fails."""
    environment = {**os.environ, "CUTLASS_PATH": str(toolchain.find_cutlass())}
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["pip", "cmake --install"])
def package(request, tmp_path_factory) -> Path:
    """The folder for cutlass_ext_DIR."""
    if request.param == "pip":
        return Path(run(sys.executable, "-m", "cutlass_ext", "--cmake-dir").strip())
    folder = tmp_path_factory.mktemp("install")
    cmake = find_cmake()
    run(cmake, "-S", ROOT, "-B", folder / "build", f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}")
    run(cmake, "--install", folder / "build")
    return folder / "prefix" / "share" / "cmake" / "cutlass_ext"


def test_runs_on_the_cpu(package, tmp_path):
    cmake = find_cmake()
    options = [f"-Dcutlass_ext_DIR={package}", f"-DPython3_EXECUTABLE={sys.executable}"]
    run(cmake, "-S", PROJECT, "-B", tmp_path, *options, "-DSCALED_GEMM_GPU=OFF")
    run(cmake, "--build", tmp_path)
    assert run(tmp_path / "check") == "equal\n"


def test_compiles_for_a_gpu(package, tmp_path):
    cmake = find_cmake()
    try:
        nvcc = toolchain.find_nvcc()
    except jit.ToolchainError as error:
        pytest.skip(f"no nvcc: {error}")
    options = [
        f"-Dcutlass_ext_DIR={package}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CUDA_COMPILER={nvcc.path}",
        # PyPI's packages keep the runtime in `lib`, where nvcc itself doesn't look.
        f"-DCMAKE_CUDA_FLAGS=-L{nvcc.toolkit / 'lib'}",
    ]
    run(cmake, "-S", PROJECT, "-B", tmp_path, *options)
    run(cmake, "--build", tmp_path, "--target", "scaled_gemm_gpu")
    assert (tmp_path / "libscaled_gemm_gpu.so").exists()
