/// @file
/// Epilogues that read and write permuted matrices: through StridedOutputIterator, and as CUTLASS
/// scatters.
#pragma once

#include <stdexcept>

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/thread/row_agnostic.h"
#include "cutlass_ext/epilogue/threadblock/pipelined_source.h"
#include "cutlass_ext/epilogue/threadblock/rebind_epilogue.h"
#include "cutlass_ext/epilogue/threadblock/strided_output_iterator.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_epilogue.h"
#include "stock_mma.h"

namespace harness {

using cutlass_ext::epilogue::threadblock::GatheredRows;
using cutlass_ext::epilogue::threadblock::StridedOutputIterator;
using cutlass_ext::epilogue::threadblock::StridedRows;
using cutlass_ext::epilogue::threadblock::TwoLevelRows;

/// Whatever a row map may need, as tests hand it over.
struct RowMapArguments {
  int const *indices;
  int rows_in_group;
  int64_t group_stride;
  int64_t row_stride;

  explicit RowMapArguments(Arguments &arguments)
      : indices(arguments.pointer<int const>()),
        rows_in_group(arguments.integer()),
        group_stride(arguments.long_integer()),
        row_stride(arguments.long_integer()) {}

  operator StridedRows() const { return {row_stride}; }
  operator GatheredRows() const { return {indices, row_stride}; }
  operator TwoLevelRows() const {
    return {cutlass::FastDivmod(rows_in_group), group_stride, row_stride};
  }
  operator Row() const { return Row(row_stride); }
};

template <class Iterator>
inline constexpr bool kScatters = false;
template <class ThreadMap, class Element>
inline constexpr bool
    kScatters<cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap, Element, true>> =
        true;

/// output = accumulators + source; the stock scatter leaves the source out, because its loads read
/// other rows than its stores write where a thread map has several groups.
///
/// \tparam Iterator  of source and destination
/// \tparam Map       what its Params are made of: a row map, or a layout for stock iterators
template <class Mma, class StockEpilogue, class Iterator, class Map, bool kStockAspect>
class PermutedProbe {
 public:
  using AccumulatorMap = cutlass_ext::gemm::warp::AccumulatorMap<typename Mma::Operator>;
  using Element = typename Iterator::Element;
  using StockOp =
      cutlass::epilogue::thread::LinearCombination<Element, Iterator::kElementsPerAccess, float,
                                                   float>;
  using Op = cutlass::platform::conditional_t<kStockAspect, StockOp,
                                              cutlass_ext::epilogue::thread::RowAgnostic<StockOp>>;
  using Epilogue = cutlass_ext::epilogue::threadblock::WithOutputOp<
      cutlass_ext::epilogue::threadblock::WithOutputTileIterator<StockEpilogue, Iterator>, Op>;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    float const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Element *source;
    Element *output;
    int rows, columns;
    typename Iterator::Params source_params, output_params;
    int const *source_indices, *output_indices;
  };
  struct SharedStorage {
    typename Epilogue::Base::SharedStorage epilogue;
  };

  static void run(Arguments &arguments) {
    Params params;
    params.accumulators = arguments.pointer<float const>();
    params.source = arguments.pointer<Element>();
    params.output = arguments.pointer<Element>();
    params.rows = arguments.integer();
    params.columns = arguments.integer();
    RowMapArguments const source(arguments), output(arguments);
    params.source_params = typename Iterator::Params(Map(source));
    params.output_params = typename Iterator::Params(Map(output));
    params.source_indices = source.indices;
    params.output_indices = output.indices;
    cutlass_ext::launch<PermutedProbe>(params, dim3(1), arguments.stream());
  }

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    typename AccumulatorMap::Fragment accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    Iterator const source(params.source_params, params.source, {params.rows, params.columns},
                          thread, {0, 0}, params.source_indices);
    Iterator const destination(params.output_params, params.output, {params.rows, params.columns},
                               thread, {0, 0}, params.output_indices);
    StockOp const op(typename StockOp::Params(1.f, 1.f));
    Epilogue epilogue(shared.epilogue, thread, warp, lane);
    if constexpr (kScatters<Iterator>) {
      epilogue(op, destination, accumulators);
    } else if constexpr (kStockAspect) {
      epilogue(op, destination, accumulators, source);
    } else {
      epilogue({op}, destination, accumulators,
               cutlass_ext::epilogue::threadblock::PipelinedSource<Epilogue, Iterator>(
                   source, destination));
    }
  }
};

/// way, accumulators, source, output, rows, columns, source's row map, output's row map
template <class Mma, class StockEpilogue>
void permuted(Arguments arguments) {
  using Element = typename StockEpilogue::ElementOutput;
  using ThreadMap = typename StockEpilogue::OutputTileIterator::ThreadMap;
  enum Way { kStock, kStockScatter, kStrided, kGathered, kTwoLevel, kTwoLevelStockAspect };
  switch (Way(arguments.integer())) {
    case kStock:
      return PermutedProbe<Mma, StockEpilogue, typename StockEpilogue::OutputTileIterator, Row,
                           true>::run(arguments);
    case kStockScatter:
      return PermutedProbe<
          Mma, StockEpilogue,
          cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap, Element, true>, Row,
          true>::run(arguments);
    case kStrided:
      return PermutedProbe<Mma, StockEpilogue,
                           StridedOutputIterator<ThreadMap, Element, StridedRows>, StridedRows,
                           false>::run(arguments);
    case kGathered:
      return PermutedProbe<Mma, StockEpilogue,
                           StridedOutputIterator<ThreadMap, Element, GatheredRows>, GatheredRows,
                           false>::run(arguments);
    case kTwoLevel:
      return PermutedProbe<Mma, StockEpilogue,
                           StridedOutputIterator<ThreadMap, Element, TwoLevelRows>, TwoLevelRows,
                           false>::run(arguments);
    case kTwoLevelStockAspect:
      return PermutedProbe<Mma, StockEpilogue,
                           StridedOutputIterator<ThreadMap, Element, TwoLevelRows>, TwoLevelRows,
                           true>::run(arguments);
  }
  throw std::invalid_argument("no such way");
}

}  // namespace harness
