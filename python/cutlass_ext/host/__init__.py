"""Execution of CUDA device code on the CPU, one fiber a CUDA thread.

`translate` and `build_flags` turn a CUDA source into a library that runs here; `options` chooses
schedule and checks, and reads the access log. See docs/host_execution.md.
"""

from .build import HostBuild, build_flags, include_roots
from .errors import HostBuildError
from .translate import TranslationError, translate

__all__ = [
    "HostBuild",
    "HostBuildError",
    "TranslationError",
    "build_flags",
    "include_roots",
    "translate",
]
