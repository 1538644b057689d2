/// @file
/// Chained product whose intermediate goes through shared memory.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_config.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_first_product.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_schedule.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/threadblock/smem_operand_writer.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "cutlass_ext/transform/threadblock/residual_last_iterator.h"

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// Shapes of ChainedGemmSharedKernel.
///
/// \tparam Arithmetic_  TensorOp16, TensorOpTf32, TensorOpTf32x3 or SimtFloat
/// \tparam ElementOutput_  of output and source
/// \tparam kN1_         columns of an output tile: 64 or 128
/// \tparam kAnyN0_      whether the intermediate may have more than 64 columns: it is computed
/// chunk
///                      by chunk then, a again for each
/// \tparam kAlignment_  elements that rows of all matrices are aligned to: 16 bytes' worth at most;
///                      at least 4 bytes' worth
/// \tparam Activation_  concept of epilogue::thread::SelectedActivation
template <class Arithmetic_, class ElementOutput_, int kN1_, bool kAnyN0_, int kAlignment_,
          class Activation_ = epilogue::thread::SelectedActivation>
struct ChainedGemmSharedConfig {
  using Arithmetic = Arithmetic_;
  using Element = typename Arithmetic::Element;
  using ElementOutput = ElementOutput_;
  using Activation = Activation_;
  static constexpr int kRows = 128;
  /// Columns of the intermediate at a time.
  static constexpr int kN0 = 64;
  static constexpr int kN1 = kN1_;
  static constexpr bool kAnyN0 = kAnyN0_;
  static constexpr int kAlignment = kAlignment_;
  /// Whether the next step's first loads are requested before this one is stored, not after.
  static constexpr bool kEarlyPrologue = true;
  static constexpr int kStep = Arithmetic::kStep;
  /// Blocks a multiprocessor: what registers and shared memory allow.
  static constexpr bool kThreeProducts =
      cutlass::platform::is_same<Arithmetic, TensorOpTf32x3>::value;
  static constexpr int kMinBlocks = kN1 == 64 && !kThreeProducts ? 2 : 1;

  /// SIMT warps of 32 x 64 give each thread 8 x 8 products a step; tensor cores reuse less, and
  /// twice as many warps hide more.
  static constexpr bool kSimt = detail::kIsSimt<Arithmetic>;
  static constexpr int kWarpN0 = kSimt ? 64 : 32;
  static constexpr int kWarpN1 = kSimt ? kN1 : kN1 / 2;

  using FirstProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kN0, kStep>,
                                 cutlass::gemm::GemmShape<32, kWarpN0, kStep>, kAlignment, 4>;
  /// All k tiles of the intermediate lie in the stages; a multistage Mma has three at least.
  static constexpr int kSecondStages = kN0 / kStep < 3 ? 3 : kN0 / kStep;
  using SecondProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kN1, kStep>,
                                 cutlass::gemm::GemmShape<32, kWarpN1, kStep>, kAlignment,
                                 kSecondStages>;
  using OutputOp = ChainedGemmOutputOp<Arithmetic, ElementOutput, kAlignment>;
};

/// output = alpha * (f(a b0 + bias0) b1) + beta * source, by persistent blocks.
///
/// For arithmetic whose accumulators do not lie as the next operand has to (SIMT, TF32), any shape
/// of warps, and any number of columns of the intermediate: it is computed chunk by chunk, a again
/// for each. Both products are threadblock-level Mmas, staged: b1's first tiles are requested
/// before the first product begins, the next tile's first loads before this one is stored.
///
/// \tparam Config_  ChainedGemmSharedConfig
template <class Config_>
class ChainedGemmSharedKernel {
 public:
  using Config = Config_;
  using Element = typename Config::Element;
  using ElementOutput = typename Config::ElementOutput;
  using Activation = typename Config::Activation;
  using Params = ChainedGemmKernelParams<Activation>;
  using Schedule = ChainedGemmSchedule<Config::kRows, Config::kN0, Config::kN1, Config::kAnyN0>;
  static constexpr int kMinBlocks = Config::kMinBlocks;
  static constexpr int kAlignment = Config::kAlignment;
  static constexpr int kOutputAlignment = Config::OutputOp::kCount;
  static constexpr int kMaxN0 = Config::kAnyN0 ? 0 : Config::kN0;
  static constexpr int kMaxK0 = 0;

 private:
  using FirstStock = typename Config::FirstProduct::Mma;
  using FirstMma = threadblock::StagedMma<FirstStock>;
  /// b1 is visited from its first row on, partial k tile last: as the intermediate lies.
  using IteratorB1 =
      transform::threadblock::ResidualLast<typename Config::SecondProduct::Mma::IteratorB>;
  using SecondStock = threadblock::WithIteratorB<typename Config::SecondProduct::Mma, IteratorB1>;
  using ResidentIntermediate =
      threadblock::ResidentOperand<SecondStock, cutlass::gemm::Operand::kA>;
  using SecondMma = threadblock::StagedMma<typename ResidentIntermediate::Mma>;
  using Map = warp::AccumulatorMap<typename FirstStock::Operator>;
  using Writer = threadblock::SmemOperandWriter<SecondStock, cutlass::gemm::Operand::kA, Map>;
  using Output = typename SecondMma::FragmentC;
  using Epilogue =
      typename detail::ChainedGemmEpilogue<typename Config::Arithmetic, typename SecondStock::Shape,
                                           typename SecondStock::Operator,
                                           typename Config::OutputOp>::Epilogue;
  using FirstWarps = typename FirstStock::Base::WarpCount;
  using SecondWarps = typename SecondStock::Base::WarpCount;

