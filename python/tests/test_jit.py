"""Kernels on demand: built once, rebuilt when what they read changes, never half there."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutlass_ext import jit
from cutlass_ext.jit import cache, toolchain
from cutlass_ext.jit.spec import unit

ROOT = Path(__file__).parents[2]
SOURCE = """#include <stdexcept>
#include "cutlass_ext/device/export.h"
#include "number.h"
CUTLASS_EXT_EXPORT char const *answer(cutlass_ext::Word const *words, int count, void *) {
  return cutlass_ext::guarded([&] {
    if (count != 2) throw std::invalid_argument("two arguments, please");
    *static_cast<double *>(words[0].p) = words[1].d * NUMBER;
  });
}
"""


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory) -> Path:
    """A cache of this module's own. It is shared because the host's runtime takes its time; a
    test's specs read headers in a folder of the test's own, and so are new to it.
    """
    return tmp_path_factory.mktemp("cutlass_ext") / "cache"


@pytest.fixture
def own_cache(module_cache, monkeypatch) -> Path:
    monkeypatch.setenv("CUTLASS_EXT_CACHE", str(module_cache))
    return module_cache


@pytest.fixture
def spec(tmp_path) -> jit.KernelSpec:
    (tmp_path / "number.h").write_text("#define NUMBER 2\n")
    return jit.KernelSpec("answer", SOURCE, "host", include_dirs=(str(tmp_path),))


def run_python(program: str, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def entry_of(own_cache: Path, spec: jit.KernelSpec) -> Path:
    """The spec's folder in the cache, made or not."""
    return unit(spec).entry().folder


def answer(library) -> float:
    import numpy as np

    result = np.zeros(1)
    library.call("answer", [result.ctypes.data, 21.0])
    return float(result[0])


def test_build_call_and_rebuild(own_cache, spec, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys.modules["cutlass_ext.jit.build"], "_SILENT_SECONDS", 0.0)
    (first,) = jit.build([spec])
    assert "cutlass_ext: building answer for the host" in capfd.readouterr().err
    assert jit.build([spec]) == [first]
    assert capfd.readouterr().err == ""

    library = jit.module().Library(str(first))
    assert library.has("answer") and not library.has("question")
    assert answer(library) == 42.0
    with pytest.raises(RuntimeError, match="^two arguments, please$"):
        library.call("answer", [0])

    # What a header says is part of what was built; its time alone is not.
    os.utime(tmp_path / "number.h")
    assert jit.build([spec]) == [first]
    (tmp_path / "number.h").write_text("#define NUMBER 3\n")
    (second,) = jit.build([spec])
    assert second != first and answer(jit.module().Library(str(second))) == 63.0
    (tmp_path / "number.h").write_text("#define NUMBER 2\n")
    assert jit.build([spec]) == [first]


def test_warm_hit_is_quick(own_cache, spec):
    jit.build([spec])
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        jit.build([spec])
        seconds.append(time.perf_counter() - start)
    assert min(seconds) <= 0.05


