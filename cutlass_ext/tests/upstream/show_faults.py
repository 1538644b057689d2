"""Prints what the CUTLASS in CUTLASS_PATH does with three small inputs, as JSON.

bytes      from where an iterator comes to where it should
reads      of global memory in a product of no iterations
wrong      elements of a scattered load
"""

import json
from pathlib import Path

import torch

from cutlass_ext.testing.device_code import Harness, Unit

UNIT = Unit(
    name="upstream_faults",
    headers=("faults.h",),
    functions=tuple((name, name) for name in ("tile_offset", "no_iterations", "scattered_load")),
    directory=Path(__file__).parent,
    logged=True,
)


def main() -> None:
    """Runs all three on the CPU."""
    harness = Harness("host", "instrumented")
    a, b = torch.zeros(128, 96).half(), torch.zeros(96, 64).half()
    difference = torch.zeros(1, dtype=torch.int64)
    harness.call(UNIT, "tile_offset", a, difference)

    log = harness.call(UNIT, "no_iterations", a, b, torch.zeros(128), log=True)
    inside = log["space"] == "global"
    reads = 0
    for operand in (a, b):
        first, last = operand.data_ptr(), operand.data_ptr() + operand.nbytes
        reads += int((inside & (log["address"] >= first) & (log["address"] < last)).sum())

    source, copy = torch.arange(64.0 * 64).view(64, 64), torch.zeros(128, 64)
    source = torch.cat([source, -torch.ones(64, 64)])
    harness.call(UNIT, "scattered_load", source, copy, torch.arange(64, dtype=torch.int32))
    wrong = int((copy[:64] != source[:64]).sum())
    print(json.dumps({"bytes": int(difference), "reads": reads, "wrong": wrong}))


if __name__ == "__main__":
    main()
