"""StagedMma: the stock result whatever runs between its stages, and when it asks for which tile."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given

from cutlass_ext.testing.access_log import elements_read, written_before
from cutlass_ext.testing.device_code import Schedule, Unit, schedules

# name: (Mma, tile m, n, k, stages, dtype, alignment, layouts of A and B by their contiguous index)
CONFIGURATIONS = {
    "simt_two_stages": (
        "SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 64, 8>, Row, Row, 2>",
        (64, 64, 8, 2, torch.float32, 1, "k", "n"),
    ),
    "simt_multistage": (
        "SimtMma<GemmShape<64, 64, 8>, GemmShape<16, 64, 8>, Row, Column, 4>",
        (64, 64, 8, 4, torch.float32, 1, "k", "k"),
    ),
    "sm80_f16_three_stages": (
        "Sm80Mma<half_t, GemmShape<128, 64, 32>, GemmShape<32, 64, 32>, GemmShape<16, 8, 16>,"
        " Row, Column, 3>",
        (128, 64, 32, 3, torch.float16, 8, "k", "k"),
    ),
    "sm80_f16_narrow": (
        "Sm80Mma<half_t, GemmShape<64, 32, 64>, GemmShape<32, 32, 64>, GemmShape<16, 8, 16>,"
        " Column, Row, 4>",
        (64, 32, 64, 4, torch.float16, 8, "m", "n"),
    ),
    "sm80_bf16_alignment_2": (
        "Sm80Mma<bfloat16_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,"
        " Row, Row, 3, cutlass::arch::OpMultiplyAdd, 2>",
        (64, 64, 32, 3, torch.bfloat16, 2, "k", "n"),
    ),
    "sm80_tf32x3": (
        "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, Column, 3>",
        (64, 64, 16, 3, torch.float32, 4, "k", "k"),
    ),
    "sm75": (
        "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, Column>",
        (64, 64, 32, 2, torch.float16, 8, "k", "k"),
    ),
    "simt_f64": (
        "SimtMma<GemmShape<64, 128, 8>, GemmShape<32, 64, 8>, Column, Row, 2, double>",
        (64, 128, 8, 2, torch.float64, 1, "m", "n"),
    ),
    "sm80_f16_narrow_n": (
        "Sm80Mma<half_t, GemmShape<128, 16, 64>, GemmShape<32, 16, 64>, GemmShape<16, 8, 16>,"
        " Row, Column, 2, cutlass::arch::OpMultiplyAdd, 4>",
        (128, 16, 64, 2, torch.float16, 4, "k", "k"),
    ),
    "sm80_tf32": (
        "Tf32Mma<GemmShape<128, 32, 16>, GemmShape<32, 32, 16>, Column, Row, 4, 1>",
        (128, 32, 16, 4, torch.float32, 1, "m", "n"),
    ),
    "sm75_alignment_2": (
        "Sm75Mma<GemmShape<64, 128, 32>, GemmShape<32, 64, 32>, Column, Row, 2>",
        (64, 128, 32, 2, torch.float16, 2, "m", "n"),
    ),
    "sm70": (
        "Sm70Mma<GemmShape<128, 128, 32>, GemmShape<64, 64, 32>, Row, Column>",
        (128, 128, 32, 2, torch.float16, 8, "k", "k"),
    ),
    "sm70_congruous": (
        "Sm70Mma<GemmShape<64, 64, 64>, GemmShape<32, 32, 64>, Column, Row, 4>",
        (64, 64, 64, 2, torch.float16, 4, "m", "n"),
    ),
    "sm70_alignment_1": (
        "Sm70Mma<GemmShape<128, 32, 32>, GemmShape<32, 32, 32>, Row, Column, 1>",
        (128, 32, 32, 2, torch.float16, 1, "k", "k"),
    ),
}


def unit(family, arch=80):
    """The configurations whose names begin with `family`; several units compile side by side."""
    return Unit(
        name=f"test_staged_mma_{family}",
        headers=("staged_mma.h",),
        functions=tuple(
            function
            for name, (mma, _) in CONFIGURATIONS.items()
            if name.split("_")[0] == family
            for function in (
                (name, f"staged_mma<{mma}>"),
                (f"{name}_residual_last", f"staged_mma<ResidualLastMma<{mma}>>"),
            )
        ),
        directory=Path(__file__).parents[2] / "harness",
        logged=True,
        arch=arch,
    )


SIMT = unit("simt")
SM80 = unit("sm80")
SM75 = unit("sm75", 75)
SM70 = unit("sm70", 70)
UNITS = {"simt": SIMT, "sm80": SM80, "sm75": SM75, "sm70": SM70}
WAYS = {"stock": 0, "staged": 1, "recycled": 2, "at_once": 3}


class Problem:
    """Operands of two products into the same accumulators; memory outside them is NaN."""

    def __init__(self, harness, configuration, m, n, k0, k1, unused, padding, seed):
        """Of each product the last `unused` tiles are left out, where it has so many."""
        self.harness = harness
        self.tile_m, self.tile_n, self.tile_k, self.stages, self.dtype, self.align = configuration[
            :6
        ]
        contiguous_a, contiguous_b = configuration[6:]
        up = self.align
        self.m = -(-m // up) * up if contiguous_a == "m" else m
        self.n = -(-n // up) * up if contiguous_b == "n" else n
        self.generator = torch.Generator().manual_seed(seed)
        self.operands, self.tiles = [], []
        for k in (k0, k1):
            k = -(-k // up) * up
            tiles = -(-k // self.tile_k)
            self.tiles.append(max(tiles - unused, 0))
            a = self.operand(self.m, k, contiguous_a == "k", padding)
            b = self.operand(k, self.n, contiguous_b == "n", padding)
            self.operands.append((a, b, k))
        self.accumulators = torch.randn(self.tile_m, self.tile_n, generator=self.generator)
        if self.dtype == torch.float64:
            self.accumulators = self.accumulators.double()
        self.marker = torch.zeros(1024, dtype=torch.int32)

    def operand(self, rows, columns, row_major, padding):
        """(tensor with NaN after each line's end, leading dimension)"""
        lines, length = (rows, columns) if row_major else (columns, rows)
        ld = length + padding * self.align
        values = torch.full((lines + 2, ld), float("nan"))
        values[:lines, :length] = torch.randn(lines, length, generator=self.generator)
        # Never without a leading dimension, where a product is empty.
        return self.harness.tensor(values.to(self.dtype)), max(ld, self.align)

    def run(self, function, way, schedule, log=False):
        unit = UNITS[function.split("_")[0]]
        accumulators = self.harness.tensor(self.accumulators)
        marker = self.harness.tensor(self.marker)
        arguments = [WAYS[way], self.m, self.n]
        for ((a, lda), (b, ldb), k), tiles in zip(self.operands, self.tiles, strict=True):
            arguments += [a, b, k, tiles, lda, ldb]
        arguments += [accumulators, marker]
        records = self.harness.call(unit, function, *arguments, schedule=schedule, log=log)
        # Elsewhere the tile holds what stock Mmas make of stale shared memory.
        return accumulators.cpu()[: self.m, : self.n], records, marker


def problem(draw, harness, configuration, most_tiles):
    tile_m, tile_n, tile_k, stages = configuration[:4]
    limit = tile_k * most_tiles * stages
    return Problem(
        harness,
        configuration,
        m=draw(st.integers(1, tile_m)),
        n=draw(st.integers(1, tile_n)),
        k0=draw(
            st.one_of(
                st.integers(0, limit), st.integers(0, most_tiles * stages).map(tile_k.__mul__)
            )
        ),
        k1=draw(st.integers(0, 2 * tile_k)),
        unused=draw(st.integers(0, 2)),
        padding=draw(st.integers(0, 2)),
        seed=draw(st.integers(0, 2**31)),
    )


def same_bits(a, b):
    bits = torch.int64 if a.dtype == torch.float64 else torch.int32
    return torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    schedule=schedules(),
    way=st.sampled_from(("staged", "recycled", "at_once")),
)
def test_equal_to_stock(harness, name, data, schedule, way):
    p = problem(data.draw, harness, CONFIGURATIONS[name][1], 1)
    stock, _, _ = p.run(name, "stock", Schedule())
    result, _, _ = p.run(name, way, schedule)
    assert not stock.isnan().any()
    assert same_bits(result, stock)


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    schedule=schedules(),
    way=st.sampled_from(("staged", "recycled")),
)
def test_residual_last_is_a_zero_padded_problem(harness, name, data, schedule, way):
    """With whole tiles of zeros appended the stock Mma visits the same tiles in the same order."""
    p = problem(data.draw, harness, CONFIGURATIONS[name][1], 1)
    result, _, _ = p.run(f"{name}_residual_last", way, schedule)
    padded = []
    for ((a, lda), (b, ldb), k), layouts in zip(
        p.operands, [CONFIGURATIONS[name][1][6:]] * 2, strict=True
    ):
        k_padded = -(-k // p.tile_k) * p.tile_k
        padded.append(
            (
                pad(harness, a, lda, p.m, k, k_padded, layouts[0] == "k", p.dtype),
                pad(harness, b, ldb, p.n, k, k_padded, layouts[1] == "k", p.dtype),
                k_padded,
            )
        )
    p.operands = padded
    stock, _, _ = p.run(name, "stock", Schedule())
    assert not stock.isnan().any()
    assert same_bits(result, stock)


def pad(harness, operand, ld, other, k, k_padded, k_contiguous, dtype):
    """The operand with zeros in k ... k_padded."""
    values = operand.cpu()
    lines, length = (other, k) if k_contiguous else (k, other)
    shape = (other, k_padded) if k_contiguous else (k_padded, other)
    ld = -(-max(shape[1], 1) // 8) * 8
    padded = torch.zeros(shape[0] + 2, ld, dtype=dtype)
    padded[:lines, :length] = values[:lines, :length]
    return harness.tensor(padded), ld


@given(
    data=st.data(),
    name=st.sampled_from(list(CONFIGURATIONS)),
    residual=st.sampled_from(("first", "last")),
    schedule=schedules(),
)
def test_tiles_are_requested_when_promised(logging_harness, name, residual, data, schedule):
    """Before the marker min(k, stages - 1) tiles of each operand, after it the rest, each once."""
    p = problem(data.draw, logging_harness, CONFIGURATIONS[name][1], 1)
    (a, _), (b, _), k = p.operands[0]
    p.tiles[1] = 0
    function = name if residual == "first" else f"{name}_residual_last"
    accumulators, log, marker = p.run(function, "staged", schedule, log=True)

    tiles = p.tiles[0]
    early_tiles = min(tiles, p.stages - 1)

    def extent(count):
        """Of the first `count` tiles along k; stock iterators visit the partial one first."""
        if residual == "last":
            return min(k, count * p.tile_k)
        return k - (-(-k // p.tile_k) - count) * p.tile_k if count else 0

    early_k, last_k = extent(early_tiles), extent(tiles)
    layouts = CONFIGURATIONS[name][1][6:]
    early = written_before(log, marker)
    for operand, other, k_contiguous in (
        (a, p.m, layouts[0] == "k"),
        (b, p.n, layouts[1] == "k"),
    ):
        for accesses, first, last in ((log[early], 0, early_k), (log[~early], early_k, last_k)):
            expected = np.zeros(operand.shape, dtype=int)
            if k_contiguous:
                expected[:other, first:last] = 1
            else:
                expected[first:last, :other] = 1
            assert (elements_read(accesses, operand) == expected).all()
    if tiles == 0:
        # Shared memory sees the probe's own work only: twice a load and two stores a thread.
        shared = log["space"] == "shared"
        assert shared.sum() == 6 * len(np.unique(log["thread"]))
        assert same_bits(accumulators, p.accumulators[: p.m, : p.n])
