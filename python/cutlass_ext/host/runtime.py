"""Building the runtime library: one for each mode, in the cache."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .errors import HostBuildError

MODES = ("plain", "asan", "instrumented")

# What a kernel is compiled with, and the runtime likewise.
SANITIZER_FLAGS = {
    "plain": (),
    # A report does not end the process: the launch ends with an error.
    "asan": ("-fsanitize=address", "-fsanitize-recover=address", "-g1", "-fno-omit-frame-pointer"),
    "instrumented": (),
}
_RUNTIME_FLAGS = {
    "plain": ("-O2",),
    "asan": ("-O1",),
    "instrumented": ("-O2", "-DCUTLASS_EXT_HOST_INSTRUMENTED"),
}
_COMMON_FLAGS = ("-std=c++17", "-fPIC", "-ffp-contract=off", "-DCUTLASS_EXT_HOST_RUNTIME")


def library_name(mode: str) -> str:
    return f"libcutlass_ext_host_{mode}.so"


@functools.lru_cache
def compiler() -> str:
    """The host compiler: `CXX`, or g++."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        raise HostBuildError(
            "No host compiler: install g++ (12 is what was tested), or set CXX to one."
        )
    return found


@functools.lru_cache
def compiler_version() -> str:
    return subprocess.run(
        [compiler(), "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True, check=True
    ).stdout.replace("\n", " ")


@functools.lru_cache
def context_source() -> str:
    """How fibers switch: Boost.Context where it is installed, else ucontext.

    `CUTLASS_EXT_HOST_CONTEXT=ucontext` asks for the latter.
    """
    if os.environ.get("CUTLASS_EXT_HOST_CONTEXT") == "ucontext":
        return "context_ucontext.cpp"
    program = "#include <boost/context/detail/fcontext.hpp>\nint main() {}\n"
    with tempfile.TemporaryDirectory() as directory:
        command = [compiler(), "-std=c++17", "-x", "c++", "-", "-o", f"{directory}/probe"]
        command += ["-lboost_context"]
        found = subprocess.run(command, input=program, text=True, capture_output=True)
    return "context_fcontext.cpp" if found.returncode == 0 else "context_ucontext.cpp"


def _sources(host: Path) -> list[Path]:
    chosen = context_source()
    sources = [*(host / "runtime").glob("*.cpp"), *(host / "ptx").glob("*.cpp")]
    return sorted(s for s in sources if not s.name.startswith("context_") or s.name == chosen)


def wrapped_functions(host: Path) -> list[str]:
    """Functions of CUDA's runtime API that the runtime stands in for."""
    text = (host / "runtime" / "runtime_api.cpp").read_text()
    return sorted(set(re.findall(r"CUTLASS_EXT_WRAP\((cuda\w+)\)", text)))


def build_runtime(include: Path, cuda_include: list[Path], directory: Path, mode: str) -> Path:
    """The runtime library of `mode`, built where it is missing. The caller holds the lock."""
    host = include / "cutlass_ext" / "host"
    flags = [*_COMMON_FLAGS, *_RUNTIME_FLAGS[mode], *SANITIZER_FLAGS[mode], f"-I{include}"]
    flags += [f"-I{path}" for path in cuda_include]
    digest = hashlib.sha256(f"{compiler_version()} {context_source()} {flags}".encode())
    for path in sorted(host.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    library = directory / digest.hexdigest()[:16] / library_name(mode)
    if library.is_file():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as temporary:

        def compile_one(source: Path) -> str:
            target = f"{temporary}/{source.stem}.o"
            _run([compiler(), *flags, "-c", str(source), "-o", target])
            return target

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
            objects = list(pool.map(compile_one, _sources(host)))
        link = ["-shared", *SANITIZER_FLAGS[mode], *objects, "-ldl"]
        if context_source() == "context_fcontext.cpp":
            link.append("-lboost_context")
        built = f"{temporary}/{library.name}"
        _run([compiler(), *link, "-o", built])
        os.replace(built, library)
    return library


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise HostBuildError(f"The host runtime does not compile:\n{result.stderr}")
