"""What the benchmark's rows say: a table, ratios to the baselines, geometric means by group."""

import math
from collections.abc import Callable, Iterable

from bench_backends import BASELINES

# Columns that name a measurement; two rows with the same ones are the same measurement.
CELL_COLUMNS = (
    *("suite", "cell", "dtype", "precision", "B", "H", "Hkv", "M", "N", "K", "Kv"),
    *("bias", "bias_grad", "causal", "dropout"),
)
KEY_COLUMNS = (*CELL_COLUMNS, "backend", "direction")

GROUPS: dict[str, Callable[[dict], bool]] = {
    "16 bits, K 64 and 128, S 4096": lambda row: (
        row["dtype"] != "float32"
        and row["K"] in (64, 128)
        and row["N"] == 4096
        and not row["causal"]
    ),
    "16 bits, causal": lambda row: row["dtype"] != "float32" and row["causal"],
    "16 bits, all": lambda row: row["dtype"] != "float32",
    "float32, ieee": lambda row: row["precision"] == "ieee",
    "float32, tf32x3": lambda row: row["precision"] == "tf32x3",
    "float32, tf32": lambda row: row["precision"] == "tf32",
}


def key_of(row: dict) -> tuple:
    """What a row measures."""
    return tuple(row[column] for column in KEY_COLUMNS)


def cell_of(row: dict) -> tuple:
    """The cell and direction of a row; rows with the same one are compared with each other."""
    return (*(row[column] for column in CELL_COLUMNS), row["direction"])


def by_cell(rows: Iterable[dict]) -> dict[tuple, dict[str, dict]]:
    """Rows by cell and direction, then by backend."""
    cells: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        cells.setdefault(cell_of(row), {})[row["backend"]] = row
    return cells


def baseline(backends: dict[str, dict]) -> float | None:
    """Milliseconds of the fastest of PyTorch's baseline backends that accept a cell."""
    times = [backends[name]["ms"] for name in BASELINES if backends.get(name, {}).get("ms")]
    return min(times, default=None)


def ratios(rows: Iterable[dict], against: str) -> list[tuple[dict, float]]:
    """Each row of ours that has a time, and how many times faster it is than `against`.

    `against` is a backend's name, or "baseline". Of our families only the fastest of a cell counts.
    """
    found = []
    for backends in by_cell(rows).values():
        ours = [row for name, row in backends.items() if name.startswith("ours:") and row["ms"]]
        other = baseline(backends) if against == "baseline" else backends.get(against, {}).get("ms")
        if ours and other:
            best = min(ours, key=lambda row: row["ms"])
            found.append((best, other / best["ms"]))
    return found


def geometric_means(rows: list[dict], direction: str) -> list[tuple[str, str, float, int]]:
    """`(group, against, geometric mean, cells)` for each group that has a cell."""
    means = []
    rows = [row for row in rows if row["direction"] == direction]
    for against in ("baseline", "torch:efficient", "torch:cudnn"):
        found = ratios(rows, against)
        for group, belongs in GROUPS.items():
            values = [ratio for row, ratio in found if row["cell"] is None and belongs(row)]
            if values:
                mean = math.exp(sum(map(math.log, values)) / len(values))
                means.append((group, against, mean, len(values)))
    return means


def cell_label(row: dict) -> str:
    """A cell in a few words: `float16 K=64 S=4096 causal`."""
    parts = [row["cell"], row["dtype"], row["precision"], f"K={row['K']}", f"S={row['N']}"]
    return " ".join([part for part in parts if part] + ["causal"] * row["causal"])


def table(rows: list[dict]) -> str:
    """Rows as Markdown, one line a row; the ratio is the baseline's time over the row's."""
    lines = [
        "| cell | direction | backend | ms | sustained ms | TFLOP/s | × baseline | max error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for backends in by_cell(rows).values():
        base = baseline(backends)
        for name, row in backends.items():
            start = f"| {cell_label(row)} | {row['direction']} | {name} |"
            if row["error"]:
                lines.append(f"{start} {row['error'].replace('|', '/')} | | | | |")
                continue
            cells = [
                f"{row['ms']:.4f}",
                f"{row['sustained_ms']:.4f}" if row["sustained_ms"] else "",
                f"{row['tflops']:.1f}" if row["tflops"] else "",
                f"{base / row['ms']:.2f}" if base else "",
                f"{row['max_error']:.1e}" if row["max_error"] is not None else "",
            ]
            lines.append(f"{start} {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: list[dict]) -> str:
    """The geometric means as Markdown."""
    lines = ["| group | direction | against | × faster | cells |", "|---|---|---|---|---|"]
    for direction in ("forward", "backward"):
        for group, against, mean, count in geometric_means(rows, direction):
            lines.append(f"| {group} | {direction} | {against} | {mean:.2f} | {count} |")
    return "\n".join(lines)
