/// @file
/// Stock output operators where an operator is told its row and column.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/epilogue_base.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/platform/platform.h"

namespace cutlass_ext {
namespace epilogue {
namespace thread {

namespace detail {

template <class Op, class = void>
struct SourceOf {
  using Fragment = typename Op::FragmentOutput;
};

// Operators of CUTLASS 2.x that know no type of the source of their own take the output's.
template <class Op>
struct SourceOf<Op, cutlass::platform::void_t<typename Op::FragmentSource>> {
  using Fragment = typename Op::FragmentSource;
};

}  // namespace detail

/// A stock output operator (cutlass::epilogue::thread: LinearCombination, its relatives with
/// activations, ...) as RowAwareEpilogue and PipelinedSource call it; coordinates are dropped.
///
/// A source of another type than the operator's is converted to it first, rounded to nearest: to
/// use a float source exactly, give the operator float for its ElementSource. Whether a source is
/// needed is the caller's question, as everywhere in CUTLASS: without one, call the epilogue
/// without one.
///
/// \tparam StockOp  with FragmentAccumulator, FragmentOutput and, if it differs from that,
///                  FragmentSource
template <class StockOp>
struct RowAgnostic {
  using FragmentOutput = typename StockOp::FragmentOutput;
  using FragmentAccumulator = typename StockOp::FragmentAccumulator;
  using FragmentSource = typename detail::SourceOf<StockOp>::Fragment;

  /// Whether epilogues leave their loop rolled, because the operator is large.
  static bool const kIsHeavy =
      cutlass::epilogue::threadblock::IsEpilogueFunctorHeavy<StockOp>::value;

  CUTLASS_HOST_DEVICE bool is_source_needed() const { return op.is_source_needed(); }

  CUTLASS_HOST_DEVICE FragmentOutput operator()(int, int,
                                                FragmentAccumulator const &accumulators) const {
    return op(accumulators);
  }

  template <class Source, int kCount>
  CUTLASS_HOST_DEVICE FragmentOutput
  operator()(int, int, FragmentAccumulator const &accumulators,
             cutlass::Array<Source, kCount> const &source) const {
    return op(
        accumulators,
        cutlass::NumericArrayConverter<typename FragmentSource::Element, Source, kCount>()(source));
  }

  StockOp op;
};

}  // namespace thread
}  // namespace epilogue
}  // namespace cutlass_ext
