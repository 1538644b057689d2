"""What a kernel library is built from: a `KernelSpec`, and the commands that follow from it."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from cutlass_ext import _locations
from cutlass_ext.jit import cache, toolchain

_MODES = ("plain", "asan", "instrumented")


@dataclass(frozen=True)
class KernelSpec:
    """One kernel library: a rendered translation unit and the target that it is compiled for."""

    name: str
    """Names the library's file; letters, digits and underscores."""
    source: str
    """The translation unit: includes, an alias, exported functions (`CUTLASS_EXT_EXPORT`)."""
    target: str
    """`"host"` for the CPU, or a GPU architecture as nvcc names it: `"sm_80"`, `"sm_90a"`."""
    arch: int = 80
    """The architecture that a build for the host pretends to be: 70, 75, 80, 90."""
    mode: str = "plain"
    """Of a build for the host: `"plain"`, `"asan"` or `"instrumented"` (see `cutlass_ext.host`)."""
    include_dirs: tuple[str, ...] = ()
    """Include directories beside those of this package, CUTLASS and CUDA."""
    flags: tuple[str, ...] = ()
    """More flags for nvcc, after ours; for a GPU only."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w+", self.name, re.ASCII):
            raise ValueError(
                f"KernelSpec.name is {self.name!r}: letters, digits and underscores only."
            )
        if self.target != "host" and not re.fullmatch(r"sm_\d+[af]?", self.target):
            raise ValueError(
                f"KernelSpec.target is {self.target!r}: give 'host' or an architecture such as "
                "'sm_80' or 'sm_90a'."
            )
        if self.flags and self.target == "host":
            raise ValueError(f"KernelSpec.flags are for nvcc, and {self.name} is for the host.")
        if self.mode not in _MODES:
            raise ValueError(f"KernelSpec.mode is {self.mode!r}: give one of {', '.join(_MODES)}.")


@dataclass(frozen=True)
class Unit:
    """A translation unit with the commands that make a shared library of it."""

    name: str
    source: str
    suffix: str
    compile: tuple[str, ...]
    """Compiler and flags; `-MD -MF <file> -c <source> -o <object>` follow."""
    link: tuple[str, ...]
    """Compiler and flags; `-o <library> <object>` follow, then `link_after`."""
    link_after: tuple[str, ...]
    """Libraries, which a linker wants after the objects that need them."""
    compilers: tuple[toolchain.Compiler, ...]
    label: str
    """For messages: `sm_80 with nvcc 13.0`."""

    def entry(self) -> cache.Entry:
        """Where the library lies in the cache."""
        key = hashlib.sha256(
            json.dumps(
                [
                    self.source,
                    self.suffix,
                    self.compile,
                    self.link,
                    self.link_after,
                    [compiler.identity for compiler in self.compilers],
                ]
            ).encode()
        ).hexdigest()[:16]
        return cache.Entry(cache.root() / "kernels" / f"{self.name}-{key}", self.name)


def unit(spec: KernelSpec) -> Unit:
    """The commands for `spec`; raises ToolchainError where a tool is missing."""
    return _host_unit(spec) if spec.target == "host" else _cuda_unit(spec)


def binding_unit() -> Unit:
    """The pybind11 module `_C`."""
    gxx = toolchain.find_gxx()
    include = [*_locations.include_dirs(), *toolchain.find_binding_include()]
    return Unit(
        name="_C",
        source=f'#include "{_locations.binding_source()}"\n',
        suffix=".cpp",
        compile=(
            str(gxx.path),
            *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"),
            *(f"-I{folder}" for folder in include),
        ),
        link=(str(gxx.path), "-shared"),
        link_after=("-ldl",),
        compilers=(gxx,),
        label=f"g++ {gxx.version}",
    )


def _cuda_unit(spec: KernelSpec) -> Unit:
    nvcc, gxx = toolchain.find_nvcc(), toolchain.find_gxx()
    cutlass = toolchain.find_cutlass()
    _warn_if_untested(cutlass)
    include = [*_locations.include_dirs(), *spec.include_dirs, cutlass]
    number = spec.target.removeprefix("sm_")
    return Unit(
        name=spec.name,
        source=spec.source,
        suffix=".cu",
        compile=(
            str(nvcc.path),
            *("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr"),
            f"-gencode=arch=compute_{number},code=sm_{number}",
            "-Xcompiler=-fPIC,-fvisibility=hidden",
            "-Xptxas=-v",
            *spec.flags,
            *(f"-I{folder}" for folder in include),
        ),
        link=(str(nvcc.path), "-shared"),
        # The static runtime's symbols stay inside: libraries of several toolkits can share a
        # process. The PyPI packages keep it in `lib`, where nvcc itself doesn't look.
        link_after=(
            "-cudart=static",
            f"-L{nvcc.toolkit / 'lib'}",
            "-Xlinker=--exclude-libs=ALL",
        ),
        compilers=(nvcc, gxx),
        label=f"{spec.target} with nvcc {nvcc.version}",
    )


def _host_unit(spec: KernelSpec) -> Unit:
    # Imported here: cutlass_ext.host asks this package for its tools.
    from cutlass_ext import host

    gxx = toolchain.find_gxx()
    build = host.build_flags(
        toolchain.find_cutlass(),
        toolchain.find_cuda_include(),
        cache.root(),
        spec.mode,
        spec.arch,
    )
    return Unit(
        name=spec.name,
        source=host.translate(spec.source),
        suffix=".cpp",
        compile=(
            str(gxx.path),
            *build.compile_flags,
            *("-fPIC", "-fvisibility=hidden"),
            *(f"-I{folder}" for folder in spec.include_dirs),
        ),
        link=(str(gxx.path), "-shared"),
        link_after=tuple(build.link_flags),
        compilers=(gxx,),
        label=f"the host ({spec.mode}, as sm_{spec.arch}) with g++ {gxx.version}",
    )


def _warn_if_untested(cutlass: Path) -> None:
    version = toolchain.cutlass_version(cutlass)
    if version != toolchain.TESTED_CUTLASS:
        tested, found = (".".join(map(str, v)) for v in (toolchain.TESTED_CUTLASS, version))
        warnings.warn(
            f"CUTLASS {found} in {cutlass} is not the version that these kernels were tested "
            f"with, {tested}.",
            stacklevel=2,
        )
