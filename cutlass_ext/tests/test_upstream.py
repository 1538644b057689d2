"""The patches of docs/upstream apply to stock CUTLASS, compile, and mend or shorten what they say.

Each patch has a unit: for a fault, one that shows it in the stock headers too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
from pathlib import Path

import pytest
import torch

from cutlass_ext import host, jit
from cutlass_ext.jit import cache, toolchain
from cutlass_ext.jit import spec as jit_spec
from cutlass_ext.jit.build import ensure
from cutlass_ext.testing import patches
from cutlass_ext.testing.access_log import elements_read
from cutlass_ext.testing.device_code import Unit

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream"
HARNESS = Path(__file__).parent / "harness"
PATCHES = {path.stem: path.read_text() for path in sorted(UPSTREAM.glob("*.patch"))}

_SM80 = "Sm80Mma<half_t, GemmShape<{}>, GemmShape<{}>, GemmShape<16, 8, 16>, Row, Row, {}>"
_COLUMN = _SM80.replace("Row, Row", "Row, Column")
_TILE = _SM80.format("64, 64, 32", "16, 64, 32", 3)
_WARP = f"{_SM80.format('64, 64, 32', '32, 64, 32', 3)}::Operator"


def _unit(header: str, functions: dict[str, str]) -> Unit:
    return Unit(
        name=f"upstream_{header}",
        headers=(f"upstream/{header}.h",),
        functions=tuple(functions.items()),
        directory=HARNESS,
    )


UNITS = {
    "01-tile-offset-in-bytes": _unit(
        "tile_offset",
        {
            "f16_along_contiguous": "tile_offset<cutlass::half_t, 0>",
            "f16_along_strided": "tile_offset<cutlass::half_t, 1>",
        },
    ),
    "02-multistage-without-k": _unit(
        "multistage_without_k",
        {
            "stages_3": f"multistage<{_TILE}>",
            "stages_4": f"multistage<{_SM80.format('64, 64, 32', '32, 32, 32', 4)}>",
        },
    ),
    "03-accumulator-coordinates": _unit(
        "accumulator_coordinates",
        {
            "f16": f"accumulator_coordinates<{_WARP}>",
            "narrow": f"accumulator_coordinates<{_TILE}::Operator>",
            "sm75": "accumulator_coordinates<Sm75Mma<GemmShape<64, 64, 32>, "
            "GemmShape<32, 32, 32>, Row, Column>::Operator>",
        },
    ),
    "04-visit-order": _unit(
        "visit_order",
        {"columns": f"visit_order<{_WARP}, true>", "rows": f"visit_order<{_WARP}, false>"},
    ),
    "05-source-aspect-follows-destination": _unit(
        "following_aspect",
        {
            "f16": f"following_aspect<{_TILE}, half_t, TensorOpEpilogue<{_TILE}, half_t, 8>>",
            "f32": f"following_aspect<{_TILE}, float, TensorOpEpilogue<{_TILE}, float, 4>>",
        },
    ),
    "06-mixed-iterator-wide-warps": _unit(
        "stock_epilogue",
        {
            f"columns_{n}": f"stock_epilogue<{_COLUMN.format(f'64, {n}, 32', f'16, {n}, 32', 3)}, "
            "half_t, 8>"
            for n in (32, 64, 128)
        },
    ),
    "07-thread-map-covers-tile": _unit(
        "stock_epilogue",
        {
            f"columns_{n}": f"stock_epilogue<Tf32Mma<GemmShape<64, {n}, 16>, "
            f"GemmShape<16, {n}, 16>, Row, Row, 3>, float, 4>"
            for n in (64, 96)
        },
    ),
}
FAULTS = ("01", "02", "06", "07")

# The patches name files from the root of CUTLASS's repository; what is installed is its include/.
_apply = functools.partial(patches.apply, strip=2)


def _stock() -> Path:
    return toolchain.find_cutlass()


@functools.cache
def _patched_headers(name: str, translated: bool) -> Path:
    """Folder of the headers that a patch changes, as host execution or nvcc compiles them.

    It keeps its path as long as its content, and with it what was compiled from it.
    """
    texts = _apply(PATCHES[name], _stock())
    if translated:
        texts = {path: host.translate(text) for path, text in texts.items()}
    key = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    folder = cache.root() / "upstream" / f"{name}-{key}"
    for path, text in texts.items():
        header = folder / path
        if header.exists():
            continue
        header.parent.mkdir(parents=True, exist_ok=True)
        temporary = header.with_name(f"{header.name}.{os.getpid()}")
        temporary.write_text(text)
        os.replace(temporary, header)
    return folder


def _compiled(name: str, patched: bool, mode: str) -> jit_spec.Unit:
    """The unit of a patch, against stock headers or with the patched ones before them."""
    unit = jit_spec.unit(UNITS[name].spec("host", mode))
    if not patched:
        return unit
    compiler, *flags = unit.compile
    include = f"-I{_patched_headers(name, translated=True)}"
    return dataclasses.replace(unit, compile=(compiler, include, *flags))


@pytest.fixture(scope="module")
def run(device, mode):
    """Runs a function of a patch's unit: run(name, function, arguments, patched, log)."""
    if device != "host":
        pytest.skip("changes to headers are tried on the host")
    if mode != "plain":
        pytest.skip("the same in every mode: units have modes of their own")
    names = [(name, True) for name in UNITS] + [(n, False) for n in UNITS if n[:2] in FAULTS]
    plain = [_compiled(name, patched, "plain") for name, patched in names]
    logged = "02-multistage-without-k"
    instrumented = [_compiled(logged, patched, "instrumented") for patched in (False, True)]
    # All at once; the test that needs one reports what is wrong with it.
    with contextlib.suppress(jit.BuildError):
        ensure([*plain, *instrumented])
    libraries = {}

    def call(name, function, arguments, patched, log=False):
        key = (name, patched, log)
        if key not in libraries:
            unit = _compiled(name, patched, "instrumented" if log else "plain")
            libraries[key] = jit.module().Library(str(ensure([unit])[0]))
        words = [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in arguments]
        with host.options(order="random", seed=1, poison=0xFF, cp_async="deferred", log=log) as run:
            libraries[key].call(function, words)
        return run.log if log else None

    return call


