"""Compile one attention instance each for sm_80 and sm_90; print registers and spills.

It needs nvcc and no GPU: `nvcc -cubin` with the flags that kernels are built with. The numbers are
also written as JSON, where CUTLASS_EXT_CUBIN_REPORT names a file.
"""

import json
import os
import sys
from dataclasses import asdict

import torch

from cutlass_ext import jit
from cutlass_ext.fmha import kernels

TARGETS = ("sm_80", "sm_90")
HEAD_DIM = 64


def main() -> int:
    """Print a line a kernel; 1 where an instance spills more than a thread's few stragglers."""
    report = []
    for target in TARGETS:
        spec = kernels.spec(kernels.SM80, torch.float16, (HEAD_DIM,), True, target)
        for kernel in jit.resource_usage(spec):
            report.append({"library": spec.name, "target": target, **asdict(kernel)})
            print(
                f"{spec.name} {target}: {kernel.registers} registers, "
                f"{kernel.spill_stores} B spill stores, {kernel.spill_loads} B spill loads"
            )
    path = os.environ.get("CUTLASS_EXT_CUBIN_REPORT")
    if path:
        with open(path, "w") as file:
            json.dump(report, file, indent=1)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
