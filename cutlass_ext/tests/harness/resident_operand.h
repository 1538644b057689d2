/// @file
/// ResidentOperand beside the stock Mma: one resident operand, two products with it.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "stock_mma.h"

namespace harness {

template <class Mma, Operand kOperand>
class ResidentOperandProbe {
 public:
  static constexpr bool kA = kOperand == Operand::kA;
  using Resident = cutlass_ext::gemm::threadblock::ResidentOperand<Mma, kOperand>;
  using ResidentMma = typename Resident::Mma;
  using Staged = cutlass_ext::gemm::threadblock::StagedMma<ResidentMma>;
  using IteratorA = typename Mma::IteratorA;
  using IteratorB = typename Mma::IteratorB;
  using Fragment = typename Mma::FragmentC;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    int stock;
    int m;
    int n;
    int k;
    /// Where kOperand is A: a, b, b; else b, a, a. The resident operand, and two that stream.
    void *resident;
    void *streamed[2];
    int lda;
    int ldb;
    AccumulatorOf<Mma> *accumulators;  ///< [2, Shape::kM, Shape::kN], written
    int *marker;                       ///< [kThreads], written once the operand is resident
  };
  struct SharedStorage {
    typename Staged::SharedStorage mma;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const tiles = tiles_of<Mma>(params.k);
    if (!params.stock) {
      if constexpr (kA) {
        Resident::fill(shared.mma, iterator_a<IteratorA>(params, params.resident), tiles, thread);
      } else {
        Resident::fill(shared.mma, iterator_b<IteratorB>(params, params.resident), tiles, thread);
      }
      params.marker[thread] = 1;
    }
    for (int p = 0; p < 2; ++p) {
      void *const a = kA ? params.resident : params.streamed[p];
      void *const b = kA ? params.streamed[p] : params.resident;
      Fragment accumulators;
      accumulators.clear();
      if (params.stock) {
        Mma mma(shared.mma, thread, warp, thread % 32);
        mma(tiles, accumulators, iterator_a<IteratorA>(params, a), iterator_b<IteratorB>(params, b),
            accumulators);
      } else {
        Staged mma(shared.mma, thread, warp, thread % 32);
        typename Staged::Tiles operands{iterator_a<typename ResidentMma::IteratorA>(params, a),
                                        iterator_b<typename ResidentMma::IteratorB>(params, b),
                                        tiles};
        mma(operands, accumulators);
      }
      __syncthreads();
      AccumulatorTile<Mma>::store(accumulators, params.accumulators + p * Mma::Shape::kMN);
    }
  }

 private:
  template <class Iterator>
  CUTLASS_DEVICE static Iterator iterator_a(Params const &params, void *data) {
    if constexpr (cutlass::platform::is_same<Iterator, IteratorA>::value) {
      return iterate<Iterator>(static_cast<typename Iterator::Element *>(data), params.lda,
                               params.m, params.k);
    } else {
      return Iterator();
    }
  }
  template <class Iterator>
  CUTLASS_DEVICE static Iterator iterator_b(Params const &params, void *data) {
    if constexpr (cutlass::platform::is_same<Iterator, IteratorB>::value) {
      return iterate<Iterator>(static_cast<typename Iterator::Element *>(data), params.ldb,
                               params.k, params.n);
    } else {
      return Iterator();
    }
  }
};

/// stock, m, n, k, resident, streamed 0, streamed 1, lda, ldb, accumulators, marker
template <class Mma, Operand kOperand>
void resident_operand(Arguments arguments) {
  using Probe = ResidentOperandProbe<Mma, kOperand>;
  typename Probe::Params params;
  params.stock = arguments.integer();
  params.m = arguments.integer();
  params.n = arguments.integer();
  params.k = arguments.integer();
  params.resident = arguments.pointer<void>();
  params.streamed[0] = arguments.pointer<void>();
  params.streamed[1] = arguments.pointer<void>();
  params.lda = arguments.integer();
  params.ldb = arguments.integer();
  params.accumulators = arguments.pointer<AccumulatorOf<Mma>>();
  params.marker = arguments.pointer<int>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