def test_many_processes_build_once(own_cache, spec, tmp_path):
    program = f"from cutlass_ext import jit\nprint(jit.build([jit.{spec!r}])[0])"
    processes = [run_python(program, CUTLASS_EXT_CACHE=str(own_cache)) for _ in range(5)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    assert len({output for output, _ in outputs}) == 1
    assert sum("building answer" in error for _, error in outputs) <= 1
    assert len(list(entry_of(own_cache, spec).glob("*/answer.so"))) == 1


def test_killed_build_leaves_no_library(own_cache, spec, tmp_path):
    slow = SOURCE.replace("#include <stdexcept>", "#include <regex>\n#include <stdexcept>")
    spec = dataclasses.replace(spec, source=slow)
    program = f"from cutlass_ext import jit\njit.build([jit.{spec!r}])"
    folder = entry_of(own_cache, spec)
    process = run_python(program, CUTLASS_EXT_CACHE=str(own_cache))
    deadline = time.monotonic() + 60
    while not list(folder.glob("work-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert list(folder.glob("work-*")) and not list(folder.glob("*/answer.so"))
    again = run_python(program, CUTLASS_EXT_CACHE=str(own_cache))
    again.communicate(timeout=120)
    assert again.returncode == 0
    assert len(list(folder.glob("*/answer.so"))) == 1
    assert not list(folder.glob("work-*"))


def test_refused_source_shows_command_and_error(own_cache, tmp_path):
    spec = jit.KernelSpec("broken", "int number = text;\n", "host")
    with pytest.raises(jit.BuildError) as caught:
        jit.build([spec])
    text = str(caught.value)
    assert text.startswith("broken can't be built for the host (plain, as sm_80) with g++ ")
    assert "command: " in text and "was not declared in this scope" in text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "a b", "KernelSpec.name is 'a b': letters, digits and underscores only."),
        (
            "target",
            "hopper",
            "KernelSpec.target is 'hopper': give 'host' or an architecture such as 'sm_80' or "
            "'sm_90a'.",
        ),
        ("mode", "fast", "KernelSpec.mode is 'fast': give one of plain, asan, instrumented."),
        ("flags", ("-G",), "KernelSpec.flags are for nvcc, and x is for the host."),
    ],
)
def test_wrong_specs(field, value, text):
    with pytest.raises(ValueError) as caught:
        jit.KernelSpec(**{"name": "x", "source": "", "target": "host", field: value})
    assert str(caught.value) == text


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """No tool on PATH, no variable, no Python package that brings one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CUDA_HOME", "CUTLASS_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain, "_packaged_toolkits", list)
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda name: str(tmp_path))


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (
            toolchain.find_gxx,
            "No g++ was found on PATH: install it, for example with `apt-get install g++`.",
        ),
        (
            toolchain.find_nvcc,
            "No nvcc was found in CUDA_HOME, on PATH or among the Python packages: install the "
            "CUDA toolkit 13.0, or run `pip install 'cutlass-ext[cuda13]'`.",
        ),
        (
            toolchain.find_cutlass,
            "CUTLASS's headers were not found: run `pip install --no-deps "
            "nvidia-cutlass==4.2.0.0`, or set CUTLASS_PATH to the folder that holds "
            "cutlass/cutlass.h of CUTLASS 4.2.0.",
        ),
        (
            toolchain.find_cuda_include,
            "The CUDA headers were not found in CUDA_HOME, beside nvcc on PATH or among the Python "
            "packages: run `pip install 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' "
            "'nvidia-cuda-cccl==13.0.*'`, or install the CUDA toolkit 13.0.",
        ),
        (toolchain.find_ninja, "No ninja was found: run `pip install ninja`."),
    ],
)
def test_missing_tools(bare_machine, find, text):
    with pytest.raises(jit.ToolchainError) as caught:
        find()
    assert str(caught.value) == text


def test_wrong_cutlass_path(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    with pytest.raises(jit.ToolchainError, match="which holds no cutlass/cutlass.h"):
        toolchain.find_cutlass()


def test_cache_folder_is_the_user_s_own(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUTLASS_EXT_CACHE", str(folder))
    assert stat.S_IMODE(cache.root().stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(jit.CacheError) as caught:
        cache.root()
    assert str(caught.value) == (
        f"The cache folder {folder} may be written by other users: run `chmod 700 {folder}`, "
        "or set CUTLASS_EXT_CACHE to a folder of your own."
    )


def test_no_build_inside_graph_capture(own_cache, spec, monkeypatch):
    import torch

    jit.build([spec])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    jit.build([spec])  # a hit builds nothing
    other = jit.KernelSpec("other", SOURCE, "host", include_dirs=spec.include_dirs)
    with pytest.raises(jit.CaptureError, match="other"):
        jit.build([other])


def test_gpu_code_compiles_and_reports_registers(own_cache):
    try:
        toolchain.find_nvcc()
    except jit.ToolchainError as error:
        pytest.skip(str(error))
    source = """#include <cuda_runtime.h>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
"""
    spec = jit.KernelSpec("twice", source, "sm_80")
    (usage,) = jit.resource_usage(spec)
    assert "twice" in usage.kernel and 0 < usage.registers < 64
    assert usage.spill_stores == usage.spill_loads == 0
