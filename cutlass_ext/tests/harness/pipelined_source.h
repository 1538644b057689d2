/// @file
/// PipelinedSource with stock operators, and with one that tells what reaches it.
#pragma once

#include <stdexcept>

#include "arguments.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/thread/row_agnostic.h"
#include "cutlass_ext/epilogue/threadblock/pipelined_source.h"
#include "cutlass_ext/epilogue/threadblock/row_aware_epilogue.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_epilogue.h"
#include "stock_mma.h"

namespace harness {

template <class Output, class Source, int kVector>
using LinearOp = cutlass::epilogue::thread::LinearCombination<
    Output, kVector, float, float, cutlass::epilogue::thread::ScaleType::Default,
    cutlass::FloatRoundStyle::round_to_nearest, Source>;

/// row_data[row] * source + column_data[column] * accumulator, for rows and columns that exist;
/// sets `stray` where another source than 0 comes from elsewhere.
template <class Output>
struct RowColumnAndSource {
  float const *row_data;
  float const *column_data;
  int rows;
  int columns;
  int *stray;

  template <class Source, int kCount>
  CUTLASS_DEVICE cutlass::Array<Output, kCount> operator()(
      int row, int column, cutlass::Array<float, kCount> const &accumulators,
      cutlass::Array<Source, kCount> const &source) const {
    cutlass::Array<float, kCount> result;
    for (int i = 0; i < kCount; ++i) {
      bool const exists = row < rows && column + i < columns;
      float const addend = float(Source(source[i]));
      result[i] = exists ? row_data[row] * addend + column_data[column + i] * accumulators[i] : 0.f;
      if (!exists && !(addend == 0.f)) {
        *stray = 1;
      }
    }
    return cutlass::NumericArrayConverter<Output, float, kCount>()(result);
  }
};

/// \tparam OpParams  what makes an Op
/// \tparam kDepth    of PipelinedSource; 0 calls the stock epilogue with its own source aspect
template <class Mma, class StockEpilogue, class Source, class Op, class OpParams, int kDepth>
class PipelinedSourceProbe {
 public:
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename Mma::Operator>;
  using Epilogue = cutlass_ext::epilogue::threadblock::WithOutputOp<StockEpilogue, Op>;
  using OutputIterator = typename Epilogue::OutputTileIterator;
  using SourceIterator =
      cutlass::epilogue::threadblock::PredicatedTileIterator<typename OutputIterator::ThreadMap,
                                                             Source>;
  using Output = typename OutputIterator::Element;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    float const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Source *source;
    Output *output;
    int source_ld, output_ld, rows, columns;
    OpParams op;
    int *steps;
  };
  struct SharedStorage {
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    typename Map::Fragment accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    auto const destination = iterate_output<OutputIterator>(params.output, params.output_ld,
                                                            params.rows, params.columns);
    auto const source = iterate_output<SourceIterator>(params.source, params.source_ld, params.rows,
                                                       params.columns);
    Op const op = MakeOp<Op>::make(params.op);
    Epilogue epilogue(shared.epilogue, thread, warp, lane);
    if constexpr (kDepth == 0) {
      epilogue(op, destination, accumulators, source);
    } else {
      epilogue(
          op, destination, accumulators,
          cutlass_ext::epilogue::threadblock::PipelinedSource<Epilogue, SourceIterator, kDepth>(
              source, destination));
    }
    if (thread == 0) {
      *params.steps = OutputIterator::kIterations;
    }
  }

 private:
  template <class T>
  struct MakeOp {
    CUTLASS_DEVICE static T make(OpParams const &params) { return T(params); }
  };
  template <class StockOp>
  struct MakeOp<cutlass_ext::epilogue::thread::RowAgnostic<StockOp>> {
    CUTLASS_DEVICE static cutlass_ext::epilogue::thread::RowAgnostic<StockOp> make(
        OpParams const &params) {
      return {StockOp(params)};
    }
  };
};

/// accumulators, source, output, source ld, output ld, rows, columns, steps
template <class Probe>
typename Probe::Params pipelined_source_params(Arguments &arguments) {
  typename Probe::Params params;
  params.accumulators = arguments.pointer<float const>();
  params.source = arguments.pointer<typename Probe::SourceIterator::Element>();
  params.output = arguments.pointer<typename Probe::Output>();
  params.source_ld = arguments.integer();
  params.output_ld = arguments.integer();
  params.rows = arguments.integer();
  params.columns = arguments.integer();
  params.steps = arguments.pointer<int>();
  return params;
}

template <class Mma, class StockEpilogue, class Source, int kDepth>
void run_linear(Arguments arguments, int alpha, int beta) {
  using Output = typename StockEpilogue::ElementOutput;
  using Stock = LinearOp<Output, Source, StockEpilogue::kElementsPerAccess>;
  using Agnostic = cutlass_ext::epilogue::thread::RowAgnostic<Stock>;
  using Op = cutlass::platform::conditional_t<kDepth == 0, Stock, Agnostic>;
  using Probe =
      PipelinedSourceProbe<Mma, StockEpilogue, Source, Op, typename Stock::Params, kDepth>;
  auto params = pipelined_source_params<Probe>(arguments);
  params.op = {alpha / 4.f, beta / 4.f};
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

/// depth (0: stock), alpha and beta in quarters, then pipelined_source_params
template <class Mma, class StockEpilogue, class Source>
void linear(Arguments arguments) {
  int const depth = arguments.integer();
  int const alpha = arguments.integer();
  int const beta = arguments.integer();
  if (depth == 1) {
    run_linear<Mma, StockEpilogue, Source, 1>(arguments, alpha, beta);
  } else if (depth == 2) {
    run_linear<Mma, StockEpilogue, Source, 2>(arguments, alpha, beta);
  } else if constexpr (cutlass::platform::is_same<typename StockEpilogue::ElementOutput,
                                                  Source>::value) {
    run_linear<Mma, StockEpilogue, Source, 0>(arguments, alpha, beta);
  } else {
    throw std::invalid_argument("the stock epilogue takes a source of the output's type");
  }
}

template <class Mma, class StockEpilogue, class Source, int kDepth>
void run_coordinates(Arguments arguments) {
  using Op = RowColumnAndSource<typename StockEpilogue::ElementOutput>;
  using Probe = PipelinedSourceProbe<Mma, StockEpilogue, Source, Op, Op, kDepth>;
  auto params = pipelined_source_params<Probe>(arguments);
  params.op.row_data = arguments.pointer<float const>();
  params.op.column_data = arguments.pointer<float const>();
  params.op.stray = arguments.pointer<int>();
  params.op.rows = params.rows;
  params.op.columns = params.columns;
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

/// depth, pipelined_source_params, row data, column data, stray
template <class Mma, class StockEpilogue, class Source>
void coordinates(Arguments arguments) {
  if (arguments.integer() == 1) {
    run_coordinates<Mma, StockEpilogue, Source, 1>(arguments);
  } else {
    run_coordinates<Mma, StockEpilogue, Source, 2>(arguments);
  }
}

}  // namespace harness
