"""Execution of CUDA device code on the CPU, one fiber a CUDA thread.

`translate` and `build_flags` turn a CUDA source into a library that runs here; `options` chooses
schedule and checks, and reads the access log. See docs/host_execution.md.
"""

from .build import HostBuild, build_flags
from .errors import HostBuildError
from .options import LOG_DTYPE, Observation, options
from .runtime import sanitizer_environment
from .translate import TranslationError, translate

__all__ = [
    "LOG_DTYPE",
    "HostBuild",
    "HostBuildError",
    "Observation",
    "TranslationError",
    "build_flags",
    "options",
    "sanitizer_environment",
    "translate",
]
