/// @file
/// Chained product whose intermediate never leaves the registers.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_config.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_first_product.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_schedule.h"
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// Shapes of ChainedGemmRegistersKernel.
///
/// \tparam Element_     cutlass::half_t or cutlass::bfloat16_t
/// \tparam ElementOutput_  of output and source
/// \tparam kN0_         columns of the intermediate at a time: 64, or 128 where b0 is resident
/// \tparam kN1_         columns of an output tile: 64 or 128
/// \tparam kAnyN0_      whether the intermediate may have more columns: it is computed chunk by
///                      chunk then, a again for each
/// \tparam kResident_   whether b0 stays in shared memory from tile to tile: k0 up to 128 then
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
  static_assert(
      !(kResident && kAnyN0),
      "a resident b0 has all columns of the intermediate: stream it where there are more");

  /// Whether the next step's first loads are requested before activation, second product and store,
  /// not after them.
  static constexpr bool kEarlyPrologue = true;
  /// Columns of the intermediate that a warp holds in registers at once.
  static constexpr int kSection = 64;
  /// Whole lines of 128 bytes are best where a is long.
  static constexpr int kStep = kAlignment < 8 ? 32 : 64;
  static constexpr int kStages = kAlignment == 1 ? 2 : kStep == 64 ? 3 : 4;
  /// Blocks a multiprocessor: what registers and shared memory allow.
  static constexpr int kMinBlocks = kN0 == 64 && kN1 == 64 && kResident ? 3 : 2;

  using FirstProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kSection, kStep>,
                                 cutlass::gemm::GemmShape<kWarpRows, kSection, kStep>, kAlignment,
                                 kStages>;
  /// Taken for their warp-level products and for their operands' ways to shared memory.
  template <int kColumns>
  using WarpProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kColumns, 64>,
                                 cutlass::gemm::GemmShape<kWarpRows, kColumns, 64>, 8, 3>;
  using ResidentProduct = WarpProduct<kSection>;
  using SecondProduct = WarpProduct<kN1>;
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
  using Schedule = ChainedGemmSchedule<Config::kRows, Config::kN0, Config::kN1, Config::kAnyN0>;
  static constexpr int kMinBlocks = Config::kMinBlocks;
  static constexpr int kAlignment = Config::kAlignment;
  static constexpr int kOutputAlignment = Config::OutputOp::kCount;
  static constexpr int kMaxN0 = Config::kAnyN0 ? 0 : Config::kN0;

 private:
  using First =
      typename cutlass::platform::conditional<Config::kResident, ResidentFirstProduct<Config>,
                                              StreamedFirstProduct<Config>>::type;
  using Map = warp::AccumulatorMap<typename First::WarpMma>;
  using Intermediate = typename Map::Fragment;

  using SecondCore = typename Config::SecondProduct::Core;
  using SecondMma = typename SecondCore::MmaTensorOp;
  using SecondProduct = threadblock::RegisterOperandGemm<SecondMma, Config::kSection>;
  using SecondLayout = typename SecondCore::SmemLayoutB;
  using Output = typename SecondMma::FragmentC;
  using Epilogue =
      typename detail::ChainedGemmEpilogue<typename Config::Arithmetic, typename SecondCore::Shape,
                                           SecondMma, typename Config::OutputOp>::Epilogue;

 public:
  static constexpr int kThreads = First::kThreads;
  static constexpr int kMaxK0 = First::kMaxK0;
  static_assert(kThreads / 32 * Config::kWarpRows == Config::kRows, "warps divide the rows only");

  struct SharedStorage {
    typename First::SharedStorage first;
    alignas(128) Element b1[Config::kN0 * Config::kN1];
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    auto const thread = ChainedGemmThread::current();
    Schedule schedule(params, blockIdx.x, gridDim.x);
    if (!schedule.has_step()) {
      return;
    }
    First first(shared.first, thread, problem_of(params, schedule.step()), schedule.step());
    load_b1(params, schedule.step(), shared, thread);

    Output output;
    CUTLASS_PRAGMA_NO_UNROLL
    while (true) {
      ChainedGemmStep const step = schedule.step();
      auto const problem = problem_of(params, step);
      if (!Config::kAnyN0 || step.chunk == 0) {
        output.clear();
      }
      typename SecondMma::IteratorB b1(
          {shared.b1, SecondLayout::packed({Config::kN0, Config::kN1})}, thread.lane);
      first.acquire();
      // Not unrolled: accumulators of two sections at once would be too many registers.
      CUTLASS_PRAGMA_NO_UNROLL
      for (int column = 0; column < Config::kN0; column += Config::kSection) {
        Intermediate intermediate;
        first.compute(intermediate, column, thread);
        if (column + Config::kSection == Config::kN0) {
          first.release();
          schedule.advance();
          if (Config::kEarlyPrologue) {
            request(first, params, schedule, step, thread);
          }
        }
        finish_intermediate<Map, Element>(intermediate, problem, step.chunk + column, thread.lane,
                                          params.activation);
        multiply(intermediate, b1, output);
      }
      if (step.last) {
        store_chained_gemm_tile<Epilogue, ElementOutput>(shared.epilogue, params, problem, step.row,
                                                         step.column, output, thread.index,
                                                         thread.warp, thread.lane);
      }
      if (!Config::kEarlyPrologue) {
        request(first, params, schedule, step, thread);
      }
      if (!schedule.has_step()) {
        break;
      }
      ChainedGemmStep const &next = schedule.step();
      if (!next.shares_b1(step)) {
        if (!step.last) {
          __syncthreads();  // an epilogue has barriers of its own after the last use of b1
        }
        load_b1(params, next, shared, thread);
      }
    }
  }

 private:
  CUTLASS_DEVICE static ChainedGemmProblem problem_of(Params const &params,
                                                      ChainedGemmStep const &step) {
    return chained_gemm_problem<Element, ElementOutput>(params, step.problem);
  }

  /// Requests the first loads of the step after `step`, if there is one.
  CUTLASS_DEVICE static void request(First &first, Params const &params, Schedule const &schedule,
                                     ChainedGemmStep const &step, ChainedGemmThread const &thread) {
    if (schedule.has_step()) {
      ChainedGemmStep const &next = schedule.step();
      first.request(problem_of(params, next), next, next.shares_b0(step), thread);
    }
  }

  /// Requests the step's part of b1, with zeros below and to the right of it.
  CUTLASS_DEVICE static void load_b1(Params const &params, ChainedGemmStep const &step,
                                     SharedStorage &shared, ChainedGemmThread const &thread) {
    using Copy = ChainedGemmOperandCopy<Element, typename SecondCore::IteratorThreadMapB,
                                        typename SecondCore::SmemIteratorB, SecondLayout,
                                        Config::kN0, Config::kN1, 0, kAlignment == 8>;
    auto const problem = problem_of(params, step);
    Copy::copy(
        shared.b1,
        static_cast<Element const *>(problem.b1) + step.chunk * problem.stride_b1 + step.column,
        problem.stride_b1, problem.n0 - step.chunk, problem.n1 - step.column, Config::kN0,
        thread.index);
  }

  /// output += intermediate b1, for the section of b1's rows that the iterator has come to. The
  /// intermediate is rounded at once: it takes half the registers then.
  CUTLASS_DEVICE static void multiply(Intermediate const &intermediate,
                                      typename SecondMma::IteratorB &b1, Output &output) {
    typename SecondProduct::FragmentA operands[SecondProduct::kSteps];
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < SecondProduct::kSteps; ++i) {
      operands[i] = SecondProduct::operand(intermediate, i);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < SecondProduct::kSteps; ++i) {
      typename SecondProduct::FragmentB fragment;
      b1.load(fragment);
      ++b1;
      SecondProduct::multiply(output, operands[i], fragment);
    }
  }
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
