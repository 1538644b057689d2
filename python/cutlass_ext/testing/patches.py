"""Applying diffs that have no context lines (`diff -U0`)."""

from __future__ import annotations

import re
from pathlib import Path

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class PatchError(ValueError):
    """A patch that does not fit the file."""


def touched(patch: str, strip: int = 1) -> list[str]:
    """Paths of the files that `patch` changes, without their first `strip` components."""
    paths = re.findall(r"^\+\+\+ (\S+)", patch, re.MULTILINE)
    return ["/".join(path.split("/")[strip:]) for path in paths]


def apply(patch: str, root: Path, strip: int = 1) -> dict[str, str]:
    """New text of each file under `root` that `patch` changes; nothing is written.

    Without context a hunk has its line number only: the lines that it removes have to stand there.
    """
    return {
        path: _apply_to_file(body, (root / path).read_text())
        for path, body in zip(touched(patch, strip), _files(patch), strict=True)
    }


def _files(patch: str) -> list[str]:
    return re.split(r"^--- .*\n\+\+\+ .*\n", patch, flags=re.MULTILINE)[1:]


def _apply_to_file(body: str, text: str) -> str:
    lines = text.splitlines(keepends=True)
    hunks = re.split(r"^(?=@@ )", body, flags=re.MULTILINE)[1:]
    for hunk in reversed(hunks):
        header, *changes = hunk.splitlines(keepends=True)
        match = _HUNK.match(header)
        if match is None:
            raise PatchError(f"not the header of a hunk: {header!r}")
        first, removed, _, added = (1 if group is None else int(group) for group in match.groups())
        old = [line[1:] for line in changes if line.startswith("-")]
        new = [line[1:] for line in changes if line.startswith("+")]
        if (len(old), len(new)) != (removed, added):
            raise PatchError(f"{header.strip()}: a hunk of other length, or with context lines")
        # A hunk that only adds names the line after which it does.
        start = first - 1 if removed else first
        if lines[start : start + removed] != old:
            raise PatchError(f"{header.strip()}: the file has other lines there")
        lines[start : start + removed] = new
    return "".join(lines)
