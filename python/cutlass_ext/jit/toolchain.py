"""Finding what a build needs: compilers, CUTLASS, the CUDA headers, ninja, pybind11.

Each `find_*` function returns what it found or raises ToolchainError, one sentence that says what
was looked for and what to install. Nothing that is found is cached across calls except what a
compiler said about itself: asking nvcc costs tens of milliseconds, more than a warm hit of the
cache may take.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from cutlass_ext.jit import cache

TESTED_CUTLASS = (4, 2, 0)


class ToolchainError(RuntimeError):
    """A tool is missing or unusable; the message is a sentence that names what to install."""


@dataclass(frozen=True)
class Compiler:
    """A compiler and what distinguishes it from others."""

    path: Path
    version: str
    """`12.2.0` for g++, `13.0` for nvcc."""
    identity: str
    """Part of a library's key: all that `--version` prints."""


@dataclass(frozen=True)
class Nvcc(Compiler):
    """nvcc and the toolkit that it belongs to."""

    toolkit: Path
    """Folder with `include`, `bin` and the runtime library."""


def find_gxx() -> Compiler:
    """g++ on PATH: compiles the Python binding, kernels for the CPU, and nvcc's host side."""
    path = shutil.which("g++")
    if path is None:
        raise ToolchainError(
            "No g++ was found on PATH: install it, for example with `apt-get install g++`."
        )
    identity = _ask(Path(path), _gxx_description)["identity"]
    version = re.search(r"\b(\d+\.\d+\.\d+)\b", identity.splitlines()[0])
    return Compiler(Path(path), version.group(1) if version else "unknown", identity)


def find_nvcc() -> Nvcc:
    """nvcc in `CUDA_HOME`, on PATH, or in the PyPI packages, in this order."""
    path = _nvcc_path()
    if path is None:
        raise ToolchainError(
            "No nvcc was found in CUDA_HOME, on PATH or among the Python packages: install the "
            "CUDA toolkit 13.0, or run `pip install 'cutlass-ext[cuda13]'`."
        )
    answer = _ask(path, _nvcc_description)
    version = re.search(r"release (\d+\.\d+)", answer["identity"])
    return Nvcc(
        path,
        version.group(1) if version else "unknown",
        answer["identity"],
        toolkit=Path(answer["toolkit"]),
    )


def find_cutlass() -> Path:
    """The folder that holds `cutlass/cutlass.h`: `CUTLASS_PATH`, or the package nvidia-cutlass."""
    named = os.environ.get("CUTLASS_PATH")
    if named:
        for folder in (Path(named), Path(named) / "include"):
            if (folder / "cutlass" / "cutlass.h").is_file():
                return folder.absolute()
        raise ToolchainError(
            f"CUTLASS_PATH is {named}, which holds no cutlass/cutlass.h: set it to the `include` "
            "folder of CUTLASS 4.2.0, or unset it to use the package nvidia-cutlass."
        )
    # The wheel of nvidia-cutlass keeps the headers inside its helper package.
    package = importlib.util.find_spec("cutlass_library")
    for location in (package and package.submodule_search_locations) or ():
        folder = Path(location) / "source" / "include"
        if (folder / "cutlass" / "cutlass.h").is_file():
            return folder
    raise ToolchainError(
        "CUTLASS's headers were not found: run "
        "`pip install --no-deps nvidia-cutlass==4.2.0.0`, or set CUTLASS_PATH to the folder that "
        "holds cutlass/cutlass.h of CUTLASS 4.2.0."
    )


