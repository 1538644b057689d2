"""Chained products equal two products: every kind of instance, any extents, batches and lists."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from cutlass_ext.gemm import kernels
from cutlass_ext.gemm.kernels import ACTIVATIONS, Instance
from cutlass_ext.testing.access_log import elements_read, elements_written
from cutlass_ext.testing.device_code import Unit, schedules

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


@dataclass(frozen=True)
class KernelUnit(Unit):
    """Instances, exported as a kernel library exports them."""

    instances: tuple[tuple[str, Instance], ...] = ()

    def source(self) -> str:
        return kernels.source(dict(self.instances))


def _unit(name: str, logged: bool = False, **instances: Instance) -> KernelUnit:
    return KernelUnit(
        name, (), (), Path(__file__).parent, logged=logged, instances=tuple(instances.items())
    )


def _registers(dtype, n0, k0, n1, alignment=8, output=None) -> Instance:
    return kernels.choose(dtype, output or dtype, None, True, alignment, n0, k0, n1)


def _shared(precision, n0, n1, alignment, dtype=F32, output=None) -> Instance:
    return kernels.choose(dtype, output or dtype, precision, False, alignment, n0, 0, n1)


RESIDENT = _unit(
    "test_chained_gemm_resident",
    logged=True,
    resident=_registers(F16, 64, 64, 64),
    resident_wide=_registers(F16, 128, 128, 128),
    resident_long=_registers(BF16, 64, 576, 128),
    late=replace(_registers(F16, 64, 64, 64), late=True),
)
STREAMED = _unit(
    "test_chained_gemm_streamed",
    streamed=_registers(F16, 64, 577, 128),
    streamed_any_n0=_registers(BF16, 256, 577, 64, output=F32),
    alignment_4=_registers(BF16, 64, 64, 64, alignment=4),
    alignment_2=_registers(F16, 64, 64, 64, alignment=2, output=F32),
    alignment_1=_registers(F16, 64, 64, 64, alignment=1),
)
SHARED = _unit(
    "test_chained_gemm_shared",
    shared=_shared(None, 256, 64, 8, dtype=F16),
    ieee=_shared("ieee", 64, 64, 1),
    ieee_any_n0=_shared("ieee", 256, 128, 1),
    tf32=_shared("tf32", 64, 64, 4),
    tf32_any_n0=_shared("tf32", 256, 128, 1, output=F16),
    tf32x3=_shared("tf32x3", 64, 64, 4),
)
INSTANCES = {
    name: (unit, instance)
    for unit in (RESIDENT, STREAMED, SHARED)
    for name, instance in unit.instances
}
# Extents that cover three tiles each way, and chunks where an instance has them.
MOST_ROWS, MOST_K0, MOST_N0, MOST_N1 = 270, 150, 136, 140


@dataclass
class Problem:
    """Operands whose rows end in padding, and an output with a frame that must stay."""

    a: torch.Tensor
    b0: torch.Tensor
    b1: torch.Tensor
    bias0: torch.Tensor | None
    source: torch.Tensor | None
    output: torch.Tensor
    sizes: tuple[int, int, int, int]  # m, n0, k0, n1

    def pointers(self) -> list[int]:
        tensors = (self.a, self.b0, self.b1, self.bias0, self.source, self.output)
        return [0 if t is None else t.data_ptr() for t in tensors]

    def strides(self) -> list[int]:
        tensors = (self.a, self.b0, self.b1, self.source, self.output)
        return [0 if t is None else t.stride(-2) for t in tensors]

    def batch_strides(self) -> list[int]:
        tensors = (self.a, self.b0, self.b1, self.bias0, self.source, self.output)
        return [0 if t is None else t.stride(0) for t in tensors]


def operands(draw, harness, instance, sizes, batch=1, integers=True, framed=True) -> Problem:
    """Random operands; whatever surrounds them is NaN."""
    m, n0, k0, n1 = sizes
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    has_bias, has_source = draw(st.booleans()), draw(st.booleans())

    def values(*shape: int, high: int) -> torch.Tensor:
        if integers:
            return torch.randint(-high, high + 1, shape, generator=generator)
        return torch.randn(shape, generator=generator)

    def matrix(rows: int, columns: int, dtype: torch.dtype, high: int) -> torch.Tensor:
        # The rows' alignment is the instance's; a row and padding follow.
        padding = instance.alignment * draw(st.integers(0, 2)) if framed else 0
        whole = torch.full((batch, rows + framed, columns + padding), math.nan)
        whole[:, :rows, :columns] = values(batch, rows, columns, high=high)
        return harness.tensor(whole.to(dtype))

    output = matrix(m, n1, instance.output_dtype, 0)
    return Problem(
        matrix(m, k0, instance.dtype, 2),
        matrix(k0, n0, instance.dtype, 2),
        matrix(n0, n1, instance.dtype, 1),
        harness.tensor(values(batch, n0, high=2).to(instance.dtype)) if has_bias else None,
        matrix(m, n1, instance.output_dtype, 4) if has_source else None,
        output.fill_(7.5),
        sizes,
    )


def cut(problem: Problem) -> tuple[torch.Tensor, ...]:
    """The operands without what surrounds them, in float64 on the CPU."""
    m, n0, k0, n1 = problem.sizes
    a, b0, b1 = (
        t[:, :rows, :columns].cpu().double()
        for t, rows, columns in (
            (problem.a, m, k0),
            (problem.b0, k0, n0),
            (problem.b1, n0, n1),
        )
    )
    batch = a.shape[0]
    bias = a.new_zeros(batch, n0) if problem.bias0 is None else problem.bias0.cpu().double()
    source = (
        a.new_zeros(batch, m, n1)
        if problem.source is None
        else problem.source[:, :m, :n1].cpu().double()
    )
    return a, b0, b1, bias, source


def activate(values: torch.Tensor, activation: str) -> torch.Tensor:
    functions = {
        "identity": lambda x: x,
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
    }
    return functions[activation](values)


def reference(instance, problem, activation, alpha, beta) -> torch.Tensor:
    """In float64, with the intermediate rounded as the kernel rounds it."""
    a, b0, b1, bias, source = cut(problem)
    intermediate = activate(a @ b0 + bias[:, None], activation)
    rounded = intermediate.to(instance.dtype).double()
    return alpha * (rounded @ b1) + beta * source


def run(harness, name, problem, activation, alpha, beta, blocks, schedule=None, log=False):
    unit, _ = INSTANCES[name]
    return harness.call(
        *(unit, name, *problem.pointers(), *problem.strides(), *problem.sizes),
        *(problem.a.shape[0], *problem.batch_strides()),
        *(float(alpha), float(beta), ACTIVATIONS.index(activation), blocks),
        schedule=schedule,
        log=log,
    )


def assert_framed(problem: Problem, expected: torch.Tensor) -> None:
    """The output is `expected` to the bit, and what surrounds it is as before."""
    m, _, _, n1 = problem.sizes
    whole = torch.full(problem.output.shape, 7.5, dtype=problem.output.dtype)
    whole[:, :m, :n1] = expected.to(problem.output.dtype)
    assert torch.equal(problem.output.cpu(), whole)


@st.composite
def extents(
    draw, instance: Instance, zero: bool = True, most_rows: int = MOST_ROWS
) -> tuple[int, int, int, int]:
    """m, n0, k0, n1 that the instance takes, zeros included."""
    most_n0 = MOST_N0 if instance.any_n0 else instance.n0
    most_k0 = min(instance.k0 or MOST_K0, MOST_K0)

    def extent(most: int) -> int:
        step = instance.alignment
        return step * draw(st.integers(0 if zero else 1, most // step))

    return (
        draw(st.integers(int(not zero), most_rows)),
        extent(most_n0),
        extent(most_k0),
        extent(MOST_N1),
    )


def scalings() -> st.SearchStrategy[tuple[float, float]]:
    """alpha, beta"""
    return st.tuples(st.sampled_from((1.0, -2.0, 0.0)), st.sampled_from((1.0, 3.0)))


@given(
    data=st.data(),
    name=st.sampled_from(list(INSTANCES)),
    activation=st.sampled_from(("identity", "relu")),
    scaling=scalings(),
    blocks=st.integers(0, 4),
    schedule=schedules(),
)
def test_equal_to_two_products(harness, data, name, activation, scaling, blocks, schedule):
    """Small integers, for which every sum is exact: equal to the bit."""
    _, instance = INSTANCES[name]
    sizes = data.draw(extents(instance))
    batch = data.draw(st.integers(1, 3 if sizes[0] < 100 else 1))
    problem = operands(data.draw, harness, instance, sizes, batch)
    alpha, beta = scaling
    beta = beta if problem.source is not None else 0.0
    expected = reference(instance, problem, activation, alpha, beta)
    run(harness, name, problem, activation, alpha, beta, blocks, schedule)
    assert_framed(problem, expected)


@given(
    data=st.data(),
    name=st.sampled_from(list(INSTANCES)),
    activation=st.sampled_from(ACTIVATIONS),
    scaling=scalings(),
)
def test_close_to_two_products(harness, data, name, activation, scaling):
    """Normal operands, any activation, within a bound of rounding errors.

    With u the unit roundoff of float sums (2^-23 an addition: tensor cores may truncate), v of the
    operands as instructions see them and w of the intermediate's type:
    |d(ab)| <= (k (u + 2v)) |a||b|; activations have slopes below 1.13 and relative errors of a few
    u; the intermediate is rounded once more by w; then the same for the second product, and the
    output is rounded once.
    """
    _, instance = INSTANCES[name]
    sizes = data.draw(extents(instance, zero=False))
    problem = operands(data.draw, harness, instance, sizes, integers=False)
    alpha, beta = scaling
    beta = beta if problem.source is not None else 0.0
    run(harness, name, problem, activation, alpha, beta, blocks=0)

    m, n0, k0, n1 = sizes
    a, b0, b1, bias, source = cut(problem)
    u = 2.0**-23
    v = {"tf32": 2.0**-11, "tf32x3": 2.0**-20}.get(instance.precision, 0.0)
    w = {F16: 2.0**-11, BF16: 2.0**-8, F32: 0.0}[instance.dtype]
    exact = a @ b0 + bias[:, None]
    error = ((k0 + 2) * u + 2 * v) * (a.abs() @ b0.abs() + bias.abs()[:, None])
    intermediate = activate(exact, activation)
    error = 1.13 * error + (8 * u + w) * (intermediate.abs() + 1.13 * error) + 2.0**-25
    product = intermediate @ b1
    magnitude = (intermediate.abs() + error) @ b1.abs()
    error = error @ b1.abs() + ((n0 + 2) * u + 2 * v) * magnitude
    expected = alpha * product + beta * source
    error = abs(alpha) * error + 4 * u * (abs(alpha) * magnitude + (beta * source).abs())
    rounding = {F16: 2.0**-11, BF16: 2.0**-8, F32: u}[instance.output_dtype]
    error = error + rounding * (expected.abs() + error) + 2.0**-25
    output = problem.output.cpu().double()[:, :m, :n1]
    assert ((output - expected).abs() <= error).all()


@given(
    data=st.data(),
    name=st.sampled_from(list(INSTANCES)),
    count=st.integers(0, 5),
    blocks=st.integers(0, 4),
    schedule=schedules(),
)
def test_list_of_problems(harness, data, name, count, blocks, schedule):
    """Problems of any sizes, empty ones among them, in one launch."""
    unit, instance = INSTANCES[name]
    problems = [
        operands(data.draw, harness, instance, data.draw(extents(instance, most_rows=140)))
        for _ in range(count)
    ]
    beta = 3.0 if problems and all(p.source is not None for p in problems) else 0.0
    expected = [reference(instance, p, "relu", 2.0, beta) for p in problems]
    packed = b"".join(
        struct.pack("=6Q5q4i", *p.pointers(), *p.strides(), *p.sizes) for p in problems
    )
    listed = torch.from_numpy(np.frombuffer(bytearray(packed + b"\0"), dtype=np.uint8))
    workspace = harness.tensor(torch.zeros(len(packed) + 4 * (count + 1), dtype=torch.uint8))
    harness.call(
        *(unit, f"{name}_grouped", listed, count, workspace),
        *(2.0, beta, ACTIVATIONS.index("relu"), blocks),
        schedule=schedule,
    )
    for problem, result in zip(problems, expected, strict=True):
        assert_framed(problem, result)


@pytest.mark.parametrize("name", ["streamed", "alignment_2", "shared", "ieee", "tf32x3"])
def test_partial_tile_of_second_product_is_last(harness, name):
    """d1: the second product's k is 48, which is no multiple of its k tiles."""
    _, instance = INSTANCES[name]
    draw = _first
    problem = operands(draw, harness, instance, (200, 48, 576, 256))
    expected = reference(instance, problem, "relu", 1.0, 0.0)
    run(harness, name, problem, "relu", 1.0, 0.0, blocks=2)
    assert_framed(problem, expected)


