"""Building for the host: versions, contexts, overlays, the command line."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from host_kernels import FOLDER

from cutlass_ext import host
from cutlass_ext.host.overlay import source_overlay
from cutlass_ext.jit import cache, toolchain


def _build(**changes) -> host.HostBuild:
    arguments = {
        "cutlass": toolchain.find_cutlass(),
        "cuda_include": toolchain.find_cuda_include(),
        "cache": cache.root(),
    }
    return host.build_flags(**(arguments | changes))


def test_another_cutlass_stops_the_build(tmp_path):
    header = tmp_path / "cutlass" / "version.h"
    header.parent.mkdir()
    header.write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 3\n#define CUTLASS_PATCH 1\n")
    with pytest.raises(host.HostBuildError) as error:
        _build(cutlass=tmp_path)
    assert str(error.value) == (
        f"Host execution needs CUTLASS 4.2.0, but {tmp_path} holds 4.3.1: install "
        "nvidia-cutlass==4.2.0.0, or set CUTLASS_PATH to a CUTLASS 4.2.0 source tree."
    )


def test_a_missing_cutlass_stops_the_build(tmp_path):
    with pytest.raises(host.HostBuildError, match="No CUTLASS headers in .*: install"):
        _build(cutlass=tmp_path)


def test_an_unknown_mode_is_refused():
    with pytest.raises(host.HostBuildError, match="is 'fast'; it is one of plain, asan, instr"):
        _build(mode="fast")


def test_a_warm_call_is_quick():
    _build()
    started = time.perf_counter()
    _build()
    assert time.perf_counter() - started < 0.05


def test_source_overlay_follows_edits(tmp_path):
    root = tmp_path / "include"
    (root / "sub").mkdir(parents=True)
    plain, translated = root / "plain.h", root / "sub" / "device.h"
    plain.write_text("int plain;\n")
    translated.write_text('asm("a;");\n')
    overlay = source_overlay(root, tmp_path)
    assert (overlay / "plain.h").is_symlink()
    text = (overlay / "sub" / "device.h").read_text()
    assert text.startswith(f'#line 1 "{translated}"\n') and '"a;"' in text
    translated.write_text('asm("longer;");\n')
    plain.unlink()
    assert source_overlay(root, tmp_path) == overlay
    assert '"longer;"' in (overlay / "sub" / "device.h").read_text()
    assert not (overlay / "plain.h").exists()
    translated.write_text("int no_longer;\n")
    source_overlay(root, tmp_path)
    assert (overlay / "sub" / "device.h").is_symlink()


def _command(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    python_path = os.pathsep.join(map(str, [FOLDER.parents[2] / "python", *sys.path]))
    return subprocess.run(
        [sys.executable, "-m", "cutlass_ext.host", *arguments],
        env=os.environ | {"PYTHONPATH": python_path} | environment,
        capture_output=True,
        text=True,
    )


class _Word(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64)]


def _call(library: Path, function: str, argument: int) -> str | None:
    entry = ctypes.CDLL(str(library))[function]
    entry.restype = ctypes.c_char_p
    message = entry((_Word * 1)(_Word(i=argument)), 1, None)
    return message.decode() if message else None


@pytest.mark.parametrize("context", ["fcontext", "ucontext"])
def test_command_line_and_both_kinds_of_fiber(tmp_path, context):
    library = tmp_path / "faults.so"
    result = _command(
        "compile", str(FOLDER / "faults.cu"), "-o", str(library), CUTLASS_EXT_HOST_CONTEXT=context
    )
    if context == "fcontext" and "does not compile" in result.stderr:
        pytest.skip("Boost.Context is not installed")
    assert result.returncode == 0, result.stderr
    linked = subprocess.run(["ldd", str(library)], capture_output=True, text=True).stdout
    assert f"-{context}/libcutlass_ext_host_plain.so" in linked
    for function in ("shift", "barrier", "collective", "copy"):
        assert _call(library, function, 0) is None
    assert "deadlock" in _call(library, "barrier", 1)
    assert _call(library, "shift", 0) is None


def test_command_line_reports_a_sentence(tmp_path):
    result = _command(
        "compile", str(FOLDER / "faults.cu"), "-o", "x.so", "--cutlass", str(tmp_path)
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: No CUTLASS headers in ")
