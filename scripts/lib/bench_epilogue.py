"""The cells `pipelined_epilogue` of the suite `components`.

One product of 16-bit matrices plus a source: CUTLASS's own kernel, beside kernels of the same tiles
whose epilogue loads the source ahead, in its own type, permutes its output, or prefetches. For a
float source the baseline is CUTLASS's float kernel and a cast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

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
class Cell:
    """output (float16) = A @ B + source."""

    m: int
    n: int
    k: int
    source: str

    cell = "pipelined_epilogue"
    dtype = "float16"
    precision = None
    baseline = BASELINE

    @property
    def name(self) -> str:
        """What the option `--cells` matches: `pipelined_epilogue/8192x8192x32/float32`."""
        return f"{self.cell}/{self.m}x{self.n}x{self.k}/{self.source}"

    def bytes(self) -> int:
        """Each input once and the output once."""
        size = torch.empty((), dtype=getattr(torch, self.source)).element_size()
        return 2 * self.k * (self.m + self.n) + self.m * self.n * (size + 2)

    def shortened(self, rows: int) -> "Cell":
        """With no more rows and columns."""
        return Cell(min(self.m, rows), min(self.n, rows), self.k, self.source)

    def row(self) -> dict:
        """The columns that say what was computed."""
        return {"M": self.m, "N0": self.n, "K0": self.k, "N1": None, "problems": 1} | {
            "source": self.source
        }

    def shape(self) -> str:
        """The same in a few words."""
        return f"{self.m} x {self.n} x {self.k} + {self.source}"

    def flops(self) -> float:
        """Floating-point operations of the product."""
        return 2.0 * self.m * self.n * self.k

    def specs(self, device: str, target: str) -> list[jit.KernelSpec]:
        """The library that the calls run."""
        return [unit(self.source).spec("host" if device == "cpu" else "cuda", "plain")]

    def arranged(self, name: str, output: torch.Tensor) -> torch.Tensor:
        """The output of a row's call, arranged as the baseline's: row r of group g of the permuted
        one lies at row r * groups + g."""
        if name != "ours:permuted":
            return output
        groups = output.view(_GROUP, self.m // _GROUP, self.n)
        return groups.transpose(0, 1).reshape(self.m, self.n)

    def calls(self, device: str) -> dict[str, Callable[[], torch.Tensor]]:
        """A call for each row."""
        return make_calls(self, device)


def cells() -> list[Cell]:
    """The suite's."""
    sources = ("float16", "float32")
    return [Cell(8192, 8192, k, source) for source in sources for k in (32, 64)]


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


def make_calls(cell: Cell, device: str) -> dict[str, Callable[[], torch.Tensor]]:
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
