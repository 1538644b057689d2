/// @file
/// A tile copied through a PrefetchIterator.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/threadblock/prefetch_iterator.h"
#include "stock_epilogue.h"
#include "strided_output_iterator.h"

namespace harness {

using cutlass_ext::epilogue::threadblock::PrefetchIterator;
using cutlass_ext::epilogue::threadblock::PrefetchLevel;

/// When a PrefetchProbe prefetches.
enum class PrefetchWhen { kNever, kEachStep, kAllFirst, kBehindClearedMask };

/// \tparam StockEpilogue  gives the thread map
template <class Mma, class StockEpilogue, class Iterator, class Map>
class PrefetchProbe {
 public:
  using Element = typename Iterator::Element;
  using Destination = typename StockEpilogue::OutputTileIterator;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    PrefetchWhen when;
    Element *source;
    Element *output;  ///< [rows, columns]
    int rows, columns, offset;
    typename Iterator::Params source_params;
    int const *source_indices;
  };
  struct SharedStorage {};

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    Iterator source(params.source_params, params.source, {params.rows, params.columns}, threadIdx.x,
                    {0, 0}, params.source_indices);
    source.add_pointer_offset(params.offset);
    auto destination =
        iterate_output<Destination>(params.output, params.columns, params.rows, params.columns);
    if (params.when == PrefetchWhen::kBehindClearedMask) {
      Iterator blind = source;
      blind.clear_mask();
      blind.prefetch_all();
    }
    if (params.when == PrefetchWhen::kAllFirst) {
      source.prefetch_all();
    }
    for (int step = 0; step < Destination::kIterations; ++step) {
      if (params.when == PrefetchWhen::kEachStep) {
        source.prefetch();
      }
      typename Iterator::Fragment fragment;
      source.load(fragment);
      destination.store(fragment);
      ++source;
      ++destination;
    }
  }
};

/// when, source, output, rows, columns, source's row map, elements to add to the source's pointer
template <class Mma, class StockEpilogue, class Base, class Map, PrefetchLevel kLevel>
void prefetched(Arguments arguments) {
  using Probe = PrefetchProbe<Mma, StockEpilogue, PrefetchIterator<Base, kLevel>, Map>;
  typename Probe::Params params;
  params.when = PrefetchWhen(arguments.integer());
  params.source = arguments.pointer<typename Probe::Element>();
  params.output = arguments.pointer<typename Probe::Element>();
  params.rows = arguments.integer();
  params.columns = arguments.integer();
  RowMapArguments const rows(arguments);
  params.source_params = typename Base::Params(Map(rows));
  params.source_indices = rows.indices;
  params.offset = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

template <class StockEpilogue>
using StockIterator = typename StockEpilogue::OutputTileIterator;
template <class StockEpilogue>
using StockScatterIterator = cutlass::epilogue::threadblock::PredicatedTileIterator<
    typename StockEpilogue::OutputTileIterator::ThreadMap, typename StockEpilogue::ElementOutput,
    true>;
template <class StockEpilogue, class Map>
using StridedIterator = StridedOutputIterator<typename StockEpilogue::OutputTileIterator::ThreadMap,
                                              typename StockEpilogue::ElementOutput, Map>;

}  // namespace harness
