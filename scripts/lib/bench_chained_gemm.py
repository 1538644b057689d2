"""The cells of chained products: what is compared, and the calls."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from cutlass_ext import jit
from cutlass_ext.gemm import chained_gemm, grouped_chained_gemm, kernels
from cutlass_ext.gemm import device as device_kernels
from cutlass_ext.gemm.problem import Options, Problem, make_options, make_problem

BASELINE = "torch"
SHAPES = (
    (81920, 64, 576, 128),
    (81920, 128, 64, 64),
    (131072, 64, 64, 64),
    (131072, 128, 128, 128),
    (65536, 256, 64, 64),
)
"""M, N0, K0, N1"""
KINDS = (("float16", None), ("float32", "tf32"), ("float32", "tf32x3"), ("float32", "ieee"))
"""dtype and precision"""


@dataclass(frozen=True)
class Cell:
    """`relu(A @ B0) @ B1` for problems `(M, N0, K0, N1)` of a dtype and, in float32, a precision.

    One problem is also run with the intermediate in shared memory, with loads requested late, and
    with b0 loaded for each tile again, wherever the kernel that serves does otherwise.
    """

    cell: str
    dtype: str
    precision: str | None
    problems: tuple[tuple[int, int, int, int], ...]

    baseline = BASELINE

    @property
    def name(self) -> str:
        """What the option `--cells` matches: `chained/131072x64x64x64/float16`."""
        shape = "x".join(map(str, self.problems[0])) if len(self.problems) == 1 else "64"
        return "/".join(filter(None, (self.cell, shape, self.dtype, self.precision)))

    def row(self) -> dict:
        """The columns that say what was computed."""
        m, n0, k0, n1 = self.problems[0]
        one = len(self.problems) == 1
        return {"M": m if one else None, "N0": n0, "K0": k0, "N1": n1} | {
            "problems": len(self.problems)
        }

    def shape(self) -> str:
        """The same in a few words."""
        m, n0, k0, n1 = self.problems[0]
        first = str(m) if len(self.problems) == 1 else f"{len(self.problems)} problems"
        return f"{first} x {n0} x {k0} -> {n1}"

    def flops(self) -> float:
        """Floating-point operations of both products."""
        return sum(2.0 * m * n0 * (k0 + n1) for m, n0, k0, n1 in self.problems)

    def bytes(self) -> float:
        """Each input once and the output once."""
        size = torch.empty((), dtype=getattr(torch, self.dtype)).element_size()
        return size * sum(m * k0 + k0 * n0 + n0 * n1 + m * n1 for m, n0, k0, n1 in self.problems)

    def shortened(self, rows: int) -> "Cell":
        """The same with at most `rows` rows of A."""
        problems = tuple((min(m, rows), *rest) for m, *rest in self.problems)
        return Cell(self.cell, self.dtype, self.precision, problems)

    def arranged(self, name: str, output: object) -> object:
        """The output of a row's call, arranged as the baseline's."""
        return output

    def _variants(self, chosen: kernels.Instance) -> dict[str, dict]:
        """Changes to the instance that serves, by the name of the row."""
        if len(self.problems) > 1:
            return {}
        variants = {"ours:late": {"late": True}}
        if chosen.k0:
            # What streams b0 holds 64 columns of the intermediate at a time.
            any_n0 = chosen.n0 > 64
            reload = {"k0": 0, "n0": 64, "any_n0": any_n0}
            variants["ours:reload"] = reload | {"n1": 64 if any_n0 else chosen.n1}
        return variants

    def _chosen(self, device: str, op: str | None) -> kernels.Instance:
        problems, options = self._problems(device, torch.empty), self._options()
        outputs = [p.a.new_empty((1, p.sizes[0], p.sizes[3])) for p in problems]
        return device_kernels.choose(problems, outputs, options, op)

    def _ops(self) -> dict[str, str]:
        """Where our kernels keep the intermediate, by the name of the row."""
        if self.precision is not None:
            return {"ours": "shared"}
        several = all(n0 == 64 for _, n0, _, _ in self.problems)
        return {"ours": "registers"} | ({"ours:shared": "shared"} if several else {})

    def specs(self, device: str, target: str) -> list[jit.KernelSpec]:
        """All kernels of ours that the calls run."""
        instances = {name: self._chosen(device, op) for name, op in self._ops().items()}
        chosen = instances["ours"]
        instances |= {k: replace(chosen, **v) for k, v in self._variants(chosen).items()}
        return [kernels.spec(instance, target) for instance in instances.values()]

    def _options(self) -> Options:
        kind = getattr(torch, self.dtype)
        return make_options(torch.empty(0, dtype=kind), "relu", 1.0, 0.0, None, self.precision)

    def _problems(self, device: str, make: Callable[..., torch.Tensor]) -> list[Problem]:
        options = {"device": device, "dtype": getattr(torch, self.dtype)}
        return [
            make_problem(
                make(m, k0, **options),
                make(k0, n0, **options) / max(k0, 1) ** 0.5,
                make(n0, n1, **options) / max(n0, 1) ** 0.5,
                None,
                None,
            )
            for m, n0, k0, n1 in self.problems
        ]

    def calls(self, device: str) -> dict[str, Callable[[], object]]:
        """A call for each row; the baseline's is PyTorch's two products."""
        generator = torch.Generator(device).manual_seed(0)
        problems = self._problems(
            device, lambda *size, **options: torch.randn(*size, generator=generator, **options)
        )
        a, b0, b1 = ([getattr(p, name)[0] for p in problems] for name in ("a", "b0", "b1"))
        options = self._options()

        def ours(op: str) -> Callable[[], object]:
            given = {"activation": "relu", "precision": self.precision}
            given["op"] = "host" if device == "cpu" else op
            if len(problems) == 1:
                return lambda: chained_gemm(a[0], b0[0], b1[0], **given)
            return lambda: grouped_chained_gemm(a, b0, b1, **given)

        def variant(changes: dict) -> Callable[[], object]:
            op = "host" if device == "cpu" else self._ops()["ours"]
            return lambda: device_kernels.run(problems[0], options, op, **changes)[0]

        def theirs() -> object:
            outputs = [torch.relu_(x @ y) @ z for x, y, z in zip(a, b0, b1, strict=True)]
            return outputs[0] if len(outputs) == 1 else outputs

        calls = {name: ours(op) for name, op in self._ops().items()}
        chosen = self._chosen(device, self._ops()["ours"])
        calls |= {name: variant(changes) for name, changes in self._variants(chosen).items()}
        return {**calls, BASELINE: theirs}


def cells() -> list[Cell]:
    """Each shape and kind; then lists of 64 problems whose rows are log-uniform in 1 ... 4096."""
    chained = [Cell("chained", *kind, (shape,)) for shape in SHAPES for kind in KINDS]
    generator = torch.Generator().manual_seed(0)
    logarithms = torch.rand(64, generator=generator, dtype=torch.float64)
    lengths = (4096.0**logarithms).round().long().tolist()
    problems = tuple((m, 64, 64, 64) for m in lengths)
    return chained + [Cell("grouped", *kind, problems) for kind in KINDS[:2]]
