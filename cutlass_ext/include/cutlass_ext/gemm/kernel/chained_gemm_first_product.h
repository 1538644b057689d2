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

/// The product by a stock Mma, k tile by k tile of both operands: any k0 and alignment. Requested
/// loads are the prologue of a StagedMma.
template <class Config, class Schedule>
class StagedFirstProduct {
 public:
  using Element = typename Config::Element;
  using Params = ChainedGemmParams;
  using Mma = threadblock::StagedMma<typename Config::StagedProduct::Mma>;
  using WarpMma = typename Mma::Mma::Operator;
  using SharedStorage = typename Mma::SharedStorage;
  static constexpr int kThreads = 32 * Mma::Mma::Base::WarpCount::kCount;

  /// Requests the first loads of the schedule's step, which exists.
  CUTLASS_DEVICE StagedFirstProduct(SharedStorage &shared, Params const &params,
                                    Schedule const &schedule, ChainedGemmThread const &thread)
      : shared_(shared),
        mma_(shared, thread.index, thread.warp, thread.lane),
        tiles_(tiles(params, schedule.step(), thread)) {
    if (Config::kEarlyPrologue) {
      mma_.prologue(tiles_);
    }
  }

  /// intermediate = a b0 for the schedule's step. When it returns, all asynchronous copies issued
  /// before it have arrived and are visible, and the next step's first loads are requested.
  CUTLASS_DEVICE void compute(typename Mma::FragmentC &intermediate, Params const &params,
                              Schedule const &schedule, ChainedGemmThread const &thread) {
    intermediate.clear();
    if (!Config::kEarlyPrologue) {
      mma_.prologue(tiles_);
    }
    if (tiles_.k <= 0) {
      cutlass::arch::cp_async_wait<0>();
    }
    mma_.mainloop(tiles_, intermediate);
    if (Mma::kNeedsBarrierAfter) {
      __syncthreads();
    }
    Schedule next = schedule;
    next.advance();
    if (next.has_step()) {
      mma_ = Mma(shared_, thread.index, thread.warp, thread.lane);
      tiles_ = tiles(params, next.step(), thread);
      if (Config::kEarlyPrologue) {
        mma_.prologue(tiles_);
      }
    }
  }

