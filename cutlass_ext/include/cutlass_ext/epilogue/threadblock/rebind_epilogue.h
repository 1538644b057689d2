/// @file
/// A stock threadblock-level epilogue with one of its parts exchanged.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/epilogue.h"

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

namespace detail {

/// The template arguments of a stock epilogue.
template <class Epilogue>
struct EpilogueParts {
  static_assert(sizeof(Epilogue) == 0,
                "this component takes cutlass::epilogue::threadblock::Epilogue");
};

template <class Shape, class WarpMma, int kPartitionsK, class OutputTileIterator_,
          class AccumulatorFragmentIterator, class WarpTileIterator, class SharedLoadIterator,
          class OutputOp_, class Padding, int kFragmentsPerPartition, int kUnroll>
struct EpilogueParts<cutlass::epilogue::threadblock::Epilogue<
    Shape, WarpMma, kPartitionsK, OutputTileIterator_, AccumulatorFragmentIterator,
    WarpTileIterator, SharedLoadIterator, OutputOp_, Padding, kFragmentsPerPartition, kUnroll>> {
  using OutputTileIterator = OutputTileIterator_;
  using OutputOp = OutputOp_;

  // Whether to unroll is the stock default of the new operator.
  template <class Iterator, class Op>
  using Rebound = cutlass::epilogue::threadblock::Epilogue<
      Shape, WarpMma, kPartitionsK, Iterator, AccumulatorFragmentIterator, WarpTileIterator,
      SharedLoadIterator, Op, Padding, kFragmentsPerPartition>;
};

}  // namespace detail

/// A stock epilogue with another output operator. Its storage is the same type.
template <class Epilogue, class OutputOp>
using WithOutputOp = typename detail::EpilogueParts<Epilogue>::template Rebound<
    typename detail::EpilogueParts<Epilogue>::OutputTileIterator, OutputOp>;

/// A stock epilogue that writes through another output tile iterator of the same thread map.
/// Its storage is the same type.
template <class Epilogue, class OutputTileIterator>
using WithOutputTileIterator = typename detail::EpilogueParts<Epilogue>::template Rebound<
    OutputTileIterator, typename detail::EpilogueParts<Epilogue>::OutputOp>;

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
