/// @file
/// Chained product whose intermediate never leaves the registers.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_config.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_schedule.h"
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// Shapes of ChainedGemmRegistersKernel.
///
/// \tparam Element_     cutlass::half_t or cutlass::bfloat16_t
/// \tparam ElementOutput_  of output and source
/// \tparam kN0_         columns of the intermediate at a time: 64 or 128
/// \tparam kN1_         columns of an output tile: 64 or 128
/// \tparam kAnyN0_      whether the intermediate may have more columns: it is computed chunk by
///                      chunk then, a again for each
/// \tparam kResident_   whether b0 stays in shared memory from tile to tile: k0 up to kMaxK0 then
/// \tparam kAlignment_  elements that rows of all matrices are aligned to: 8, 4, 2 or 1
/// \tparam Activation_  concept of epilogue::thread::SelectedActivation
template <class Element_, class ElementOutput_, int kN0_, int kN1_, bool kAnyN0_, bool kResident_,
          int kAlignment_, class Activation_ = epilogue::thread::SelectedActivation>
struct ChainedGemmRegistersConfig {
  using Arithmetic = TensorOp16<Element_>;
  using Element = Element_;
  using ElementOutput = ElementOutput_;
  using Activation = Activation_;
  static constexpr int kRows = 128;
  static constexpr int kWarpRows = 32;
  static constexpr int kN0 = kN0_;
  static constexpr int kN1 = kN1_;
  static constexpr bool kAnyN0 = kAnyN0_;
  static constexpr bool kResident = kResident_;
  static constexpr int kAlignment = kAlignment_;
  static_assert(!kResident || kAlignment > 1,
                "b0 stays resident in the stages of a multistage Mma, which needs rows aligned to "
                "four bytes");

  /// A resident b0 needs all of k0 in the stages, and short steps waste the least of them; whole
  /// lines of 128 bytes are best where a is long.
  static constexpr int kStep = kResident || kAlignment < 8 || kN0 > 64 ? 32 : 64;
  static constexpr int kStages = kAlignment == 1 ? 2 : kStep == 64 ? 3 : 4;
  /// Blocks a multiprocessor: what registers and shared memory allow.
  static constexpr int kMinBlocks = kN0 == 64 && kN1 == 64 && !kAnyN0 ? 3 : 2;

  using FirstProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kN0, kStep>,
                                 cutlass::gemm::GemmShape<kWarpRows, kN0, kStep>, kAlignment,
                                 kStages>;
  /// Taken for its warp-level product and for its way of b1 to shared memory.
  using SecondProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kN1, 64>,
                                 cutlass::gemm::GemmShape<kWarpRows, kN1, 64>, 8, 3>;
  using OutputOp = ChainedGemmOutputOp<Arithmetic, ElementOutput, kAlignment>;
};

/// output = alpha * (f(a b0 + bias0) b1) + beta * source, by persistent blocks.
///
/// Warps divide the rows only, so a warp's accumulators of the first product are, rounded, operand
/// A of the second. b1 lies in shared memory as long as tiles share it, and so does b0 where
/// `Config::kResident`. The next tile's first loads are requested as soon as the first product is
/// done: they arrive during activation, second product and store.
///
/// \tparam Config_  ChainedGemmRegistersConfig
template <class Config_>
class ChainedGemmRegistersKernel {
 public:
  using Config = Config_;
  using Element = typename Config::Element;
  using ElementOutput = typename Config::ElementOutput;
  using Activation = typename Config::Activation;
  using Params = ChainedGemmKernelParams<Activation>;
  using Schedule =
      ChainedGemmSchedule<Config::kRows, Config::kN0, Config::kN1, Config::kAnyN0>;
  static constexpr int kMinBlocks = Config::kMinBlocks;
  static constexpr int kAlignment = Config::kAlignment;
  static constexpr int kOutputAlignment = Config::OutputOp::kCount;
  static constexpr int kMaxN0 = Config::kAnyN0 ? 0 : Config::kN0;
  static constexpr int kMaxK0 = Config::kResident ? Config::kStages * Config::kStep : 0;

