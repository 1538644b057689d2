/// @file
/// AccumulatorMap as it could be if stock iterators told their coordinates.
#pragma once

#include "arguments.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_mma.h"

namespace harness {

/// TensorOp16x8Map, with index() as its only formula.
template <class WarpMma>
struct StockCoordinates {
  using Stock = typename WarpMma::IteratorC;
  static constexpr int kTileRows = WarpMma::Shape::kM / 16;

  static constexpr int origin_row(int lane) { return Stock::row(lane, 0); }
  static constexpr int origin_column(int lane) { return Stock::column(lane, 0); }
  static constexpr int row(int r) { return Stock::row(0, index(r, 0)); }
  static constexpr int column(int c) { return Stock::column(0, index(0, c)); }
  static constexpr int index(int r, int c) {
    return (c / 2 * kTileRows + r / 2) * 4 + r % 2 * 2 + c % 2;
  }
};

/// mismatches (int32): how many elements of all lanes the two maps place differently; elements
template <class WarpMma>
void accumulator_coordinates(Arguments arguments) {
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<WarpMma>;
  using Stock = StockCoordinates<WarpMma>;
  static_assert(Stock::origin_row(31) == 7, "known at compile time");
  int *counts = arguments.pointer<int>();
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      for (int c = 0; c < Map::kColumnsPerThread; ++c) {
        auto const coord = Map::coord(lane, r, c);
        bool const same = coord.row() == Stock::origin_row(lane) + Stock::row(r) &&
                          coord.column() == Stock::origin_column(lane) + Stock::column(c);
        counts[0] += !same;
        ++counts[1];
      }
    }
  }
}

}  // namespace harness
