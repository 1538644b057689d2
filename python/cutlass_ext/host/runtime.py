"""Building the runtime library: one for each mode, in the cache."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cutlass_ext.jit.toolchain import find_gxx

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
    """File name of the runtime of a mode."""
    return f"libcutlass_ext_host_{mode}.so"


# Boost.Context's switch costs nanoseconds; ucontext serves where Boost is not installed.
_CONTEXTS = {"fcontext": ("-lboost_context",), "ucontext": ()}


def _contexts() -> tuple[str, ...]:
    """Ways to switch fibers, best first; `CUTLASS_EXT_HOST_CONTEXT` names the only one to try."""
    named = os.environ.get("CUTLASS_EXT_HOST_CONTEXT")
    if named is None:
        return tuple(_CONTEXTS)
    if named not in _CONTEXTS:
        raise HostBuildError(
            f"CUTLASS_EXT_HOST_CONTEXT is {named!r}; it is one of {', '.join(_CONTEXTS)}."
        )
    return (named,)


def _sources(host: Path, context: str) -> list[Path]:
    sources = [*(host / "runtime").glob("*.cpp"), *(host / "ptx").glob("*.cpp")]
    chosen = f"context_{context}.cpp"
    return sorted(s for s in sources if not s.name.startswith("context_") or s.name == chosen)


def wrapped_functions(host: Path, mode: str) -> list[str]:
    """Functions that the runtime stands in for: CUDA's, and those that escape instrumentation."""
    text = (host / "runtime" / "runtime_api.cpp").read_text()
    functions = sorted(set(re.findall(r"CUTLASS_EXT_WRAP\((cuda\w+)\)", text)))
    return functions + (["memcpy", "memmove", "memset"] if mode == "instrumented" else [])


def build_runtime(include: Path, cuda_include: list[Path], directory: Path, mode: str) -> Path:
    """The runtime library of `mode`, built where it is missing. The caller holds the lock."""
    host = include / "cutlass_ext" / "host"
    gxx = find_gxx()
    flags = [*_COMMON_FLAGS, *_RUNTIME_FLAGS[mode], *SANITIZER_FLAGS[mode], f"-I{include}"]
    flags += [f"-I{path}" for path in cuda_include]
    digest = hashlib.sha256(f"{gxx.identity} {flags}".encode())
    for path in sorted(host.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    key = digest.hexdigest()[:16]
    libraries = {c: directory / f"{key}-{c}" / library_name(mode) for c in _contexts()}
    for library in libraries.values():
        if library.is_file():
            return library
    failures = []
    for context, library in libraries.items():
        try:
            _compile_runtime(str(gxx.path), flags, host, context, mode, library)
            return library
        except subprocess.CalledProcessError as error:
            failures.append(error.stderr)
    raise HostBuildError(f"The host runtime does not compile:\n{failures[-1]}")


def _compile_runtime(
    gxx: str, flags: list[str], host: Path, context: str, mode: str, library: Path
) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as temporary:

        def compile_one(source: Path) -> str:
            target = f"{temporary}/{source.stem}.o"
            _run([gxx, *flags, "-c", str(source), "-o", target])
            return target

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
            sources = _sources(host, context)
            # The one that decides whether this context serves comes first.
            sources.sort(key=lambda source: not source.name.startswith("context_"))
            objects = [compile_one(sources[0]), *pool.map(compile_one, sources[1:])]
        built = f"{temporary}/{library.name}"
        link = ["-shared", *SANITIZER_FLAGS[mode], *objects, *_CONTEXTS[context], "-ldl"]
        _run([gxx, *link, "-o", built])
        os.replace(built, library)


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)


def sanitizer_environment() -> dict[str, str]:
    """Environment of a process that loads kernels of mode "asan".

    AddressSanitizer must be the first library of a process, so a program that was not linked with
    it, such as Python, has to be started with these variables.
    """
    gxx = str(find_gxx().path)
    # With the C++ library, too: AddressSanitizer looks for its __cxa_throw when the process starts.
    libraries = [
        subprocess.run(
            [gxx, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    return {
        "LD_PRELOAD": " ".join(libraries),
        # Python keeps memory until it exits; a report ends the launch, not the process; the same
        # place may be wrong again.
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:suppress_equal_pcs=0",
    }
