/// @file
/// StagedMma beside the stock Mma: two products into the same accumulators.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/transform/threadblock/residual_last_iterator.h"
#include "stock_mma.h"

namespace harness {

/// One product's operands.
template <class ElementA, class ElementB>
struct Product {
  ElementA *a;
  ElementB *b;
  int k;
  int tiles;  ///< along k; at most as many as k has
  int lda;
  int ldb;
};

template <class Mma>
class StagedMmaProbe {
 public:
  enum Way : int {
    kStock,     ///< Mma::operator(), a new object for each product
    kStaged,    ///< StagedMma, a new object for each product, other work after each prologue
    kRecycled,  ///< one StagedMma for both
    kAtOnce     ///< StagedMma::operator()
  };
  using Staged = cutlass_ext::gemm::threadblock::StagedMma<Mma>;
  using ElementA = typename Mma::IteratorA::Element;
  using ElementB = typename Mma::IteratorB::Element;
  using Fragment = typename Mma::FragmentC;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    int way;
    int m;
    int n;
    Product<ElementA, ElementB> product[2];
    AccumulatorOf<Mma> *accumulators;  ///< [Shape::kM, Shape::kN], read and written
    int *marker;                       ///< [kThreads], written after the first prologue
  };
  struct SharedStorage {
    typename Staged::SharedStorage mma;
    float other[kThreads];
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    Fragment accumulators;
    using Tile = AccumulatorTile<Mma>;
    Tile::load(accumulators, params.accumulators);
    Staged staged(shared.mma, thread, warp, thread % 32);
    for (int p = 0; p < 2; ++p) {
      auto const &product = params.product[p];
      typename Staged::Tiles tiles{
          iterate<typename Mma::IteratorA>(product.a, product.lda, params.m, product.k),
          iterate<typename Mma::IteratorB>(product.b, product.ldb, product.k, params.n),
          product.tiles};
      if (params.way == kStock) {
        if (tiles.k > 0) {  // the stock Mma reads without predicates otherwise
          Mma mma(shared.mma, thread, warp, thread % 32);
          mma(tiles.k, accumulators, tiles.a, tiles.b, accumulators);
        }
        __syncthreads();
        continue;
      }
      if (p > 0 && params.way == kRecycled) {
        staged.recycle();
      } else if (p > 0) {
        if (Staged::kNeedsBarrierAfter) {
          __syncthreads();
        }
        staged = Staged(shared.mma, thread, warp, thread % 32);
      }
      if (params.way == kAtOnce) {
        staged(tiles, accumulators);
        continue;
      }
      staged.prologue(tiles);
      if (p == 0) {
        params.marker[thread] = 1;
      }
      other_work(shared, thread);
      staged.mainloop(tiles, accumulators);
    }
    Tile::store(accumulators, params.accumulators);
  }

 private:
  /// Barriers, shared memory and shuffles, none of them the Mma's.
  CUTLASS_DEVICE static void other_work(SharedStorage &shared, int thread) {
    shared.other[thread] = float(thread);
    __syncthreads();
    float const other = shared.other[(thread + 1) % kThreads];
    float const sum = other + __shfl_xor_sync(0xffffffffu, other, 1);
    __syncthreads();
    shared.other[thread] = sum;
  }
};

/// way, m, n, {a, b, k, tiles, lda, ldb} of two products, accumulators, marker
template <class Mma>
void staged_mma(Arguments arguments) {
  using Probe = StagedMmaProbe<Mma>;
  typename Probe::Params params;
  params.way = arguments.integer();
  params.m = arguments.integer();
  params.n = arguments.integer();
  for (auto &product : params.product) {
    product.a = arguments.pointer<typename Probe::ElementA>();
    product.b = arguments.pointer<typename Probe::ElementB>();
    product.k = arguments.integer();
    product.tiles = arguments.integer();
    product.lda = arguments.integer();
    product.ldb = arguments.integer();
  }
  params.accumulators = arguments.pointer<AccumulatorOf<Mma>>();
  params.marker = arguments.pointer<int>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

/// An Mma whose operands' partial tiles come last.
template <class Mma>
using ResidualLastMma = cutlass_ext::gemm::threadblock::WithIteratorB<
    cutlass_ext::gemm::threadblock::WithIteratorA<
        cutlass_ext::gemm::threadblock::WithZeroFill<Mma>,
        cutlass_ext::transform::threadblock::ResidualLast<typename Mma::IteratorA>>,
    cutlass_ext::transform::threadblock::ResidualLast<typename Mma::IteratorB>>;

}  // namespace harness
