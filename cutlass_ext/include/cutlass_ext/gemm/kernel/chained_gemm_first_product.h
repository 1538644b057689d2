/// @file
/// The first of two chained products, into a warp's registers.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_config.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_schedule.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/gemm/warp/mma_column_order.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// Who a thread of a block is.
struct ChainedGemmThread {
  int index;
  int warp;
  int lane;

  CUTLASS_DEVICE static ChainedGemmThread current() {
    int const index = threadIdx.x;
    return {index, __shfl_sync(0xffffffffu, index / 32, 0), index % 32};
  }
};

/// Copies tiles of a row-major matrix to shared memory in the layout of a stock core's operand.
///
/// \tparam ThreadMap, SmemIterator, Layout  of that operand in the core
/// \tparam kRows, kColumns  of the buffer: multiples of the core's tile
/// \tparam kAdvanceRank     0: tiles lie one below the other; 1: side by side
template <class Element, class ThreadMap, class SmemIterator, class Layout, int kRows, int kColumns,
          int kAdvanceRank, bool kAligned>
struct ChainedGemmOperandCopy {
  using Access = transform::threadblock::TileAccess;
  using Copy =
      transform::threadblock::AsyncTileCopy<ThreadMap, Element,
                                            kAligned ? Access::kAligned : Access::kElement>;
  static constexpr int kTileExtent =
      kAdvanceRank == 0 ? ThreadMap::Shape::kStrided : ThreadMap::Shape::kContiguous;

  /// Copies `rows` x `columns` elements and zeros around them, as many tiles as hold `extent`
  /// elements along the advance dimension.
  CUTLASS_DEVICE static void copy(Element *buffer, Element const *source, int64_t stride, int rows,
                                  int columns, int extent, int thread) {
    typename Copy::Params const params(stride);
    Copy const copy(thread);
    source += copy.thread_offset(params);
    SmemIterator destination({buffer, Layout::packed({kRows, kColumns})}, thread);
    CUTLASS_PRAGMA_UNROLL
    for (int first = 0; first < (kAdvanceRank == 0 ? kRows : kColumns); first += kTileExtent) {
      if (first < extent) {
        bool const down = kAdvanceRank == 0;
        copy.template copy<true>(params, source, rows - (down ? first : 0),
                                 columns - (down ? 0 : first), destination);
        destination.add_tile_offset({down, !down});
        source += down ? params.tile : int64_t(kTileExtent);
      }
    }
  }
};

/// The product by a stock Mma, k tile by k tile of both operands: any k0. Requested loads are the
/// prologue of a StagedMma.
template <class Config>
class StreamedFirstProduct {
 public:
  using Element = typename Config::Element;
  using Mma = threadblock::StagedMma<typename Config::FirstProduct::Mma>;
  using WarpMma = typename Mma::Mma::Operator;
  using SharedStorage = typename Mma::SharedStorage;
  static constexpr int kThreads = 32 * Mma::Mma::Base::WarpCount::kCount;
  static constexpr int kMaxK0 = 0;

  CUTLASS_DEVICE StreamedFirstProduct(SharedStorage &shared, ChainedGemmThread const &thread,
                                      ChainedGemmProblem const &problem,
                                      ChainedGemmStep const &step)
      : shared_(shared),
        mma_(shared, thread.index, thread.warp, thread.lane),
        tiles_(tiles(problem, step, thread)) {
    mma_.prologue(tiles_);
  }

  /// Requests the first loads of a step. No thread reads shared memory any more.
  CUTLASS_DEVICE void request(ChainedGemmProblem const &problem, ChainedGemmStep const &step, bool,
                              ChainedGemmThread const &thread) {
    mma_ = Mma(shared_, thread.index, thread.warp, thread.lane);
    tiles_ = tiles(problem, step, thread);
    mma_.prologue(tiles_);
  }

  /// Comes before compute().
  CUTLASS_DEVICE void acquire() {
    if (tiles_.k <= 0) {
      // The main loop has nothing to wait for, but b1 is on its way.
      cutlass::arch::cp_async_wait<0>();
    }
  }

  /// intermediate = a b0. All asynchronous copies have arrived when it returns.
  CUTLASS_DEVICE void compute(typename Mma::FragmentC &intermediate, int,
                              ChainedGemmThread const &) {
    intermediate.clear();
    mma_.mainloop(tiles_, intermediate);
  }

  /// No thread reads shared memory any more when it returns.
  CUTLASS_DEVICE void release() {
    if (Mma::kNeedsBarrierAfter) {
      __syncthreads();
    }
  }

