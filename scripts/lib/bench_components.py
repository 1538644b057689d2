"""Time the components beside the way without them: the suite `components`.

Chained products against `torch.relu_(A @ B0) @ B1`, lists of them against a loop, epilogues with a
source against CUTLASS's; each also without the component in question. The floor beside a time is
that of memory: each input read once and the output written once, at the speed of a copy measured in
the same run.
"""

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import bench_chained_gemm
import bench_epilogue
from bench_backends import try_once
from bench_timing import FULL, QUICK, interleaved, make_clock, sustained
from cutlass_ext import jit

CELLS = (*bench_chained_gemm.cells(), *bench_epilogue.cells())
Cell = bench_chained_gemm.Cell | bench_epilogue.Cell


def greatest_error(cell: Cell, calls: dict[str, Callable], name: str) -> float:
    """Greatest difference from the baseline's output, relative to its greatest element."""
    pairs = [cell.arranged(name, calls[name]()), calls[cell.baseline]()]
    output, expected = (p if isinstance(p, list) else [p] for p in pairs)
    greatest = 0.0
    for x, y in zip(output, expected, strict=True):
        difference = (x.float() - y.float()).abs().nan_to_num(nan=float("inf"))
        greatest = max(greatest, (difference.max() / y.float().abs().max()).item())
    return greatest


def copy_speed(clock: object, device: str, effort: object) -> float:
    """Bytes a second that a copy reads and writes together."""
    size = (1 << 30) if device == "cuda" else (1 << 24)
    source = torch.empty(size, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    ms = interleaved(clock, {"copy": lambda: target.copy_(source)}, effort)["copy"]
    return 2 * size / ms * 1e3


def measure(cell: Cell, device: str, clock: object, effort: object, speed: float) -> list[dict]:
    """Rows of one cell."""
    before = torch.get_float32_matmul_precision()
    full = cell.precision in ("ieee", "tf32x3")
    torch.set_float32_matmul_precision("highest" if full else "high")
    try:
        with torch.inference_mode():
            return _measure(cell, device, clock, effort, speed)
    finally:
        torch.set_float32_matmul_precision(before)


def _measure(cell: Cell, device: str, clock: object, effort: object, speed: float) -> list[dict]:
    calls = cell.calls(device)
    refused = {name: try_once(call)[1] for name, call in calls.items()}
    able = {name: call for name, call in calls.items() if refused[name] is None}
    medians = interleaved(clock, able, effort)
    rows = []
    for name in calls:
        row = {
            "suite": "components",
            "cell": cell.cell,
            "backend": name,
            "dtype": cell.dtype,
            "precision": cell.precision,
            "shape": cell.shape(),
            **cell.row(),
            **dict.fromkeys(("ms", "sustained_ms", "tflops", "floor_ms", "speedup", "max_error")),
            "error": refused[name],
        }
        if name in able:
            ms = medians[name]
            lasting = sustained(clock, able[name], effort) if ms > effort.sustained_above else None
            row |= {
                "ms": ms,
                "sustained_ms": lasting,
                "tflops": cell.flops() / ms * 1e-9,
                "floor_ms": 1e3 * cell.bytes() / speed,
                "speedup": medians[cell.baseline] / ms if cell.baseline in medians else None,
                "max_error": greatest_error(cell, able, name) if cell.baseline in able else None,
            }
        rows.append(row)
    return rows


def prebuild(cells: list[Cell], device: str) -> None:
    """All kernels at once; whoever calls one that does not compile is told why."""
    target = jit.targets()[0] if device == "cuda" else "host"
    with contextlib.suppress(jit.BuildError):
        jit.build([spec for cell in cells for spec in cell.specs(device, target)])


def table(rows: list[dict]) -> str:
    """Rows as Markdown; the speedup is the baseline's time over the row's."""
    lines = [
        "| cell | shape | dtype | backend | ms | floor ms | x baseline | x floor "
        "| max difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        start = (
            f"| {row['cell']} | {row['shape']} | {row['dtype']} {row['precision'] or ''} | "
            f"{row['backend']} |"
        )
        if row["error"]:
            lines.append(f"{start} {row['error'].replace('|', '/')} | | | | |")
            continue
        speedup = f"{row['speedup']:.2f}" if row["speedup"] else ""
        error = f"{row['max_error']:.1e}" if row["max_error"] is not None else ""
        lines.append(
            f"{start} {row['ms']:.4f} | {row['floor_ms']:.4f} | {speedup} | "
            f"{row['ms'] / row['floor_ms']:.2f} | {error} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Command line; 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cells",
        default="",
        metavar="REGEX",
        help="cells whose name matches; a name is chained/131072x64x64x64/float32/tf32",
    )
    parser.add_argument("--dtype", action="append", choices=("float16", "float32"), default=None)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rows", type=int, metavar="M", help="no more rows of a than these")
    parser.add_argument("--quick", action="store_true", help="fewer calls, no sustained_ms")
    parser.add_argument("--list", action="store_true", help="print the cells' names and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here as well")
    arguments = parser.parse_args()

    dtypes = arguments.dtype or ["float16", "float32"]
    chosen = [c for c in CELLS if c.dtype in dtypes and re.search(arguments.cells, c.name)]
    if arguments.list:
        print("\n".join(cell.name for cell in chosen))
        return 0
    if arguments.rows:
        chosen = [cell.shortened(arguments.rows) for cell in chosen]
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("No CUDA GPU is visible to PyTorch; --device cpu tries the benchmark without one.")
        return 2
    effort = QUICK if arguments.quick else FULL
    clock = make_clock(arguments.device)
    speed = copy_speed(clock, arguments.device, effort)
    print(f"copy: {speed * 1e-12:.2f} TB/s", file=sys.stderr)
    prebuild(chosen, arguments.device)
    rows = []
    for number, cell in enumerate(chosen, 1):
        rows += measure(cell, arguments.device, clock, effort, speed)
        print(f"[{number}/{len(chosen)}] {cell.name}", file=sys.stderr, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