def cutlass_version(include: Path) -> tuple[int, int, int]:
    """The version that `cutlass/version.h` under `include` states."""
    text = (include / "cutlass" / "version.h").read_text(errors="replace")
    numbers = [
        re.search(rf"#define\s+CUTLASS_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    if not all(numbers):
        raise ToolchainError(
            f"{include}/cutlass/version.h states no version: set CUTLASS_PATH to the `include` "
            "folder of CUTLASS 4.2.0."
        )
    return tuple(int(number.group(1)) for number in numbers)


def find_cuda_include() -> list[Path]:
    """Include directories with the CUDA runtime's and CCCL's headers, for a build without nvcc.

    From `CUDA_HOME`, from the toolkit of nvcc on PATH, or from the PyPI packages.
    """
    for toolkit in _toolkits():
        for include in (toolkit / "include", *sorted(toolkit.glob("targets/*/include"))):
            folders = [include, include / "cccl"]
            # Three packages share the folder; any one of them may be missing.
            if _holds(folders, "cuda_runtime.h", "crt/host_config.h", "cuda/std/cstddef"):
                return [folder for folder in folders if folder.is_dir()]
    raise ToolchainError(
        "The CUDA headers were not found in CUDA_HOME, beside nvcc on PATH or among the Python "
        "packages: run `pip install 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' "
        "'nvidia-cuda-cccl==13.0.*'`, or install the CUDA toolkit 13.0."
    )


def find_ninja() -> Path:
    """ninja on PATH, or the one that the package ninja brings."""
    beside_python = Path(sysconfig.get_path("scripts")) / "ninja"
    path = shutil.which("ninja") or shutil.which(str(beside_python))
    if path is None:
        raise ToolchainError("No ninja was found: run `pip install ninja`.")
    return Path(path)


def find_binding_include() -> list[Path]:
    """Include directories of Python's and of pybind11's headers."""
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").is_file():
        raise ToolchainError(
            f"Python.h is not in {python}: install Python's development files, for example with "
            f"`apt-get install python{sys.version_info.major}.{sys.version_info.minor}-dev`."
        )
    package = importlib.util.find_spec("pybind11")
    for location in (package and package.submodule_search_locations) or ():
        folder = Path(location) / "include"
        if (folder / "pybind11" / "pybind11.h").is_file():
            return [python, folder]
    # A distribution's own package (python3-pybind11) puts the headers among the system's.
    for folder in (python.parent, Path("/usr/include")):
        if (folder / "pybind11" / "pybind11.h").is_file():
            return [python, folder]
    raise ToolchainError("pybind11 was not found: run `pip install pybind11`.")


@functools.cache
def missing(device: str) -> str | None:
    """What to install before kernels for `"cuda"` or the `"host"` can be compiled: a sentence, or
    None where nothing is missing. Looked up once a process.
    """
    compiler = find_nvcc if device == "cuda" else find_cuda_include
    for find in (find_gxx, find_ninja, find_binding_include, find_cutlass, compiler):
        try:
            find()
        except ToolchainError as error:
            return str(error)
    return None


def _nvcc_path() -> Path | None:
    home = os.environ.get("CUDA_HOME")
    if home and (Path(home) / "bin" / "nvcc").is_file():
        return Path(home) / "bin" / "nvcc"
    on_path = shutil.which("nvcc")
    if on_path:
        return Path(on_path)
    for toolkit in _packaged_toolkits():
        if os.access(toolkit / "bin" / "nvcc", os.X_OK):
            return toolkit / "bin" / "nvcc"
    return None


def _toolkits() -> list[Path]:
    """Folders that may hold the CUDA headers, best first."""
    found = []
    if os.environ.get("CUDA_HOME"):
        found.append(Path(os.environ["CUDA_HOME"]))
    on_path = shutil.which("nvcc")
    if on_path:
        found.append(Path(_ask(Path(on_path), _nvcc_description)["toolkit"]))
    return found + _packaged_toolkits()


def _packaged_toolkits() -> list[Path]:
    """`nvidia/cu13` of the PyPI packages (nvidia-cuda-nvcc and others) on Python's path."""
    folders = [Path(entry or ".") / "nvidia" / "cu13" for entry in sys.path]
    return [folder.absolute() for folder in folders if folder.is_dir()]


def _holds(folders: list[Path], *headers: str) -> bool:
    return all(any((folder / header).is_file() for folder in folders) for header in headers)


def _ask(compiler: Path, describe) -> dict:
    """What `compiler` says about itself, remembered in the cache until its file changes."""
    name = hashlib.sha256(str(compiler).encode()).hexdigest()[:16]
    record = cache.root() / "compilers" / f"{name}.json"
    try:
        answer = json.loads(record.read_text())
        if all(_stamp(path) == stamp for path, stamp in answer["stamps"].items()):
            return answer
    except (OSError, ValueError, KeyError):
        pass
    answer, binaries = describe(compiler)
    answer["stamps"] = {str(path): _stamp(path) for path in (compiler, *binaries)}
    record.parent.mkdir(mode=0o700, exist_ok=True)
    cache.write_atomically(record, json.dumps(answer))
    return answer


def _stamp(path: str | Path) -> list | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [os.path.realpath(path), status.st_mtime_ns, status.st_size]


def _gxx_description(compiler: Path) -> tuple[dict, list[Path]]:
    return {"identity": _output([compiler, "--version"])}, []


def _nvcc_description(compiler: Path) -> tuple[dict, list[Path]]:
    # nvcc on PATH may be a script that starts the real one: it alone knows its toolkit.
    plan = _output([compiler, "--dryrun", "-E", "-x", "cu", os.devnull])
    top = re.search(r"^#\$ TOP=(.*)$", plan, re.MULTILINE)
    toolkit = Path(top.group(1)).resolve() if top else compiler.resolve().parent.parent
    identity = _output([compiler, "--version"])
    return {"identity": identity, "toolkit": str(toolkit)}, [toolkit / "bin" / "nvcc"]


def _output(command: list) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
    except OSError as error:
        raise ToolchainError(
            f"{command[0]} can't be started ({error.strerror}): repair or reinstall it."
        ) from None
    except subprocess.CalledProcessError as error:
        raise ToolchainError(
            f"{command[0]} does not work, it said: {error.stdout.strip()[:300]}"
        ) from None
    return done.stdout
