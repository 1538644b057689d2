/// @file
/// Faults of stock CUTLASS 4.2.0, each in a kernel of one call.
#pragma once

#include "../harness/arguments.h"
#include "../harness/stock_epilogue.h"
#include "../harness/stock_mma.h"
#include "cutlass/epilogue/threadblock/predicated_tile_iterator.h"
#include "cutlass_ext/device/launch.h"

namespace harness {

using Mma = Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>, Row,
                    Row, 3>;

/// From tile (0, 0) one tile along k, then one along the rows: how many bytes that is from where a
/// new iterator at tile (1, 1) is.
struct TileOffset {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  struct Params {
    half_t *a;  ///< [128, 64]
    int64_t *difference;
  };
  struct SharedStorage {};

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    using Iterator = Mma::IteratorA;
    Iterator::Params const layout(Row(64));
    Iterator moved(layout, params.a, {128, 64}, threadIdx.x);
    moved.add_tile_offset({0, 1});
    moved.add_tile_offset({1, 0});
    Iterator const made(layout, params.a, {128, 64}, threadIdx.x, {64, 32});
    if (threadIdx.x == 0) {
      *params.difference =
          reinterpret_cast<char *>(moved.get()) - reinterpret_cast<char *>(made.get());
    }
  }
};

/// A product of no iterations. The operands are there, so that what is read can be seen.
struct NoIterations {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  struct Params {
    half_t *a;  ///< [64, 96]
    half_t *b;  ///< [96, 64]
    float *sum;
  };
  struct SharedStorage {
    Mma::Base::SharedStorage mma;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    Mma mma(shared.mma, threadIdx.x, warp, threadIdx.x % 32);
    Mma::FragmentC accumulators;
    accumulators.clear();
    mma(0, accumulators, iterate<Mma::IteratorA>(params.a, 96, 64, 0),
        iterate<Mma::IteratorB>(params.b, 64, 0, 64), accumulators);
    float sum = 0;
    for (int i = 0; i < Mma::FragmentC::kElements; ++i) {
      sum += accumulators[i];
    }
    params.sum[threadIdx.x] = sum;
  }
};

/// Loads a tile whose rows are scattered by the identity and stores what came.
struct ScatteredLoad {
  using Simt = SimtMma<GemmShape<64, 64, 8>, GemmShape<32, 32, 8>, Row, Row, 4>;
  using ThreadMap = SimtEpilogue<Simt>::OutputTileIterator::ThreadMap;
  using Scattered = cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap, float, true>;
  using Plain = cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap, float>;
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  struct Params {
    float *source;  ///< [64, 64]
    float *copy;    ///< [64, 64]
    int *indices;   ///< [64]: 0 ... 63
  };
  struct SharedStorage {};

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    Scattered source(Scattered::Params(Row(64)), params.source, {64, 64}, threadIdx.x, {0, 0},
                     params.indices);
    Plain copy(Plain::Params(Row(64)), params.copy, {64, 64}, threadIdx.x);
    for (int i = 0; i < Plain::kIterations; ++i) {
      Plain::Fragment fragment;
      fragment.clear();
      source.load(fragment);
      copy.store(fragment);
      ++source;
      ++copy;
    }
  }
};

inline void tile_offset(Arguments arguments) {
  auto *a = arguments.pointer<half_t>();
  cutlass_ext::launch<TileOffset>({a, arguments.pointer<int64_t>()}, dim3(1), arguments.stream());
}

inline void no_iterations(Arguments arguments) {
  auto *a = arguments.pointer<half_t>();
  auto *b = arguments.pointer<half_t>();
  cutlass_ext::launch<NoIterations>({a, b, arguments.pointer<float>()}, dim3(1),
                                    arguments.stream());
}

inline void scattered_load(Arguments arguments) {
  auto *source = arguments.pointer<float>();
  auto *copy = arguments.pointer<float>();
  cutlass_ext::launch<ScatteredLoad>({source, copy, arguments.pointer<int>()}, dim3(1),
                                     arguments.stream());
}

}  // namespace harness
