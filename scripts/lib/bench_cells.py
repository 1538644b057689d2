"""The cells of the benchmark: shapes, dtypes and features that every ratio here is over."""

from dataclasses import asdict, dataclass, replace

PRECISIONS = ("ieee", "tf32x3", "tf32")


@dataclass(frozen=True)
class Cell:
    """One attention call: query `[B, M, H, K]`, key `[B, N, Hkv, K]`, value `[B, N, Hkv, Kv]`."""

    suite: str
    cell: str | None
    dtype: str
    precision: str | None
    B: int
    H: int
    Hkv: int
    M: int
    N: int
    K: int
    Kv: int
    bias: str | None = None
    bias_grad: bool = False
    causal: bool = False
    dropout: float = 0.0

    @property
    def name(self) -> str:
        """What the option `--cells` matches: `main/float16/K64/S4096/causal`."""
        parts = [self.suite, self.cell, self.dtype, self.precision, f"K{self.K}", f"S{self.N}"]
        return "/".join([part for part in parts if part] + ["causal"] * self.causal)

    def flops(self, direction: str = "forward") -> float:
        """Floating-point operations of the mathematics: two products forward, five backward."""
        forward = 2.0 * self.B * self.H * self.M * self.N * (self.K + self.Kv)
        return forward * (0.5 if self.causal else 1.0) * (2.5 if direction == "backward" else 1.0)

    def row(self) -> dict:
        """The cell's part of a row of results."""
        return asdict(self)


def square(dtype: str, precision: str | None, head_dim: int, length: int, causal: bool) -> Cell:
    """A cell of the suite `main`: 16384 tokens and 2048 channels, however they are cut."""
    heads = max(1, 2048 // head_dim)
    return Cell(
        suite="main",
        cell=None,
        dtype=dtype,
        precision=precision,
        B=max(1, 16384 // length),
        H=heads,
        Hkv=heads,
        M=length,
        N=length,
        K=head_dim,
        Kv=head_dim,
        causal=causal,
    )


def main_suite() -> list[Cell]:
    """The suite `main`, the cells that the library is judged by first."""
    float16 = [(k, 4096) for k in (16, 32, 40, 64, 80, 96, 128, 256, 512)]
    float16 += [(k, 512) for k in (32, 64, 128)] + [(k, 16384) for k in (64, 128)]
    float16 += [(256, 512), (256, 16384)]  # for sm90
    shapes = [("float16", None, k, s) for k, s in float16]
    shapes += [("bfloat16", None, k, s) for k, s in float16 if k in (64, 128)]
    shapes += [
        ("float32", precision, k, s)
        for precision in PRECISIONS
        for s in (512, 4096)
        for k in (32, 64, 128)
    ]
    cells = []
    for dtype, precision, head_dim, length in shapes:
        cells.append(square(dtype, precision, head_dim, length, causal=False))
        if head_dim in (64, 128):
            cells.append(square(dtype, precision, head_dim, length, causal=True))
    return sorted(cells, key=_urgency)


def _urgency(cell: Cell) -> tuple:
    """Order of measurement: 16 bits first, the common head dimensions first, S = 4096 first."""
    return (
        cell.dtype == "float32",
        cell.K not in (64, 128),
        cell.N != 4096,
        cell.precision == "tf32",
        cell.dtype != "float16",
    )


def launch_cost_cell() -> Cell:
    """A call so small that its time is what the host spends on it."""
    small = square("float16", None, 64, 64, causal=False)
    return replace(small, cell="host_launch", B=1, H=1, Hkv=1)


SUITES = {"main": main_suite}
