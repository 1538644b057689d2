"""Registers, spills and shared memory of compiled kernels, as ptxas reported them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class KernelResources:
    """What one kernel uses, a thread or a block."""

    kernel: str
    """Demangled where c++filt is installed."""
    arch: str
    registers: int
    spill_stores: int
    """Bytes a thread."""
    spill_loads: int
    """Bytes a thread."""
    stack: int
    """Bytes a thread."""
    static_shared: int
    """Bytes a block; dynamic shared memory is not known to the compiler."""
    barriers: int


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def parse(log: str) -> list[KernelResources]:
    """Reads the output of `ptxas -v`, one entry a kernel and architecture, in its order."""
    found = []
    for block in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        entry, stack = _ENTRY.search(block), _STACK.search(block)
        registers = re.search(r"Used (\d+) registers", block)
        if not (entry and stack and registers):
            continue
        found.append(
            KernelResources(
                kernel=entry.group(1),
                arch=entry.group(2),
                registers=int(registers.group(1)),
                spill_stores=int(stack.group(2)),
                spill_loads=int(stack.group(3)),
                stack=int(stack.group(1)),
                static_shared=_count(r"(\d+) bytes smem", block),
                barriers=_count(r"used (\d+) barriers", block),
            )
        )
    names = _demangle([resources.kernel for resources in found])
    return [
        KernelResources(**{**vars(resources), "kernel": name})
        for resources, name in zip(found, names, strict=True)
    ]


def _count(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def _demangle(names: list[str]) -> list[str]:
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return names
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True)
    demangled = done.stdout.splitlines()
    return demangled if len(demangled) == len(names) else names
