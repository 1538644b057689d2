"""docs/upstream: the faults are in stock CUTLASS, and the patches mend them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutlass_ext.jit import toolchain

ROOT = Path(__file__).parents[3]
PATCHES = sorted((ROOT / "docs" / "upstream").glob("*.patch"))
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def apply(patch: Path, include: Path) -> None:
    """Applies a diff without context lines to a folder that holds `cutlass`."""
    lines = patch.read_text().splitlines()
    target = include / lines[0].removeprefix("--- a/")
    text = target.read_text().splitlines()
    shift, i = 0, 2
    while i < len(lines):
        first, count = HUNK.fullmatch(lines[i]).groups()
        removed = []
        added = []
        for i in range(i + 1, len(lines) + 1):  # noqa: B020
            if i == len(lines) or lines[i].startswith("@@"):
                break
            (removed if lines[i][0] == "-" else added).append(lines[i][1:])
        assert len(removed) == int(count or 1)
        # Without a removed line the number is that of the line before.
        at = int(first) - bool(removed) + shift
        assert text[at : at + len(removed)] == removed, f"{patch.name}: line {first} differs"
        text[at : at + len(removed)] = added
        shift += len(added) - len(removed)
    target.write_text("\n".join(text) + "\n")


def faults(cutlass: Path) -> dict[str, int]:
    """What show_faults.py sees of a CUTLASS."""
    environment = {**os.environ, "CUTLASS_PATH": str(cutlass)}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [sys.executable, str(Path(__file__).parent / "show_faults.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def on_the_host(device: str, mode: str) -> None:
    if device != "host" or mode != "plain":
        pytest.skip("runs in a mode of its own, on the CPU")


def test_stock_cutlass_has_the_faults():
    found = faults(toolchain.find_cutlass())
    # A step of one tile of 64 rows moves the pointer by 64 bytes, not by 64 rows of 128 bytes.
    assert found["bytes"] == 64 - 64 * 128
    assert found["reads"] > 0
    assert found["wrong"] > 0


def test_patches_mend_them(tmp_path):
    include = tmp_path / "include"
    shutil.copytree(toolchain.find_cutlass(), include)
    for patch in PATCHES:
        apply(patch, include)
    assert faults(include) == {"bytes": 0, "reads": 0, "wrong": 0}


def test_every_patch_is_described():
    text = (ROOT / "docs" / "upstream" / "README.md").read_text()
    assert PATCHES
    for patch in PATCHES:
        assert f"]({patch.name})" in text
