"""Every public header compiles alone, for the CPU and by nvcc."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from cutlass_ext import jit
from cutlass_ext.jit import toolchain

INCLUDE = Path(__file__).parents[1] / "include"
# The headers of host/ belong to the runtime; its own tests compile them.
HEADERS = sorted(
    str(path.relative_to(INCLUDE))
    for path in INCLUDE.rglob("*.h")
    if "host" not in path.relative_to(INCLUDE).parts
)


def spec(header: str, target: str) -> jit.KernelSpec:
    name = "alone_" + header.removesuffix(".h").replace("/", "_")
    return jit.KernelSpec(name=name, source=f'#include "{header}"\n', target=target)


@pytest.fixture(scope="module", params=["host", "sm_80"])
def target(request) -> str:
    if request.param != "host":
        try:
            toolchain.find_nvcc()
        except jit.ToolchainError as error:
            pytest.skip(f"no nvcc: {error}")
    # All at once; each header's own test reports what is wrong with it.
    with contextlib.suppress(jit.BuildError):
        jit.build([spec(header, request.param) for header in HEADERS])
    return request.param


@pytest.mark.parametrize("header", HEADERS)
def test_compiles_alone(header, target):
    jit.build([spec(header, target)])


@pytest.mark.parametrize("header", HEADERS)
def test_names_itself(header):
    """Guarded against double inclusion, and with a word on what it is for."""
    text = (INCLUDE / header).read_text()
    assert text.startswith("/// @file\n/// ")
    assert text.count("#pragma once\n") == 1
