/// @file
/// RowAwareEpilogue as it could be if source aspects received the destination iterator.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "row_aware_epilogue.h"
#include "stock_mma.h"

namespace harness {

/// Source aspect without a source; it has no state, and so no iterator of its own to move.
template <class Epilogue, class OutputOp>
struct FollowingAspect {
  using OutputTileIterator = typename Epilogue::OutputTileIterator;

  CUTLASS_DEVICE void load() {}
  CUTLASS_DEVICE void apply_output_operator(
      typename OutputTileIterator::Fragment &output, OutputOp const &op,
      typename Epilogue::SharedLoadIterator::Fragment const &accumulators,
      OutputTileIterator const &destination) {
    using ThreadMap = typename OutputTileIterator::ThreadMap;
    using Iterations = typename ThreadMap::Iterations;
    constexpr int kVectors =
        Iterations::kCluster * Iterations::kGroup * Iterations::kRow * Iterations::kColumn;
    auto *results = reinterpret_cast<typename Epilogue::OutputAccessType *>(&output);
    auto const *operands =
        reinterpret_cast<typename Epilogue::AccumulatorAccessType const *>(&accumulators);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      auto const position = destination.thread_start() + ThreadMap::iteration_offset(i);
      results[i] = op(position.row(), position.column(), operands[i]);
    }
  }
};

template <class Mma, class Output, class StockEpilogue>
class FollowingAspectProbe {
 public:
  using Accumulator = AccumulatorOf<Mma>;
  using Op = RowAndColumn<Output, Accumulator>;
  using Epilogue = cutlass_ext::epilogue::threadblock::WithOutputOp<StockEpilogue, Op>;
  using OutputIterator = typename Epilogue::OutputTileIterator;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    Accumulator const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Output *output;                   ///< likewise
    Op op;
  };
  struct SharedStorage {
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    typename Mma::FragmentC accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    Epilogue epilogue(shared.epilogue, thread, __shfl_sync(0xffffffffu, thread / 32, 0),
                      thread % 32);
    OutputIterator destination(typename OutputIterator::Params(Row(Mma::Shape::kN)), params.output,
                               {params.op.rows, params.op.columns}, thread);
    epilogue(params.op, destination, accumulators, FollowingAspect<Epilogue, Op>());
  }
};

/// accumulators, output, row data, column data, rows, columns
template <class Mma, class Output, class StockEpilogue>
void following_aspect(Arguments arguments) {
  using Probe = FollowingAspectProbe<Mma, Output, StockEpilogue>;
  typename Probe::Params params;
  params.accumulators = arguments.pointer<typename Probe::Accumulator const>();
  params.output = arguments.pointer<Output>();
  params.op.row_data = arguments.pointer<typename Probe::Accumulator const>();
  params.op.column_data = arguments.pointer<typename Probe::Accumulator const>();
  params.op.rows = arguments.integer();
  params.op.columns = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