 private:
  using Stock = typename Config::FirstProduct::Mma;
  using FirstWeights = threadblock::ResidentOperand<Stock, cutlass::gemm::Operand::kB>;
  using FirstMma = threadblock::StagedMma<typename cutlass::platform::conditional<
      Config::kResident, typename FirstWeights::Mma, Stock>::type>;
  using Map = warp::AccumulatorMap<typename Stock::Operator>;
  using Intermediate = typename FirstMma::FragmentC;

  using SecondCore = typename Config::SecondProduct::Core;
  using SecondMma = typename SecondCore::MmaTensorOp;
  using SecondProduct = threadblock::RegisterOperandGemm<SecondMma, Config::kN0>;
  using SecondLayout = typename SecondCore::SmemLayoutB;
  using Output = typename SecondMma::FragmentC;
  using Epilogue =
      typename detail::ChainedGemmEpilogue<typename Config::Arithmetic, typename SecondCore::Shape,
                                           SecondMma, typename Config::OutputOp>::Epilogue;

  static_assert(int(Stock::Base::WarpCount::kN) == 1, "a warp holds whole rows");

 public:
  static constexpr int kThreads = 32 * Stock::Base::WarpCount::kCount;

  struct SharedStorage {
    typename FirstMma::SharedStorage first;
    alignas(128) Element b1[Config::kN0 * Config::kN1];
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    Thread const thread{int(threadIdx.x), __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0),
                        int(threadIdx.x) % 32};
    Schedule schedule(params, blockIdx.x, gridDim.x);
    if (!schedule.has_step()) {
      return;
    }
    auto tiles = first_tiles(params, schedule.step(), thread);
    fill_b0(params, schedule.step(), shared, tiles.k, thread);
    FirstMma first(shared.first, thread.index, thread.warp, thread.lane);
    first.prologue(tiles);
    load_b1(params, schedule.step(), shared, thread);

