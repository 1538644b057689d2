"""What a component can't do it refuses at compile time, with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_ext import jit

_PREAMBLE = """
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "pipelined_source.h"
#include "prefetch_iterator.h"
#include "residual_last_iterator.h"
#include "row_aware_epilogue.h"
#include "staged_mma.h"
using namespace harness;
using namespace cutlass_ext::gemm::threadblock;
template <class Iterator>
using ResidualLast = cutlass_ext::transform::threadblock::ResidualLast<Iterator>;
"""
_SIMT = "SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 32, 8>, Row, Row, 4>"
_TF32 = "Tf32x3Mma<GemmShape<64, {n}, 16>, GemmShape<16, {n}, 16>, Row, Row, 3>"
CASES = {
    "partial_tile_last_without_zero_fill": (
        f"using Mma = {_TF32.format(n=64)};"
        "template class StagedMma<WithIteratorB<Mma, ResidualLast<Mma::IteratorB>>>;",
        "an iterator whose partial tile comes last needs zeros where that tile ends: take "
        "WithZeroFill<Mma>",
    ),
    "thread_map_that_misses_columns": (
        f"template class cutlass_ext::epilogue::threadblock::RowAwareEpilogue<"
        f"TensorOpEpilogue<{_TF32.format(n=96)}, float, 4>, RowAndColumn<float>>;",
        "the output iterator's thread map does not cover the tile",
    ),
    "registers_with_tf32": (
        f"template class RegisterOperandGemm<{_TF32.format(n=64)}::Operator, 64>;",
        "only 16-bit instructions of 16x8x16 and 16x8x8 take accumulators as operand A",
    ),
    "registers_with_volta": (
        "template class RegisterOperandGemm<Sm70Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, "
        "Row, Column>::Operator, 64>;",
        "only 16-bit instructions of 16x8x16 and 16x8x8 take accumulators as operand A",
    ),
    "registers_with_simt": (
        "template class RegisterOperandGemm<SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 64, 8>, "
        "Row, Row, 2>::Operator, 64>;",
        "only 16-bit instructions of 16x8x16 and 16x8x8 take accumulators as operand A",
    ),
    "gathering_iterator": (
        "template class cutlass_ext::transform::threadblock::ResidualLast<"
        "cutlass::transform::threadblock::PredicatedTileIterator<"
        "cutlass::MatrixShape<16, 32>, half_t, Row, 0, StripminedMap<32, 16, 8>, 8, true>>;",
        "without gather and permutation",
    ),
    "map_of_something_else": (
        "template struct cutlass_ext::gemm::warp::AccumulatorMap<float>;",
        "AccumulatorMap knows warp-level operators of 16x8 tensor-op instructions, "
        "MmaVoltaTensorOp and MmaSimt",
    ),
    "epilogue_of_something_else": (
        "template class cutlass_ext::epilogue::threadblock::RowAwareEpilogue<float, float>;",
        "this component takes cutlass::epilogue::threadblock::Epilogue",
    ),
    "source_of_another_thread_map": (
        f"template class cutlass_ext::epilogue::threadblock::PipelinedSource<"
        f"TensorOpEpilogue<{_TF32.format(n=64)}, float, 4>, "
        f"StockIterator<SimtEpilogue<{_SIMT}>>>;",
        "source and destination need the same thread map",
    ),
    "scatter_over_several_groups": (
        f"template class PrefetchIterator<StockScatterIterator<SimtEpilogue<{_SIMT}>>>;",
        "the stock iterator loads wrong rows through indices where its thread map has several "
        "groups or clusters",
    ),
    "prefetch_of_something_else": (
        "struct Other { using Element = int; using LongIndex = int; using Params = int; "
        "using TensorCoord = int; }; "
        "template class cutlass_ext::epilogue::threadblock::detail::LoadAddresses<Other>;",
        "PrefetchIterator takes cutlass::epilogue::threadblock::PredicatedTileIterator",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sentence(name):
    code, sentence = CASES[name]
    spec = jit.KernelSpec(
        name=f"refused_{name}",
        source=_PREAMBLE + code + "\n",
        target="host",
        include_dirs=(str(Path(__file__).parent / "harness"),),
    )
    with pytest.raises(jit.BuildError) as error:
        jit.build([spec])
    assert sentence in str(error.value).replace("\n", " ")