 private:
  /// Both operands are visited alike, partial k tile first.
  CUTLASS_DEVICE static typename Mma::Tiles tiles(Params const &params, ChainedGemmStep const &step,
                                                  ChainedGemmThread const &thread) {
    auto const problem =
        chained_gemm_problem<Element, typename Config::ElementOutput>(params, step.problem);
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

/// The product section by section of 64 columns of a, which come through a ring of buffers: blocks
/// request them kStages - 1 sections ahead, across tiles, so that loads never pause.
///
/// b0 stays in shared memory from tile to tile where it fits (`Config::kResidentK0` rows); else its
/// sections come through the ring beside those of a. Rows of 16-byte vectors.
template <class Config, class Schedule>
class RingFirstProduct {
 public:
  using Element = typename Config::Element;
  using Params = ChainedGemmParams;
  using Core = typename Config::RingProduct::Core;
  using WarpMma = typename Core::MmaTensorOp;
  static constexpr int kThreads = Core::kThreads;
  static constexpr int kStages = Config::kStages;
  static constexpr int kSection = Core::Shape::kK;
  static constexpr bool kResident = Config::kResidentK0 > 0;
  /// Rows of b0's buffer.
  static constexpr int kRowsB0 = kResident ? Config::kResidentK0 : kStages * kSection;

  struct SharedStorage {
    alignas(128) Element a[kStages][Config::kRows * kSection];
    alignas(128) Element b0[kRowsB0 * Config::kN0];
  };

  /// Requests the first loads of the schedule's step, which exists.
  CUTLASS_DEVICE RingFirstProduct(SharedStorage &shared, Params const &params,
                                  Schedule const &schedule, ChainedGemmThread const &thread)
      : shared_(shared), ahead_(schedule), resident_(schedule.step().problem) {
    if (kResident) {
      load_b0(params, schedule.step(), thread);
    }
    if (Config::kEarlyPrologue) {
      fill(params, thread);
    }
  }

  /// intermediate = a b0 for the schedule's step. When it returns, all asynchronous copies issued
  /// before the object was made are visible to all threads.
  CUTLASS_DEVICE void compute(typename WarpMma::FragmentC &intermediate, Params const &params,
                              Schedule const &schedule, ChainedGemmThread const &thread) {
    ChainedGemmStep const &step = schedule.step();
    intermediate.clear();
    if (kResident && step.problem != resident_) {
      __syncthreads();  // no thread reads the last problem's b0 any more
      resident_ = step.problem;
      load_b0(params, step, thread);
      cutlass::arch::cp_async_fence();
      cutlass::arch::cp_async_wait<0>();  // the loop publishes it
    }
    if (!Config::kEarlyPrologue) {
      __syncthreads();  // no thread reads a slot any more
      step_requested_ = false;
      fill(params, thread);
    }
    int const k0 = problem_of(params, step).k0;
    typename WarpMma::IteratorB iterator_b({shared_.b0, LayoutB::packed({kRowsB0, Config::kN0})},
                                           thread.lane);
    CUTLASS_PRAGMA_NO_UNROLL
    for (int k = 0; k == 0 || k < k0; k += kSection) {  // without a column one section of zeros
      cutlass::arch::cp_async_wait<kStages - 2>();
      __syncthreads();  // the section is visible, and no thread reads the one before it any more
      request(slot_ == 0 ? kStages - 1 : slot_ - 1, params, thread);
      if (!kResident) {
        iterator_b = typename WarpMma::IteratorB(
            {shared_.b0 + slot_ * kSection * Config::kN0, LayoutB::packed({kSection, Config::kN0})},
            thread.lane);
      }
      multiply(intermediate, iterator_b, thread);
      slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
    }
  }

 private:
  using LayoutA = typename Core::SmemLayoutA;
  using LayoutB = typename Core::SmemLayoutB;
  using CopyA = ChainedGemmOperandCopy<Element, typename Core::IteratorThreadMapA,
                                       typename Core::SmemIteratorA, LayoutA, Config::kRows,
                                       kSection, 1, true>;
  template <int kRows>
  using CopyB =
      ChainedGemmOperandCopy<Element, typename Core::IteratorThreadMapB,
                             typename Core::SmemIteratorB, LayoutB, kRows, Config::kN0, 0, true>;

  CUTLASS_DEVICE static ChainedGemmProblem problem_of(Params const &params,
                                                      ChainedGemmStep const &step) {
    return chained_gemm_problem<Element, typename Config::ElementOutput>(params, step.problem);
  }

  CUTLASS_DEVICE void load_b0(Params const &params, ChainedGemmStep const &step,
                              ChainedGemmThread const &thread) {
    auto const problem = problem_of(params, step);
    CopyB<kRowsB0>::copy(shared_.b0, static_cast<Element const *>(problem.b0), problem.stride_b0,
                         problem.k0, problem.n0, problem.k0 > 0 ? problem.k0 : 1, thread.index);
  }

  /// Requests as many sections as there are slots but one.
  CUTLASS_DEVICE void fill(Params const &params, ChainedGemmThread const &thread) {
    CUTLASS_PRAGMA_NO_UNROLL
    for (int i = 0; i < kStages - 1; ++i) {
      request((slot_ + i) % kStages, params, thread);
    }
  }

  /// Requests the next section. Late prologues stay within a step.
  CUTLASS_DEVICE void request(int slot, Params const &params, ChainedGemmThread const &thread) {
    if (ahead_.has_step() && (Config::kEarlyPrologue || !step_requested_)) {
      ChainedGemmStep const &step = ahead_.step();
      auto const problem = problem_of(params, step);
      int const k = section_ahead_ * kSection;
      CopyA::copy(shared_.a[slot],
                  static_cast<Element const *>(problem.a) + step.row * problem.stride_a + k,
                  problem.stride_a, problem.m - step.row, problem.k0 - k, kSection, thread.index);
      if (!kResident) {
        CopyB<kSection>::copy(
            shared_.b0 + slot * kSection * Config::kN0,
            static_cast<Element const *>(problem.b0) + k * problem.stride_b0 + step.chunk,
            problem.stride_b0, problem.k0 - k, problem.n0 - step.chunk, kSection, thread.index);
      }
      ++section_ahead_;
      if (section_ahead_ * kSection >= problem.k0) {
        section_ahead_ = 0;
        ahead_.advance();
        step_requested_ = true;
      }
    }
    cutlass::arch::cp_async_fence();
  }

  /// intermediate += a section of a times rows of b0
  CUTLASS_DEVICE void multiply(typename WarpMma::FragmentC &intermediate,
                               typename WarpMma::IteratorB &iterator_b,
                               ChainedGemmThread const &thread) {
    typename WarpMma::IteratorA iterator_a(
        {shared_.a[slot_], LayoutA::packed({Config::kRows, kSection})}, thread.lane);
    iterator_a.add_tile_offset({thread.warp, 0});
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kSection / WarpMma::InstructionShape::kK; ++i) {
      typename WarpMma::FragmentA a;
      typename WarpMma::FragmentB b;
      iterator_a.load(a);
      iterator_b.load(b);
      ++iterator_a;
      ++iterator_b;
      warp::MmaColumnOrder<WarpMma>()(intermediate, a, b);
    }
  }

  SharedStorage &shared_;
  Schedule ahead_;               ///< at the step whose section is requested next
  int section_ahead_ = 0;        ///< that section
  bool step_requested_ = false;  ///< all sections of the step that is computed next, or now
  int slot_ = 0;                 ///< of the section that is computed next
  int resident_;                 ///< the problem whose b0 is resident
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
