"""Translated copies of include trees.

An overlay mirrors a tree of headers: a file that the translation changes is written out, anything
else is a symbolic link, so that relative includes stay inside the overlay. Translated files begin
with a ``#line`` directive: messages name the original.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from . import translate as translate_module
from .errors import HostBuildError
from .translate import translate

CUTLASS_VERSION = (4, 2, 0)
_MANIFEST = ".overlay.json"

# Where CUTLASS asks for nvcc itself, beyond what the prelude's macros answer.
_CUTLASS_SUBSTITUTIONS = {
    # LaneId() and SmId()
    "cutlass/arch/arch.h": (
        "#if defined(__NVCC__) || defined(__CUDACC_RTC__) ||",
        "#if defined(CUTLASS_EXT_HOST_EXECUTION) || defined(__CUDACC_RTC__) ||",
    ),
    # Its operators are nvcc's own (nvcuda::wmma).
    "cutlass/arch/wmma.h": (
        "#if (__CUDACC_VER_MAJOR__ >=",
        "#if !defined(CUTLASS_EXT_HOST_EXECUTION) && (__CUDACC_VER_MAJOR__ >=",
    ),
}


def cutlass_version(include: Path) -> tuple[int, int, int]:
    """Version of the CUTLASS whose headers lie in `include`."""
    header = include / "cutlass" / "version.h"
    if not header.is_file():
        raise HostBuildError(
            f"No CUTLASS headers in {include}: install nvidia-cutlass==4.2.0.0, or set "
            "CUTLASS_PATH to a CUTLASS 4.2.0 source tree."
        )
    found = dict(re.findall(r"#define CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", header.read_text()))
    return int(found["MAJOR"]), int(found["MINOR"]), int(found["PATCH"])


def check_cutlass_version(include: Path) -> None:
    """Translation takes CUTLASS's own sources: only the version that it was checked on."""
    version = cutlass_version(include)
    if version != CUTLASS_VERSION:
        found, wanted = (".".join(map(str, v)) for v in (version, CUTLASS_VERSION))
        raise HostBuildError(
            f"Host execution needs CUTLASS {wanted}, but {include} holds {found}: install "
            f"nvidia-cutlass=={wanted}.0, or set CUTLASS_PATH to a CUTLASS {wanted} source tree."
        )


def _key(*parts: object) -> str:
    digest = hashlib.sha256(Path(translate_module.__file__).read_bytes())
    digest.update(Path(__file__).read_bytes())
    for part in parts:
        digest.update(f"{part}\0".encode())
    return digest.hexdigest()[:16]


def _line_directive(source: Path) -> str:
    return f'#line 1 "{source}"\n'


def _translated(root: Path, relative: str, substitutions: dict[str, tuple[str, str]]) -> str | None:
    """Translation of a file; null where it changes nothing."""
    text = (root / relative).read_text(errors="surrogateescape")
    changed = text
    if relative in substitutions:
        old, new = substitutions[relative]
        if old not in text:
            raise HostBuildError(f"{root / relative} does not contain {old!r}.")
        changed = changed.replace(old, new)
    changed = translate(changed)
    return None if changed == text else _line_directive(root / relative) + changed


def _write(path: Path, text: str) -> None:
    """Writes a file at once, so that a compiler never reads half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, errors="surrogateescape")
    os.replace(temporary, path)


def _link(path: Path, target: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.symlink_to(target)
    os.replace(temporary, path)


def cutlass_overlay(include: Path, directory: Path) -> Path:
    """Overlay of an installed CUTLASS; made once. The caller holds the cache's lock."""
    check_cutlass_version(include)
    stat = (include / "cutlass" / "version.h").stat()
    destination = directory / f"cutlass-{_key(include, stat.st_mtime_ns)}"
    if destination.is_dir():
        return destination
    directory.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".cutlass-", dir=directory))
    try:
        _mirror(include, temporary)
        os.replace(temporary, destination)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return destination


def _mirror(root: Path, destination: Path) -> None:
    files = [path for path in root.rglob("*") if path.is_file()]
    changed = {}
    for path in files:
        relative = path.relative_to(root).as_posix()
        text = _translated(root, relative, _CUTLASS_SUBSTITUTIONS)
        if text is not None:
            changed[path] = text
    # Directories that hold a changed file somewhere below are made, the others are links.
    made = {parent for path in changed for parent in path.relative_to(root).parents}
    made.add(Path("."))
    for directory in sorted(made):
        (destination / directory).mkdir(exist_ok=True)
        for path in (root / directory).iterdir():
            relative = path.relative_to(root)
            if path in changed:
                (destination / relative).write_text(changed[path], errors="surrogateescape")
            elif relative not in made:
                (destination / relative).symlink_to(path)


def source_overlay(root: Path, directory: Path) -> Path:
    """Overlay of a tree that is being worked on; brought up to date by the files' times.

    The caller holds the cache's lock. The place depends on the tree's path only, so that compile
    commands, and with them caches of what was compiled, outlive an edit.
    """
    destination = directory / f"source-{_key(root)}"
    destination.mkdir(parents=True, exist_ok=True)
    manifest_path = destination / _MANIFEST
    manifest = json.loads(manifest_path.read_text()) if manifest_path.is_file() else {}
    current = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            stat = path.stat()
            current[path.relative_to(root).as_posix()] = [stat.st_mtime_ns, stat.st_size]
    if current == manifest:
        return destination
    for relative in manifest.keys() - current.keys():
        (destination / relative).unlink(missing_ok=True)
    for relative, stamp in current.items():
        if manifest.get(relative) == stamp:
            continue
        target = destination / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _translated(root, relative, {})
        if text is None:
            _link(target, root / relative)
        else:
            _write(target, text)
    _write(manifest_path, json.dumps(current))
    return destination