@pytest.mark.parametrize("name", list(INSTANCES))
def test_every_k_of_the_second_product(harness, name):
    """d2: from 1 to 130, as far as the instance goes."""
    _, instance = INSTANCES[name]
    most = 130 if instance.any_n0 else instance.n0
    # On the CPU a part of them, beside the ends of tiles and chunks.
    stride = 1 if harness.device == "cuda" else 9
    every = range(instance.alignment, most + 1, instance.alignment)
    for n0 in sorted({*every[::stride], *(n for n in every if abs(n - 64) <= 2), every[-1]}):
        problem = operands(_first, harness, instance, (20, n0, 16, 16))
        expected = reference(instance, problem, "relu", 1.0, 0.0)
        run(harness, name, problem, "relu", 1.0, 0.0, blocks=0)
        assert_framed(problem, expected)


def _first(strategy):
    """Stands for `draw` where a test is not a property: one value of each kind."""
    return False if strategy is st.booleans() or "booleans" in repr(strategy) else 1


def test_reads_and_writes_once(harness):
    """The memory floor: every element of a is read once, every element of the output written once,
    and b0 and b1 once a block."""
    if harness.device != "host":
        pytest.skip("accesses are logged on the host")
    _, instance = INSTANCES["resident"]
    problem = operands(_first, harness, instance, (300, 64, 64, 64), framed=False)
    log = run(harness, "resident", problem, "relu", 1.0, 0.0, blocks=2, log=True)
    assert (elements_read(log, problem.a) == 1).all()
    assert (elements_read(log, problem.b0) == 2).all()
    assert (elements_read(log, problem.b1) == 2).all()
    assert (elements_written(log, problem.output) == 1).all()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "resident",
            {"sizes": (8, 72, 8, 8)},
            "chained GEMM: the intermediate has 72 columns and the tile 64: take an instance for "
            "any N0",
        ),
        (
            "resident",
            {"sizes": (8, 8, 72, 8)},
            "chained GEMM: k0 is 72 and a resident b0 has at most 64 rows: take an instance that "
            "streams it",
        ),
        (
            "streamed",
            {"sizes": (8, 8, 12, 8)},
            "chained GEMM: the number of columns of a is not a multiple of 8 elements: take an "
            "instance with a smaller kAlignment",
        ),
        (
            "tf32",
            {"offset": 1},
            "chained GEMM: the address of a is not a multiple of 4 elements: take an instance "
            "with a smaller kAlignment",
        ),
        ("ieee", {"beta": 1.0}, "chained GEMM: beta is not zero and there is no source"),
        ("ieee", {"sizes": (-1, 8, 8, 8)}, "chained GEMM: an extent is negative"),
        (
            "ieee",
            {"sizes": (2**40, 8, 8, 8)},
            "chained GEMM: an extent does not fit in 32 bits",
        ),
        (
            "ieee",
            {"sizes": (2**31 - 1, 8, 8, 64 * 200)},
            "chained GEMM: the output has more than 2^31 - 1 tiles: divide the problem",
        ),
    ],
)
def test_says_why_it_cannot(harness, name, change, message):
    _, instance = INSTANCES[name]
    problem = operands(_first, harness, instance, (8, 8, 8, 8), framed=False)
    problem.sizes = change.get("sizes", problem.sizes)
    if "offset" in change:
        problem.a = problem.a.flatten()[change["offset"] :].as_strided((1, 7, 8), (64, 8, 1))
    with pytest.raises(RuntimeError) as error:
        run(harness, name, problem, "relu", 1.0, change.get("beta", 0.0), blocks=0)
    assert str(error.value) == message