def test_each_patch_has_a_unit_and_a_section():
    assert list(PATCHES) == list(UNITS)
    readme = (UPSTREAM / "README.md").read_text()
    assert all(f"`{name}.patch`" in readme for name in PATCHES)


@pytest.mark.parametrize("name", PATCHES)
def test_applies_without_context(name):
    """To the installed headers; each changes something in every file that it names."""
    patch = PATCHES[name]
    assert not [line for line in patch.splitlines() if line.startswith(" ")], "a context line"
    texts = _apply(patch, _stock())
    for path, text in texts.items():
        assert text != (_stock() / path).read_text()


def test_a_patch_that_does_not_fit(tmp_path):
    (tmp_path / "file").write_text("one\ntwo\nthree\n")
    header = "--- a/file\n+++ b/file\n"
    patch = header + "@@ -1,0 +2 @@\n+new\n@@ -2 +3 @@\n-two\n+zwei\n"
    assert patches.apply(patch, tmp_path) == {"file": "one\nnew\nzwei\nthree\n"}
    for hunk in ("@@ -2 +2 @@\n-three\n+drei\n", "@@ -2 +2,2 @@\n-two\n+zwei\n"):
        with pytest.raises(patches.PatchError):
            patches.apply(header + hunk, tmp_path)


def test_all_together():
    """No two patches change the same header: they apply in any order."""
    paths = [path for patch in PATCHES.values() for path in patches.touched(patch)]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("function", ["f16_along_contiguous", "f16_along_strided"])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("ld", [64, 72])
def test_step_across(run, function, before, ld):
    """Stock: an element counts as a byte once the residue is visited, a line as an element."""

    def offsets(patched):
        data = torch.zeros(64, ld, dtype=torch.float16)
        result = torch.zeros(2, 32, dtype=torch.int64)
        run("01-tile-offset-in-bytes", function, [data, ld, before, result], patched)
        return result

    moved, fresh = offsets(patched=True)
    assert torch.equal(moved, fresh)
    moved, fresh = offsets(patched=False)
    right_by_luck = function == "f16_along_strided" and before == 0
    assert torch.equal(moved, fresh) == right_by_luck


