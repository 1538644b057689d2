/// @file
/// RowVectorStore: a threadblock's accumulators, read from memory, stored by every warp.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/warp/row_vector_store.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_mma.h"

namespace harness {

template <class Mma, class Output, int kAlignment>
class RowVectorStoreProbe {
 public:
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename Mma::Operator>;
  using Store = cutlass_ext::epilogue::warp::RowVectorStore<Map, Output, kAlignment>;
  using Tile = AccumulatorTile<Mma>;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    float const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Output *output;
    int ld;
    int rows;
    int columns;
  };
  struct SharedStorage {};

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    typename Map::Fragment accumulators;
    Tile::load(accumulators, params.accumulators);
    int const row = Tile::first_row();
    int const column = Tile::first_column();
    Store const store(params.output + row * params.ld + column, params.ld, params.rows - row,
                      params.columns - column, threadIdx.x % 32);
    store([&](int r, int c) { return accumulators[Map::index(r, c)]; });
  }
};

/// accumulators, output, ld, rows, columns
template <class Mma, class Output, int kAlignment>
void row_vector_store(Arguments arguments) {
  using Probe = RowVectorStoreProbe<Mma, Output, kAlignment>;
  typename Probe::Params params;
  params.accumulators = arguments.pointer<float const>();
  params.output = arguments.pointer<Output>();
  params.ld = arguments.integer();
  params.rows = arguments.integer();
  params.columns = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
