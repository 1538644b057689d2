"""Time the components beside the way without them: the suite `components`.

Chained products against `torch.relu_(A @ B0) @ B1`, lists of them against a loop, the intermediate
in registers against shared memory; epilogues with a source (bench_epilogue.py). The floor beside a
time is that of memory: each input read once and the output written once, at the speed of a copy
measured in the same run.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bench_backends import try_once
from bench_epilogue import EpilogueCell, epilogue_cells, measure_epilogue
from bench_timing import FULL, QUICK, interleaved, make_clock, sustained
from cutlass_ext.gemm import chained_gemm, grouped_chained_gemm

BASELINE = "torch"
SHAPES = (
    (81920, 64, 576, 128),
    (81920, 128, 64, 64),
    (131072, 64, 64, 64),
    (131072, 128, 128, 128),
    (65536, 256, 64, 64),
)
"""M, N0, K0, N1"""


@dataclass(frozen=True)
class Cell:
    """One comparison: problems `(M, N0, K0, N1)` of a dtype, and of a precision for float32."""

    cell: str
    dtype: str
    precision: str | None
    problems: tuple[tuple[int, int, int, int], ...]

    @property
    def name(self) -> str:
        """What the option `--cells` matches: `chained/131072x64x64x64/float16`."""
        shape = "x".join(map(str, self.problems[0])) if len(self.problems) == 1 else "64"
        return "/".join(filter(None, (self.cell, shape, self.dtype, self.precision)))

    def flops(self) -> float:
        """Floating-point operations of both products."""
        return sum(2.0 * m * n0 * (k0 + n1) for m, n0, k0, n1 in self.problems)

    def bytes(self) -> float:
        """Each input once and the output once."""
        size = torch.empty((), dtype=getattr(torch, self.dtype)).element_size()
        return size * sum(m * k0 + k0 * n0 + n0 * n1 + m * n1 for m, n0, k0, n1 in self.problems)

    def limited(self, rows: int) -> "Cell":
        """With no more rows of a in any problem."""
        problems = tuple((min(m, rows), *rest) for m, *rest in self.problems)
        return Cell(self.cell, self.dtype, self.precision, problems)


def cells() -> list[Cell]:
    """The suite."""
    precisions = (("float16", None), ("float32", "tf32"), ("float32", "tf32x3"))
    precisions += (("float32", "ieee"),)
    chained = [Cell("chained", *kind, (shape,)) for shape in SHAPES for kind in precisions]
    generator = torch.Generator().manual_seed(0)
    logarithms = torch.rand(64, generator=generator, dtype=torch.float64)
    lengths = (4096.0**logarithms).round().long().tolist()
    grouped = [
        Cell("grouped", *kind, tuple((m, 64, 64, 64) for m in lengths)) for kind in precisions[:2]
    ]
    return chained + grouped


def make_calls(cell: Cell, device: str) -> dict[str, Callable[[], object]]:
    """A call for each backend."""
    generator = torch.Generator(device).manual_seed(0)
    dtype = getattr(torch, cell.dtype)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator, device=device, dtype=dtype)

    a = [normal(m, k0) for m, _, k0, _ in cell.problems]
    b0 = [normal(k0, n0) / max(k0, 1) ** 0.5 for _, n0, k0, _ in cell.problems]
    b1 = [normal(n0, n1) / max(n0, 1) ** 0.5 for _, n0, _, n1 in cell.problems]

    def ours(op: str | None) -> Callable[[], object]:
        op = "host" if device == "cpu" else op
        options = {"activation": "relu", "precision": cell.precision, "op": op}
        if len(cell.problems) == 1:
            return lambda: chained_gemm(a[0], b0[0], b1[0], **options)
        return lambda: grouped_chained_gemm(a, b0, b1, **options)

    def theirs() -> object:
        outputs = [torch.relu_(x @ y) @ z for x, y, z in zip(a, b0, b1, strict=True)]
        return outputs[0] if len(outputs) == 1 else outputs

    calls = {"ours": ours("registers" if cell.precision is None else "shared")}
    if cell.precision is None and all(n0 == 64 for _, n0, _, _ in cell.problems):
        calls["ours:shared"] = ours("shared")
    return {**calls, BASELINE: theirs}


def greatest_error(cell: Cell, calls: dict[str, Callable], name: str) -> float:
    """Greatest difference from the baseline's output, relative to its greatest element."""
    pairs = [calls[name](), calls[BASELINE]()]
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
    calls = make_calls(cell, device)
    refused = {name: try_once(call)[1] for name, call in calls.items()}
    able = {name: call for name, call in calls.items() if refused[name] is None}
    medians = interleaved(clock, able, effort)
    one = len(cell.problems) == 1
    rows = []
    for name in calls:
        m, n0, k0, n1 = cell.problems[0]
        row = {
            "suite": "components",
            "cell": cell.cell,
            "backend": name,
            "dtype": cell.dtype,
            "precision": cell.precision,
            "M": m if one else None,
            "N0": n0,
            "K0": k0,
            "N1": n1,
            "problems": len(cell.problems),
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
                "speedup": medians[BASELINE] / ms if BASELINE in medians else None,
                "max_error": greatest_error(cell, able, name) if BASELINE in able else None,
            }
        rows.append(row)
    return rows


def table(rows: list[dict]) -> str:
    """Rows as Markdown; the speedup is the baseline's time over the row's."""
    lines = [
        "| cell | M x N0 x K0 -> N1 | dtype | backend | ms | floor ms | x baseline | x floor "
        "| max difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        rows_of_a = row["M"] if row["M"] is not None else f"{row['problems']} problems"
        second = f" -> {row['N1']}" if row["N1"] is not None else ""
        kind = row["precision"] or (f"+ {row['source']}" if "source" in row else "")
        start = (
            f"| {row['cell']} | {rows_of_a} x {row['N0']} x {row['K0']}{second} | "
            f"{row['dtype']} {kind} | {row['backend']} |"
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
    suite = [*cells(), *epilogue_cells()]
    chosen = [c for c in suite if c.dtype in dtypes and re.search(arguments.cells, c.name)]
    if arguments.list:
        print("\n".join(cell.name for cell in chosen))
        return 0
    if arguments.rows:
        chosen = [c.limited(arguments.rows) for c in chosen]
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("No CUDA GPU is visible to PyTorch; --device cpu tries the benchmark without one.")
        return 2
    effort = QUICK if arguments.quick else FULL
    clock = make_clock(arguments.device)
    speed = copy_speed(clock, arguments.device, effort)
    print(f"copy: {speed * 1e-12:.2f} TB/s", file=sys.stderr)
    rows = []
    for number, cell in enumerate(chosen, 1):
        measuring = measure_epilogue if isinstance(cell, EpilogueCell) else measure
        rows += measuring(cell, arguments.device, clock, effort, speed)
        print(f"[{number}/{len(chosen)}] {cell.name}", file=sys.stderr, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
