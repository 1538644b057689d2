/// @file
/// RowAwareEpilogue with an operator that returns where it was called.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/threadblock/row_aware_epilogue.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_epilogue.h"
#include "stock_mma.h"

namespace harness {

/// row_data[row] * accumulator + column_data[column], for rows and columns that exist.
template <class Output, class Accumulator = float>
struct RowAndColumn {
  Accumulator const *row_data;
  Accumulator const *column_data;
  int rows;
  int columns;

  template <int kCount>
  CUTLASS_DEVICE cutlass::Array<Output, kCount> operator()(
      int row, int column, cutlass::Array<Accumulator, kCount> const &accumulators) const {
    cutlass::Array<Accumulator, kCount> result;
    for (int i = 0; i < kCount; ++i) {
      bool const exists = row < rows && column + i < columns;
      result[i] = exists ? row_data[row] * accumulators[i] + column_data[column + i] : 0;
    }
    return cutlass::NumericArrayConverter<Output, Accumulator, kCount>()(result);
  }
};

template <class Mma, class Output, class StockEpilogue>
class RowAwareEpilogueProbe {
 public:
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename Mma::Operator>;
  using Accumulator = AccumulatorOf<Mma>;
  using Op = RowAndColumn<Output, Accumulator>;
  using Epilogue = cutlass_ext::epilogue::threadblock::RowAwareEpilogue<StockEpilogue, Op>;
  using OutputIterator = typename Epilogue::OutputTileIterator;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    Accumulator const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Output *output;
    int ld;
    Op op;
  };
  struct SharedStorage {
    typename Epilogue::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    typename Map::Fragment accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    Epilogue epilogue(shared.epilogue, thread, warp, lane);
    epilogue(
        params.op,
        iterate_output<OutputIterator>(params.output, params.ld, params.op.rows, params.op.columns),
        accumulators);
  }
};

/// accumulators, output, ld, row data, column data, rows, columns
template <class Mma, class Output, class StockEpilogue>
void row_aware_epilogue(Arguments arguments) {
  using Probe = RowAwareEpilogueProbe<Mma, Output, StockEpilogue>;
  typename Probe::Params params;
  params.accumulators = arguments.pointer<typename Probe::Accumulator const>();
  params.output = arguments.pointer<Output>();
  params.ld = arguments.integer();
  params.op.row_data = arguments.pointer<typename Probe::Accumulator const>();
  params.op.column_data = arguments.pointer<typename Probe::Accumulator const>();
  params.op.rows = arguments.integer();
  params.op.columns = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
