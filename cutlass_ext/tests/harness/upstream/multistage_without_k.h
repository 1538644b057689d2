/// @file
/// A stock multistage product by its public steps, for any number of tiles along k.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "stock_mma.h"

namespace harness {

template <class Mma>
class MultistageProbe {
 public:
  using Element = typename Mma::IteratorA::Element;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    Element *a;  ///< [Shape::kM, ld]
    Element *b;  ///< [ld, Shape::kN]
    int ld;
    int k;
    AccumulatorOf<Mma> *accumulators;  ///< [Shape::kM, Shape::kN], read and written
  };
  struct SharedStorage {
    typename Mma::Base::SharedStorage mma;
  };

  /// StagedMma as it could be, its prologue and main loop without a case of their own for k = 0.
  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    typename Mma::FragmentC accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    auto a = iterate<typename Mma::IteratorA>(params.a, params.ld, Mma::Shape::kM, params.k);
    auto b = iterate<typename Mma::IteratorB>(params.b, Mma::Shape::kN, params.k, Mma::Shape::kN);
    int tiles = tiles_of<Mma>(params.k);
    Mma mma(shared.mma, thread, __shfl_sync(0xffffffffu, thread / 32, 0), thread % 32);
    mma.prologue(a, b, tiles);
    mma.gmem_wait();
    mma.gemm_iters(tiles, accumulators, a, b);
    AccumulatorTile<Mma>::store(accumulators, params.accumulators);
  }
};

/// a, b, ld, k, accumulators
template <class Mma>
void multistage(Arguments arguments) {
  using Probe = MultistageProbe<Mma>;
  typename Probe::Params params;
  params.a = arguments.pointer<typename Probe::Element>();
  params.b = arguments.pointer<typename Probe::Element>();
  params.ld = arguments.integer();
  params.k = arguments.integer();
  params.accumulators = arguments.pointer<AccumulatorOf<Mma>>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