def _multistage(run, function, k, patched, log=False):
    # Room for four tiles more than there are: what is read without a mask is still ours.
    a = torch.ones(64, k + 128, dtype=torch.float16)
    b = torch.ones(k + 128, 64, dtype=torch.float16)
    accumulators = torch.full((64, 64), 5.0)
    arguments = [a, b, a.shape[1], k, accumulators]
    taken = run("02-multistage-without-k", function, arguments, patched, log)
    assert torch.equal(accumulators, torch.full((64, 64), 5.0 + k))
    return int(elements_read(taken, a).sum() + elements_read(taken, b).sum()) if log else None


@pytest.mark.parametrize("function", ["stages_3", "stages_4"])
def test_no_k_reads_nothing(run, function):
    """Stock: the second stage's copies are neither masked nor in range."""
    assert _multistage(run, function, 0, patched=False, log=True) > 0
    assert _multistage(run, function, 0, patched=True, log=True) == 0


@pytest.mark.parametrize("function", ["stages_3", "stages_4"])
@pytest.mark.parametrize("k", [8, 32, 40, 64, 96, 160])
def test_some_k_as_before(run, function, k):
    _multistage(run, function, k, patched=True)


@pytest.mark.parametrize("function", ["f16", "narrow", "sm75"])
def test_coordinates(run, function):
    counts = torch.zeros(2, dtype=torch.int32)
    run("03-accumulator-coordinates", function, [counts], patched=True)
    assert counts[0] == 0 and counts[1] >= 32 * 32


def test_visit_order(run):
    """Back and forth in each column, or in each row; 2 x 8 instructions."""
    columns, rows = torch.zeros(2, 8), torch.zeros(2, 8)
    run("04-visit-order", "columns", [columns], patched=True)
    run("04-visit-order", "rows", [rows], patched=True)
    expected = torch.arange(16.0).view(8, 2).T.clone()
    expected[:, 1::2] = expected[:, 1::2].flip(0)
    assert torch.equal(columns - columns.min(), expected)
    expected = torch.arange(16.0).view(2, 8)
    expected[1] = expected[1].flip(0)
    assert torch.equal(rows - rows.min(), expected)


@pytest.mark.parametrize(("function", "dtype"), [("f16", torch.float16), ("f32", torch.float32)])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (37, 40), (1, 8)])
def test_aspect_follows_destination(run, function, dtype, rows, columns):
    generator = torch.Generator().manual_seed(rows)
    accumulators, row, column = (
        torch.randint(-4, 5, shape, generator=generator).float()
        for shape in ((64, 64), (64,), (64,))
    )
    output = torch.full((64, 64), -77.0, dtype=dtype)
    arguments = [accumulators, output, row, column, rows, columns]
    run("05-source-aspect-follows-destination", function, arguments, patched=True)
    expected = torch.full((64, 64), -77.0, dtype=dtype)
    values = row[:, None] * accumulators + column
    expected[:rows, :columns] = values[:rows, :columns].to(dtype)
    assert torch.equal(output, expected)


def _stored(run, name, columns, dtype, patched):
    """Which elements of a tile come out as they went in; small integers are exact in f16."""
    accumulators = (torch.arange(64 * columns) % 2039).float().view(64, columns)
    output = torch.full((64, columns), -77.0, dtype=dtype)
    run(name, f"columns_{columns}", [accumulators, output], patched)
    return output.float() == accumulators


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_mixed_iterator(run, columns):
    """Stock: with warp tiles of 128 columns, one pointer is taken where each 32 have their own."""
    name = "06-mixed-iterator-wide-warps"
    assert _stored(run, name, columns, torch.float16, patched=True).all()
    assert _stored(run, name, columns, torch.float16, patched=False).all() == (columns < 128)


@pytest.mark.parametrize("columns", [64, 96])
def test_thread_map(run, columns):
    """Stock: of 96 columns the last 32 are not stored."""
    name = "07-thread-map-covers-tile"
    assert _stored(run, name, columns, torch.float32, patched=True).all()
    stored = _stored(run, name, columns, torch.float32, patched=False)
    assert stored[:, :64].all() and not stored[:, 64:].any()