  static_assert(int(FirstWarps::kCount) == int(SecondWarps::kCount),
                "both products run on the same warps");
  static_assert(ResidentIntermediate::kExtent >= Config::kN0,
                "the intermediate does not fit in the stages of the second product");
  static_assert(!FirstMma::kNeedsBarrierAfter && !SecondMma::kNeedsBarrierAfter,
                "main loops end with a barrier");

 public:
  static constexpr int kThreads = 32 * FirstWarps::kCount;

  struct SharedStorage {
    typename FirstMma::SharedStorage first;
    typename SecondMma::SharedStorage second;
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    auto const thread = ChainedGemmThread::current();
    // Rows are the warps' fastest dimension in stock products.
    int const warp_row = thread.warp % FirstWarps::kM * FirstStock::Base::WarpGemm::kM;
    int const warp_column = thread.warp / FirstWarps::kM * FirstStock::Base::WarpGemm::kN;
    Schedule schedule(params, blockIdx.x, gridDim.x);

    Output output;
    CUTLASS_PRAGMA_NO_UNROLL
    for (Prefetched work(params, schedule, shared, thread); schedule.has_step();) {
      ChainedGemmStep const step = schedule.step();
      typename FirstMma::FragmentC intermediate;
      intermediate.clear();
      work.first.mainloop(work.first_tiles, intermediate);
      auto const problem = problem_of(params, step);
      finish_intermediate<Map, Element>(intermediate, problem, step.chunk + warp_column,
                                        thread.lane, params.activation);
      Writer(shared.second, warp_row, warp_column, thread.lane)(intermediate);
      if (!Config::kAnyN0 || step.chunk == 0) {
        output.clear();
      }
      work.second.mainloop(work.second_tiles, output);

      schedule.advance();
      if (Config::kEarlyPrologue) {
        work = Prefetched(params, schedule, shared, thread);
      }
      if (step.last) {
        store_chained_gemm_tile<Epilogue, ElementOutput>(shared.epilogue, params, problem, step.row,
                                                         step.column, output, thread.index,
                                                         thread.warp, thread.lane);
      }
      if (!Config::kEarlyPrologue) {
        work = Prefetched(params, schedule, shared, thread);
      }
    }
  }

 private:
  CUTLASS_DEVICE static ChainedGemmProblem problem_of(Params const &params,
                                                      ChainedGemmStep const &step) {
    return chained_gemm_problem<Element, ElementOutput>(params, step.problem);
  }

  /// Both products of a step, their first loads requested: those of a, that come from far, first.
  /// Nothing is requested where the schedule has no step.
  struct Prefetched {
    FirstMma first;
    SecondMma second;
    typename FirstMma::Tiles first_tiles;
    typename SecondMma::Tiles second_tiles;

    CUTLASS_DEVICE Prefetched(Params const &params, Schedule const &schedule, SharedStorage &shared,
                              ChainedGemmThread const &thread)
        : Prefetched(
              schedule.has_step() ? problem_of(params, schedule.step()) : ChainedGemmProblem(),
              schedule.step(), shared, thread) {
      if (schedule.has_step()) {
        first.prologue(first_tiles);
        second.prologue(second_tiles);
      }
    }

   private:
    template <class Iterator>
    CUTLASS_DEVICE static Iterator iterate(void const *matrix, int64_t stride, int row, int column,
                                           int rows, int columns, ChainedGemmThread const &thread) {
      auto *elements = static_cast<Element *>(const_cast<void *>(matrix));
      return Iterator(typename Iterator::Params(cutlass::layout::RowMajor(stride)),
                      elements + row * stride + column, {rows - row, columns - column},
                      thread.index);
    }

    CUTLASS_DEVICE Prefetched(ChainedGemmProblem const &problem, ChainedGemmStep const &step,
                              SharedStorage &shared, ChainedGemmThread const &thread)
        : first(shared.first, thread.index, thread.warp, thread.lane),
          second(shared.second, thread.index, thread.warp, thread.lane),
          first_tiles{
              // Visited alike, partial k tile first.
              iterate<typename FirstMma::IteratorA>(problem.a, problem.stride_a, step.row, 0,
                                                    problem.m, problem.k0, thread),
              iterate<typename FirstMma::IteratorB>(problem.b0, problem.stride_b0, 0, step.chunk,
                                                    problem.k0, problem.n0, thread),
              tiles_along(problem.k0, Config::kStep)},
          second_tiles{
              typename SecondMma::IteratorA(),
              iterate<IteratorB1>(problem.b1, problem.stride_b1, step.chunk, step.column,
                                  problem.n0, problem.n1, thread),
              tiles_along(detail::smaller(problem.n0 - step.chunk, Config::kN0), Config::kStep)} {}
  };
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
