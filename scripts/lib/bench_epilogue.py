"""The cells `pipelined_epilogue` of the suite `components`.

One product of 16-bit matrices plus a source: CUTLASS's own kernel, beside kernels of the same tiles
whose epilogue loads the source ahead, in its own type, permutes its output, or prefetches. For a
float source the baseline is CUTLASS's float kernel and a cast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bench_backends import try_once
from bench_timing import interleaved, sustained
from cutlass_ext import jit
from cutlass_ext.testing.device_code import Unit

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "stock"
_GROUP = 64  # rows of a group whose places are permuted
_VARIANTS = {
    "ours": "2",
    "ours:depth1": "1",
    "ours:permuted": "2, true",
    "ours:prefetch": "2, false, true",
}


@dataclass(frozen=True)
class EpilogueCell:
    """output (float16) = A @ B + source."""

    m: int
    n: int
    k: int
    source: str

    cell = "pipelined_epilogue"
    dtype = "float16"

    @property
    def name(self) -> str:
        """What the option `--cells` matches: `pipelined_epilogue/8192x8192x32/float32`."""
        return f"{self.cell}/{self.m}x{self.n}x{self.k}/{self.source}"

    def bytes(self) -> int:
        """Each input once and the output once."""
        size = torch.empty((), dtype=getattr(torch, self.source)).element_size()
        return 2 * self.k * (self.m + self.n) + self.m * self.n * (size + 2)

    def limited(self, rows: int) -> "EpilogueCell":
        """With no more rows and columns."""
        return EpilogueCell(min(self.m, rows), min(self.n, rows), self.k, self.source)


def epilogue_cells() -> list[EpilogueCell]:
    """The suite's."""
    sources = ("float16", "float32")
    return [EpilogueCell(8192, 8192, k, source) for source in sources for k in (32, 64)]


def unit(source: str) -> Unit:
    """The kernels for a source of a type."""
    element = {"float16": "half_t", "float32": "float"}[source]
    functions = [(BASELINE, f"stock_gemm<{element}>")]
    functions += [
        (name.replace(":", "_"), f"source_gemm<{element}, {arguments}>")
        for name, arguments in _VARIANTS.items()
    ]
    return Unit(
        name=f"bench_epilogue_{source}",
        headers=(str(ROOT / "scripts/lib/epilogue_gemm.h"),),
        functions=tuple(functions),
        directory=ROOT / "cutlass_ext/tests/harness",
    )


def make_calls(cell: EpilogueCell, device: str) -> dict[str, Callable[[], torch.Tensor]]:
    """A call for each backend; they build what they lack."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(rows: int, columns: int, dtype: str) -> torch.Tensor:
        options = {"generator": generator, "device": device, "dtype": getattr(torch, dtype)}
        return torch.randn(rows, columns, **options)

    a, b = normal(cell.m, cell.k, "float16"), normal(cell.k, cell.n, "float16")
    source = normal(cell.m, cell.n, cell.source)
    half = torch.empty(cell.m, cell.n, dtype=torch.float16, device=device)
    like_source = torch.empty_like(source)

    def call(name: str, output: torch.Tensor) -> torch.Tensor:
        library = jit.load(unit(cell.source).spec("host" if device == "cpu" else "cuda", "plain"))
        words = [x.data_ptr() for x in (a, b, source, output)] + [cell.m, cell.n, cell.k, _GROUP]
        stream = 0 if device == "cpu" else torch.cuda.current_stream().cuda_stream
        library.call(name.replace(":", "_"), words, stream)
        return output

    def baseline() -> torch.Tensor:
        output = call(BASELINE, like_source)
        return output if output.dtype == torch.float16 else output.to(torch.float16)

    calls: dict[str, Callable[[], torch.Tensor]] = {
        name: lambda name=name: call(name, half) for name in _VARIANTS
    }
    return {**calls, BASELINE: baseline}


def _greatest_error(cell: EpilogueCell, calls: dict, name: str) -> float:
    """Greatest difference from the baseline's output, relative to its greatest element."""
    output, expected = calls[name](), calls[BASELINE]()
    if name == "ours:permuted":
        # Row r of group g lies at row r * groups + g.
        output = output.view(_GROUP, cell.m // _GROUP, cell.n).transpose(0, 1)
        expected = expected.view(cell.m // _GROUP, _GROUP, cell.n)
    difference = (output.float() - expected.float()).abs().nan_to_num(nan=float("inf"))
    return (difference.max() / expected.float().abs().max()).item()


def measure_epilogue(
    cell: EpilogueCell, device: str, clock: object, effort: object, speed: float
) -> list[dict]:
    """Rows of one cell; the keys are those of the suite, N0 and K0 being n and k."""
    with torch.inference_mode():
        calls = make_calls(cell, device)
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
                "precision": None,
                "source": cell.source,
                "M": cell.m,
                "N0": cell.n,
                "K0": cell.k,
                "N1": None,
                "problems": 1,
                **dict.fromkeys(("ms", "sustained_ms", "tflops", "floor_ms", "speedup")),
                "max_error": None,
                "error": refused[name],
            }
            if name in able:
                ms = medians[name]
                lasting = ms > effort.sustained_above
                row |= {
                    "ms": ms,
                    "sustained_ms": sustained(clock, able[name], effort) if lasting else None,
                    "tflops": 2e-9 * cell.m * cell.n * cell.k / ms,
                    "floor_ms": 1e3 * cell.bytes() / speed,
                    "speedup": medians[BASELINE] / ms if BASELINE in medians else None,
                    "max_error": _greatest_error(cell, able, name) if BASELINE in able else None,
                }
            rows.append(row)
    return rows
