"""Where the package's own files lie: in a source tree, or installed from a wheel.

A wheel carries both header trees in one folder beside the Python modules; a source tree (and an
editable install, which points at it) keeps each part in its own top-level folder.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SOURCE_TREE = _PACKAGE.parent.parent


def _installed() -> bool:
    return (_PACKAGE / "include").is_dir()


def include_dirs() -> list[Path]:
    """Roots of the C++ headers: `cutlass_ext/...` and `fmha/...`."""
    if _installed():
        return [_PACKAGE / "include"]
    return [_SOURCE_TREE / "cutlass_ext" / "include", _SOURCE_TREE / "fmha" / "include"]


def binding_source() -> Path:
    """The pybind11 module's translation unit."""
    root = _PACKAGE if _installed() else _SOURCE_TREE / "python"
    return root / "csrc" / "module.cpp"


def cmake_dir() -> Path:
    """Folder of `cutlass_extConfig.cmake`, for CMake's `cutlass_ext_DIR` or `CMAKE_PREFIX_PATH`."""
    root = _PACKAGE if _installed() else _SOURCE_TREE / "cutlass_ext"
    return root / "cmake"
