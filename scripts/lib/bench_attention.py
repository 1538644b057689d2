"""Time attention beside PyTorch's own backends, over the cells of `bench_cells.py`.

A row for every backend in every cell; one that refuses has an `error` in place of a time. See
docs/performance/README.md for what is timed and how.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch

from bench_backends import BACKENDS, Inputs, forward_call, make_inputs, selected, try_once
from bench_cells import SUITES, Cell, launch_cost_cell
from bench_report import cell_of, summary, table
from bench_timing import FULL, QUICK, Effort, interleaved, launch_cost, make_clock, sustained

NO_BACKWARD = "not built: these kernels have no backward pass yet"
DIRECTIONS = ("forward", "backward")


def make_row(cell: Cell, backend: str, direction: str, **measured: object) -> dict:
    """A row of results; what is not given was not measured."""
    empty = {"ms": None, "sustained_ms": None, "tflops": None, "max_error": None, "error": None}
    return {**cell.row(), "backend": backend, "direction": direction, **empty, **measured}


def error_on_slice(cell: Cell, inputs: Inputs, output: torch.Tensor, rows: int = 128) -> float:
    """Greatest difference from float64, over rows spread through the first and the last head."""
    chosen = torch.linspace(0, cell.M - 1, min(rows, cell.M), device=output.device).long()
    greatest = 0.0
    for batch, head in {(0, 0), (cell.B - 1, cell.H - 1)}:
        kv_head = head // (cell.H // cell.Hkv)
        query = inputs.query[batch, chosen, head].double()
        key = inputs.key[batch, :, kv_head].double()
        value = inputs.value[batch, :, kv_head].double()
        scores = query @ key.T / cell.K**0.5
        if cell.causal:
            hidden = torch.arange(cell.N, device=output.device) > chosen[:, None]
            scores = scores.masked_fill(hidden, float("-inf"))
        reference = scores.softmax(-1) @ value
        difference = output[batch, chosen, head].double() - reference
        # A NaN must not be lost to a comparison.
        greatest = max(greatest, difference.abs().nan_to_num(nan=float("inf")).max().item())
    return greatest


def measure_forward(
    cell: Cell, backends: Iterable[str], device: str, clock: object, effort: Effort
) -> list[dict]:
    """Forward rows of one cell, in the order of `backends`."""
    inputs = make_inputs(cell, device)
    refused, errors, calls = {}, {}, {}
    for backend in backends:
        call = in_context(backend, cell, forward_call(backend, cell, inputs))
        output, refused[backend] = try_once(call)
        if output is not None:
            errors[backend] = error_on_slice(cell, inputs, output)
            calls[backend] = call
        del output
        if device == "cuda":
            torch.cuda.empty_cache()

    medians = interleaved(clock, calls, effort)
    rows = []
    for backend in backends:
        if backend not in calls:
            rows.append(make_row(cell, backend, "forward", error=refused[backend]))
            continue
        ms = medians[backend]
        lasting = None
        if ms > effort.sustained_above:
            lasting = sustained(clock, calls[backend], effort)
        rows.append(
            make_row(
                cell,
                backend,
                "forward",
                ms=ms,
                sustained_ms=lasting,
                tflops=cell.flops() / ms * 1e-9,
                max_error=errors[backend],
            )
        )
    return rows


def in_context(
    backend: str, cell: Cell, call: Callable[[], torch.Tensor]
) -> Callable[[], torch.Tensor]:
    """The call with PyTorch's settings for this backend around it, and without autograd."""

    def wrapped() -> torch.Tensor:
        with torch.inference_mode(), selected(backend, cell):
            return call()

    return wrapped