    Output output;
    CUTLASS_PRAGMA_NO_UNROLL
    while (true) {
      if (tiles.k <= 0) {
        // The main loop below has nothing to wait for, but b1 is on its way.
        cutlass::arch::cp_async_wait<0>();
      }
      Intermediate intermediate;
      intermediate.clear();
      first.mainloop(tiles, intermediate);
      if (FirstMma::kNeedsBarrierAfter) {
        __syncthreads();
      }

      ChainedGemmStep const step = schedule.step();
      schedule.advance();
      ChainedGemmStep const &next = schedule.step();
      if (schedule.has_step()) {
        tiles = first_tiles(params, next, thread);
        if (!next.shares_b0(step)) {
          fill_b0(params, next, shared, tiles.k, thread);
        }
        // A resident operand is read from the first stage on: each pass begins there.
        first = FirstMma(shared.first, thread.index, thread.warp, thread.lane);
        first.prologue(tiles);
      }

      auto const problem = problem_of(params, step);
      finish_intermediate<Map, Element>(intermediate, problem, step.chunk, thread.lane,
                                        params.activation);
      if (!Config::kAnyN0 || step.chunk == 0) {
        output.clear();
      }
      multiply(intermediate, shared, thread.lane, output);
      if (step.last) {
        store_chained_gemm_tile<Epilogue, ElementOutput>(shared.epilogue, params, problem, step.row,
                                                         step.column, output, thread.index,
                                                         thread.warp, thread.lane);
      }
      if (!schedule.has_step()) {
        break;
      }
      if (!next.shares_b1(step)) {
        if (!step.last) {
          __syncthreads();  // an epilogue has barriers of its own after the last use of b1
        }
        load_b1(params, next, shared, thread);
      }
    }
  }

 private:
  struct Thread {
    int index;
    int warp;
    int lane;
  };

  CUTLASS_DEVICE static ChainedGemmProblem problem_of(Params const &params,
                                                      ChainedGemmStep const &step) {
    return chained_gemm_problem<Element, ElementOutput>(params, step.problem);
  }

  CUTLASS_DEVICE static typename Stock::IteratorB iterate_b0(ChainedGemmProblem const &problem,
                                                             ChainedGemmStep const &step,
                                                             Thread const &thread) {
    using Iterator = typename Stock::IteratorB;
    auto *b0 = static_cast<Element *>(const_cast<void *>(problem.b0));
    return Iterator(typename Iterator::Params(cutlass::layout::RowMajor(problem.stride_b0)),
                    b0 + step.chunk, {problem.k0, problem.n0 - step.chunk}, thread.index);
  }

  /// Both operands are visited alike, partial k tile first.
  CUTLASS_DEVICE static typename FirstMma::Tiles first_tiles(Params const &params,
                                                             ChainedGemmStep const &step,
                                                             Thread const &thread) {
    using Iterator = typename Stock::IteratorA;
    auto const problem = problem_of(params, step);
    auto *a = static_cast<Element *>(const_cast<void *>(problem.a));
    Iterator const iterator_a(
        typename Iterator::Params(cutlass::layout::RowMajor(problem.stride_a)),
        a + step.row * problem.stride_a, {problem.m - step.row, problem.k0}, thread.index);
    int const k = tiles_along(problem.k0, Config::kStep);
    if constexpr (Config::kResident) {
      return {iterator_a, typename FirstMma::IteratorB(), k};
    } else {
      return {iterator_a, iterate_b0(problem, step, thread), k};
    }
  }

  /// Copies b0 where it is resident, as part of the group that is committed next.
  CUTLASS_DEVICE static void fill_b0(Params const &params, ChainedGemmStep const &step,
                                     SharedStorage &shared, int tiles, Thread const &thread) {
    if constexpr (Config::kResident) {
      FirstWeights::fill(shared.first, iterate_b0(problem_of(params, step), step, thread), tiles,
                         thread.index);
    }
  }

  /// Copies the step's part of b1, with zeros below and to the right of it.
  CUTLASS_DEVICE static void load_b1(Params const &params, ChainedGemmStep const &step,
                                     SharedStorage &shared, Thread const &thread) {
    using Access = transform::threadblock::TileAccess;
    using ThreadMap = typename SecondCore::IteratorThreadMapB;
    using Copy = transform::threadblock::AsyncTileCopy<
        ThreadMap, Element, kAlignment == 8 ? Access::kAligned : Access::kElement>;
    auto const problem = problem_of(params, step);
    typename Copy::Params const copy_params(problem.stride_b1);
    Copy const copy(thread.index);
    auto const *source = static_cast<Element const *>(problem.b1) + step.chunk * problem.stride_b1 +
                         step.column + copy.thread_offset(copy_params);
    typename SecondCore::SmemIteratorB destination(
        {shared.b1, SecondLayout::packed({Config::kN0, Config::kN1})}, thread.index);
    CUTLASS_PRAGMA_UNROLL
    for (int row = 0; row < Config::kN0; row += ThreadMap::Shape::kStrided) {
      copy.template copy<true>(copy_params, source, problem.n0 - step.chunk - row,
                               problem.n1 - step.column, destination);
      destination.add_tile_offset({1, 0});
      source += copy_params.tile;
    }
  }

  /// output += intermediate b1. The intermediate is rounded at once: it takes half the registers
  /// then.
  CUTLASS_DEVICE static void multiply(Intermediate const &intermediate, SharedStorage &shared,
                                      int lane, Output &output) {
    typename SecondMma::IteratorB iterator(
        {shared.b1, SecondLayout::packed({Config::kN0, Config::kN1})}, lane);
    typename SecondProduct::FragmentA operands[SecondProduct::kSteps];
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < SecondProduct::kSteps; ++i) {
      operands[i] = SecondProduct::operand(intermediate, i);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < SecondProduct::kSteps; ++i) {
      typename SecondProduct::FragmentB fragment;
      iterator.load(fragment);
      ++iterator;
      SecondProduct::multiply(output, operands[i], fragment);
    }
  }
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