 private:
  /// Both operands are visited alike, partial k tile first.
  CUTLASS_DEVICE static typename Mma::Tiles tiles(ChainedGemmProblem const &problem,
                                                  ChainedGemmStep const &step,
                                                  ChainedGemmThread const &thread) {
    using IteratorA = typename Mma::IteratorA;
    using IteratorB = typename Mma::IteratorB;
    auto *a = static_cast<Element *>(const_cast<void *>(problem.a));
    auto *b0 = static_cast<Element *>(const_cast<void *>(problem.b0));
    return {IteratorA(typename IteratorA::Params(cutlass::layout::RowMajor(problem.stride_a)),
                      a + step.row * problem.stride_a, {problem.m - step.row, problem.k0},
                      thread.index),
            IteratorB(typename IteratorB::Params(cutlass::layout::RowMajor(problem.stride_b0)),
                      b0 + step.chunk, {problem.k0, problem.n0 - step.chunk}, thread.index),
            tiles_along(problem.k0, Config::kStep)};
  }

  SharedStorage &shared_;
  Mma mma_;
  typename Mma::Tiles tiles_;
};

/// The product of a whole tile of a with all of b0, which stays in shared memory from tile to tile:
/// k0 up to kMaxK0. Keeps no iterators from tile to tile, and one operand fragment at a time.
template <class Config>
class ResidentFirstProduct {
 public:
  using Element = typename Config::Element;
  using Core = typename Config::ResidentProduct::Core;
  using WarpMma = typename Core::MmaTensorOp;
  static constexpr int kThreads = Core::kThreads;
  static constexpr int kMaxK0 = 128;
  static constexpr int kSection = Config::kSection;

  struct SharedStorage {
    alignas(128) Element a[Config::kRows * kMaxK0];
    alignas(128) Element b0[kMaxK0 * Config::kN0];
  };

  CUTLASS_DEVICE ResidentFirstProduct(SharedStorage &shared, ChainedGemmThread const &thread,
                                      ChainedGemmProblem const &problem,
                                      ChainedGemmStep const &step)
      : shared_(shared) {
    request(problem, step, false, thread);
  }

  /// Requests a step's tile of a, and b0 unless it lies there. No thread reads shared memory any
  /// more.
  CUTLASS_DEVICE void request(ChainedGemmProblem const &problem, ChainedGemmStep const &step,
                              bool has_b0, ChainedGemmThread const &thread) {
    k0_ = problem.k0;
    CopyA::copy(shared_.a, static_cast<Element const *>(problem.a) + step.row * problem.stride_a,
                problem.stride_a, problem.m - step.row, k0_, k0_, thread.index);
    if (!has_b0) {
      auto const *b0 = static_cast<Element const *>(problem.b0);
      CUTLASS_PRAGMA_UNROLL
      for (int column = 0; column < Config::kN0; column += kSection) {
        CopyB::copy(shared_.b0 + column * kMaxK0, b0 + column, problem.stride_b0, k0_,
                    problem.n0 - column, k0_, thread.index);
      }
    }
  }

  /// Waits for all asynchronous copies, b1's too, and publishes them.
  CUTLASS_DEVICE void acquire() {
    cutlass::arch::cp_async_wait<0>();
    __syncthreads();
  }

  /// intermediate = a times columns `column` ... of b0
  CUTLASS_DEVICE void compute(typename WarpMma::FragmentC &intermediate, int column,
                              ChainedGemmThread const &thread) {
    intermediate.clear();
    typename WarpMma::IteratorA iterator_a({shared_.a, LayoutA::packed({Config::kRows, kMaxK0})},
                                           thread.lane);
    iterator_a.add_tile_offset({thread.warp, 0});
    typename WarpMma::IteratorB iterator_b(
        {shared_.b0 + column * kMaxK0, LayoutB::packed({kMaxK0, kSection})}, thread.lane);
    CUTLASS_PRAGMA_NO_UNROLL
    for (int k = 0; k < k0_; k += Core::Shape::kK) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Core::Shape::kK / WarpMma::InstructionShape::kK; ++i) {
        typename WarpMma::FragmentA a;
        typename WarpMma::FragmentB b;
        iterator_a.load(a);
        iterator_b.load(b);
        ++iterator_a;
        ++iterator_b;
        warp::MmaColumnOrder<WarpMma>()(intermediate, a, b);
      }
    }
  }

  /// No thread reads shared memory any more when it returns.
  CUTLASS_DEVICE void release() { __syncthreads(); }

 private:
  using LayoutA = typename Core::SmemLayoutA;
  using LayoutB = typename Core::SmemLayoutB;
  using CopyA = ChainedGemmOperandCopy<Element, typename Core::IteratorThreadMapA,
                                       typename Core::SmemIteratorA, LayoutA, Config::kRows, kMaxK0,
                                       1, Config::kAlignment == 8>;
  using CopyB = ChainedGemmOperandCopy<Element, typename Core::IteratorThreadMapB,
                                       typename Core::SmemIteratorB, LayoutB, kMaxK0, kSection, 0,
                                       Config::kAlignment == 8>;

  SharedStorage &shared_;
  int k0_;
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
