/// @file
/// AsyncTileCopy: one tile to shared memory and, element by element through the layout, back.
#pragma once

#include "arguments.h"
#include "cutlass/arch/memory_sm80.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"
#include "stock_mma.h"

namespace harness {

using cutlass_ext::transform::threadblock::TileAccess;

/// Copies a tile of operand B of `Mma`; rows are those of the thread map.
template <class Mma, TileAccess kAccess>
class AsyncTileCopyProbe {
 public:
  using Element = typename Mma::IteratorB::Element;
  using ThreadMap = typename Mma::IteratorB::ThreadMap;
  using Copy = cutlass_ext::transform::threadblock::AsyncTileCopy<ThreadMap, Element, kAccess>;
  static constexpr bool kRowMajor = std::is_same<typename Mma::IteratorB::Layout, Row>::value;
  static constexpr int kTileRows = ThreadMap::Shape::kStrided;
  static constexpr int kTileColumns = ThreadMap::Shape::kContiguous;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    int partial_rows;
    int rows;
    int columns;
    Element const *source;
    Element *tile;  ///< [kTileRows, kTileColumns], written
    typename Copy::Params copy;
  };
  using SharedStorage = typename Mma::Base::SharedStorage;

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    Copy const copy(threadIdx.x);
    auto const *source = params.source + copy.thread_offset(params.copy);
    typename Mma::SmemIteratorB destination(shared.operand_B_ref(), threadIdx.x);
    if (params.partial_rows) {
      copy.template copy<true>(params.copy, source, params.rows, params.columns, destination);
    } else {
      copy.template copy<false>(params.copy, source, params.rows, params.columns, destination);
    }
    cutlass::arch::cp_async_fence();
    cutlass::arch::cp_async_wait<0>();
    __syncthreads();
    auto const ref = shared.operand_B_ref();
    for (int i = threadIdx.x; i < kTileRows * kTileColumns; i += kThreads) {
      int const row = i / kTileColumns, column = i % kTileColumns;
      params.tile[i] =
          ref.at(kRowMajor ? cutlass::MatrixCoord(row, column) : cutlass::MatrixCoord(column, row));
    }
  }
};

/// partial rows, rows, columns, source, stride, tile
template <class Mma, TileAccess kAccess>
void async_tile_copy(Arguments arguments) {
  using Probe = AsyncTileCopyProbe<Mma, kAccess>;
  using Element = typename Probe::Element;
  typename Probe::Params params;
  params.partial_rows = arguments.integer();
  params.rows = arguments.integer();
  params.columns = arguments.integer();
  params.source = arguments.pointer<Element>();
  params.copy = typename Probe::Copy::Params(arguments.integer());
  params.tile = arguments.pointer<Element>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