def measure_launch_cost(backends: Iterable[str], device: str) -> list[dict]:
    """Rows of the cell `host_launch`: milliseconds of the host's time for one small call."""
    cell = launch_cost_cell()
    inputs = make_inputs(cell, device)
    synchronize = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    rows = []
    for backend in backends:
        call = forward_call(backend, cell, inputs)
        with torch.inference_mode(), selected(backend, cell):
            output, refused = try_once(call)
            if output is None:
                rows.append(make_row(cell, backend, "forward", error=refused))
                continue
            for _ in range(50):
                call()
            cost = launch_cost(call, synchronize)
        error = error_on_slice(cell, inputs, output)
        rows.append(make_row(cell, backend, "forward", ms=cost, max_error=error))
    return rows


def measure(
    cells: Iterable[Cell],
    backends: Iterable[str] = BACKENDS,
    *,
    device: str = "cuda",
    directions: Iterable[str] = DIRECTIONS,
    effort: Effort = FULL,
    deadline: float = float("inf"),
    say: Callable[[str], None] = print,
) -> list[dict]:
    """Rows of whole cells; no cell is begun after `deadline`, a time of `time.monotonic()`."""
    clock = make_clock(device)
    backends, directions, cells = list(backends), list(directions), list(cells)
    rows: list[dict] = []
    for number, cell in enumerate(cells, 1):
        if time.monotonic() > deadline:
            say(f"out of time: {len(cells) - number + 1} of {len(cells)} cells are not measured")
            break
        start = time.monotonic()
        if "forward" in directions:
            if cell.cell == "host_launch":
                rows += measure_launch_cost(backends, device)
            else:
                rows += measure_forward(cell, backends, device, clock, effort)
        if "backward" in directions and cell.cell != "host_launch":
            rows += [make_row(cell, name, "backward", error=NO_BACKWARD) for name in backends]
        say(f"[{number}/{len(cells)}] {cell.name}: {time.monotonic() - start:.1f} s")
    return rows


def choose_cells(suite: str, pattern: str, dtypes: list[str], quick: bool) -> list[Cell]:
    """Cells of a suite whose names match, the host's launch cost first."""
    cells = [launch_cost_cell(), *SUITES[suite]()]
    if quick:
        cells = [c for c in cells if c.cell == "host_launch" or (c.K in (64, 128) and c.N <= 4096)]
    return [c for c in cells if c.dtype in dtypes and re.search(pattern, c.name)]


def main() -> int:
    """Command line; 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=sorted(SUITES), default="main")
    parser.add_argument(
        "--cells",
        default="",
        metavar="REGEX",
        help="cells whose name matches; a name is main/float16/K64/S4096, then /causal",
    )
    parser.add_argument(
        "--dtype", action="append", choices=("float16", "bfloat16", "float32"), default=None
    )
    parser.add_argument("--backends", default=",".join(BACKENDS), help="default: %(default)s")
    parser.add_argument("--directions", default=",".join(DIRECTIONS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--quick", action="store_true", help="K = 64, 128 at most 4096 long, without sustained_ms"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument(
        "--sustained-seconds",
        type=float,
        default=float("inf"),
        help="end the 500 calls before sustained_ms after this long a load",
    )
    parser.add_argument("--skip", type=Path, metavar="FILE", help="rows whose cells to leave out")
    parser.add_argument("--list", action="store_true", help="print the cells' names and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here as well")
    arguments = parser.parse_args()

    dtypes = arguments.dtype or ["float16", "bfloat16", "float32"]
    cells = choose_cells(arguments.suite, arguments.cells, dtypes, arguments.quick)
    if arguments.skip:
        known = {cell_of(row)[:-1] for row in json.loads(arguments.skip.read_text())}
        cells = [cell for cell in cells if tuple(cell.row().values()) not in known]
    if arguments.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("No CUDA GPU is visible to PyTorch; --device cpu tries the benchmark without one.")
        return 2
    rows = measure(
        cells,
        arguments.backends.split(","),
        device=arguments.device,
        directions=arguments.directions.split(","),
        effort=replace(
            QUICK if arguments.quick else FULL, sustained_seconds=arguments.sustained_seconds
        ),
        deadline=time.monotonic() + 60 * arguments.minutes,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    print()
    print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
