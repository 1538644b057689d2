"""Kernels on demand: a `KernelSpec` becomes a shared library in the cache, built once.

    spec = KernelSpec(name="scale_f32", source=text, target="sm_90")
    load(spec).call("scale", [x.data_ptr(), x.numel(), 2.0], stream)

A library is keyed by its source, its compilers and the content of the files that they read. The
cache is `CUTLASS_EXT_CACHE`, else `~/.cache/cutlass_ext`.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from cutlass_ext.jit import gpu, resources
from cutlass_ext.jit.build import BuildError, CaptureError, build_log, ensure
from cutlass_ext.jit.cache import CacheError
from cutlass_ext.jit.resources import KernelResources
from cutlass_ext.jit.spec import KernelSpec, binding_unit, unit
from cutlass_ext.jit.toolchain import ToolchainError

__all__ = [
    "BuildError",
    "CacheError",
    "CaptureError",
    "KernelResources",
    "KernelSpec",
    "ToolchainError",
    "build",
    "load",
    "module",
    "resource_usage",
    "targets",
]


def build(specs: Iterable[KernelSpec], jobs: int | None = None) -> list[Path]:
    """Paths of the specs' libraries, in their order; builds what the cache lacks.

    `jobs` compilers run at once, as many as there are cores if None. Raises BuildError where a
    compiler refuses a source, ToolchainError where a tool is missing, CaptureError inside
    CUDA-graph capture.
    """
    return ensure([unit(spec) for spec in specs], jobs)


@functools.cache
def load(spec: KernelSpec):
    """The spec's library (`_C.Library`), built if the cache lacks it.

    A library stays loaded for the life of the process, and this process keeps to it: headers that
    change later count in the next one. Errors as of `build`.
    """
    return module().Library(str(build([spec])[0]))


@functools.cache
def module() -> ModuleType:
    """The pybind11 module `_C`, which loads kernel libraries and calls their functions."""
    path = ensure([binding_unit()])[0]
    loader = importlib.machinery.ExtensionFileLoader("cutlass_ext._C", str(path))
    spec = importlib.util.spec_from_file_location("cutlass_ext._C", str(path), loader=loader)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return loaded


def resource_usage(spec: KernelSpec) -> list[KernelResources]:
    """Registers, spills and shared memory of the spec's kernels; builds it if needed."""
    if spec.target == "host":
        raise ValueError(f"{spec.name} is built for the host: only GPU targets have registers.")
    return resources.parse(build_log(build([spec])[0]))


def targets() -> list[str]:
    """Architectures to build for, such as `["sm_90"]`: those asked for, else the GPUs' own.

    Asked for in `CUTLASS_EXT_ARCHS`: `"80;90a"`, `"sm_80,sm_90a"`. Empty without either.
    """
    return gpu.targets()
