/// @file
/// Chained product whose intermediate never leaves the registers.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/cutlass.h"
#include "cutlass_ext/epilogue/warp/row_vector_store.h"
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
/// \tparam kN0_         columns of the intermediate at a time: 64 or 128
/// \tparam kN1_         columns of an output tile: 64 or 128
/// \tparam kAnyN0_      whether the intermediate may have more columns: it is computed chunk by
///                      chunk then, a again for each
/// \tparam kResidentK0_ rows of b0 that fit in shared memory, where it stays from tile to tile; 0
///                      where k0 may be anything
/// \tparam kAlignment_  elements that rows of all matrices are aligned to: 8, 4, 2 or 1
/// \tparam Activation_  concept of epilogue::thread::SelectedActivation
template <class Element_, class ElementOutput_, int kN0_, int kN1_, bool kAnyN0_, int kResidentK0_,
          int kAlignment_, class Activation_ = epilogue::thread::SelectedActivation>
struct ChainedGemmRegistersConfig {
  using Arithmetic = TensorOp16<Element_>;
  using Element = Element_;
  using ElementOutput = ElementOutput_;
  using Activation = Activation_;
  static constexpr int kN0 = kN0_;
  static constexpr int kN1 = kN1_;
  static constexpr bool kAnyN0 = kAnyN0_;
  static constexpr int kResidentK0 = kResidentK0_;
  static constexpr int kAlignment = kAlignment_;
  static_assert(
      !(kResidentK0 > 0 && kAnyN0),
      "a resident b0 has all columns of the intermediate: stream it where there are more");
  static_assert(kResidentK0 == 0 || kAlignment == 8,
                "a resident b0 is copied in vectors of 16 bytes: stream rows of other alignments");

  static constexpr int kRows = 128;
  static constexpr int kWarpRows = 32;
  /// Whether the next step's first loads are requested before activation, second product and store,
  /// not after them.
  static constexpr bool kEarlyPrologue = true;
  /// Whether operands come through the ring of RingFirstProduct: rows of whole vectors.
  static constexpr bool kRing = kAlignment == 8;
  static constexpr int kStep = 32;
  static constexpr int kStages = kRing ? (kResidentK0 > 128 ? 4 : 3) : kAlignment == 1 ? 2 : 4;
  /// Blocks a multiprocessor: what registers and shared memory allow.
  static constexpr int kMinBlocks = kResidentK0 > 128                           ? 1
                                    : kN0 == 64 && kN1 == 64 && kResidentK0 > 0 ? 3
                                                                                : 2;

  /// Both are taken for their warp-level products and for their operands' ways to shared memory.
  template <int kColumns>
  using WarpProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kColumns, 64>,
                                 cutlass::gemm::GemmShape<kWarpRows, kColumns, 64>, 8, 3>;
  using RingProduct = WarpProduct<kN0>;
  /// Columns of the output that a warp holds in registers at once.
  static constexpr int kColumns = 64;
  static_assert(kN1 % kColumns == 0, "output tiles are multiples of 64 columns");
  static_assert(!kAnyN0 || kN1 == kColumns,
                "output accumulated over chunks stays in registers: take tiles of 64 columns");
  using SecondProduct = WarpProduct<kColumns>;
  using StagedProduct =
      detail::ChainedGemmProduct<Arithmetic, cutlass::gemm::GemmShape<kRows, kN0, kStep>,
                                 cutlass::gemm::GemmShape<kWarpRows, kN0, kStep>, kAlignment,
                                 kStages>;
};

/// output = alpha * (f(a b0 + bias0) b1) + beta * source, by persistent blocks.
///
/// Warps divide the rows only, so a warp's accumulators of the first product are, rounded, operand
/// A of the second, and each warp stores its own rows. b1 lies in shared memory as long as tiles
/// share it. Loads for the tiles to come go on during activation, second product and store.
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
  static constexpr int kOutputAlignment =
      detail::smaller(kAlignment, 16 / int(sizeof(ElementOutput)));
  static constexpr int kMaxN0 = Config::kAnyN0 ? 0 : Config::kN0;
  static constexpr int kMaxK0 = Config::kResidentK0;

 private:
  using First =
      typename cutlass::platform::conditional<Config::kRing, RingFirstProduct<Config, Schedule>,
                                              StagedFirstProduct<Config, Schedule>>::type;
  using Map = warp::AccumulatorMap<typename First::WarpMma>;
  using Intermediate = typename Map::Fragment;

  using SecondCore = typename Config::SecondProduct::Core;
  using SecondMma = typename SecondCore::MmaTensorOp;
  using SecondProduct = threadblock::RegisterOperandGemm<SecondMma, Config::kN0>;
  using SecondLayout = typename SecondCore::SmemLayoutB;
  using OutputMap = warp::AccumulatorMap<SecondMma>;
  using Output = typename OutputMap::Fragment;
  using Store = epilogue::warp::RowVectorStore<OutputMap, ElementOutput, kOutputAlignment>;

 public:
  static constexpr int kThreads = First::kThreads;
  static_assert(kThreads / 32 * Config::kWarpRows == Config::kRows, "warps divide the rows only");

  struct SharedStorage {
    typename First::SharedStorage first;
    alignas(128) Element b1[Config::kN1 / Config::kColumns][Config::kN0 * Config::kColumns];
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    auto const thread = ChainedGemmThread::current();
    Schedule schedule(params, blockIdx.x, gridDim.x);
    if (!schedule.has_step()) {
      return;
    }
    load_b1(params, schedule.step(), shared, thread);
    First first(shared.first, params, schedule, thread);
    bool b1_arrives_late = false;

    Output output;
    CUTLASS_PRAGMA_NO_UNROLL
    while (true) {
      ChainedGemmStep const step = schedule.step();
      auto const problem = problem_of(params, step);
      Intermediate intermediate;
      first.compute(intermediate, params, schedule, thread);
      finish_intermediate<Map, Element>(intermediate, problem, step.chunk, thread.lane,
                                        params.activation);
      if (b1_arrives_late) {
        cutlass::arch::cp_async_wait<0>();
        __syncthreads();
      }
      // Rounded at once: it takes half the registers then.
      typename SecondProduct::FragmentA operands[SecondProduct::kSteps];
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < SecondProduct::kSteps; ++i) {
        operands[i] = SecondProduct::operand(intermediate, i);
      }
      CUTLASS_PRAGMA_NO_UNROLL
      for (int column = 0; column < Config::kN1; column += Config::kColumns) {
        if (!Config::kAnyN0 || step.chunk == 0) {
          output.clear();
        }
        multiply(output, operands, shared.b1[column / Config::kColumns], thread.lane);
        if (step.last) {
          store(output, params, problem, step, column, thread);
        }
      }
      schedule.advance();
      if (!schedule.has_step()) {
        break;
      }
      b1_arrives_late = !schedule.step().shares_b1(step);
      if (b1_arrives_late) {
        __syncthreads();  // no thread reads b1 any more
        load_b1(params, schedule.step(), shared, thread);
        cutlass::arch::cp_async_fence();
      }
    }
  }

 private:
  CUTLASS_DEVICE static ChainedGemmProblem problem_of(Params const &params,
                                                      ChainedGemmStep const &step) {
    return chained_gemm_problem<Element, ElementOutput>(params, step.problem);
  }

  /// Requests the step's part of b1, with zeros below and to the right of it.
  CUTLASS_DEVICE static void load_b1(Params const &params, ChainedGemmStep const &step,
                                     SharedStorage &shared, ChainedGemmThread const &thread) {
    using Copy = ChainedGemmOperandCopy<Element, typename SecondCore::IteratorThreadMapB,
                                        typename SecondCore::SmemIteratorB, SecondLayout,
                                        Config::kN0, Config::kColumns, 0, kAlignment == 8>;
    auto const problem = problem_of(params, step);
    auto const *b1 = static_cast<Element const *>(problem.b1) + step.chunk * problem.stride_b1;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Config::kN1 / Config::kColumns; ++i) {
      int const column = step.column + i * Config::kColumns;
      Copy::copy(shared.b1[i], b1 + column, problem.stride_b1, problem.n0 - step.chunk,
                 problem.n1 - column, Config::kN0, thread.index);
    }
  }

  /// output += operands * b1, which lies at `buffer`
  CUTLASS_DEVICE static void multiply(
      Output &output, typename SecondProduct::FragmentA const (&operands)[SecondProduct::kSteps],
      Element *buffer, int lane) {
    typename SecondMma::IteratorB b1(
        {buffer, SecondLayout::packed({Config::kN0, Config::kColumns})}, lane);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < SecondProduct::kSteps; ++i) {
      typename SecondProduct::FragmentB fragment;
      b1.load(fragment);
      ++b1;
      SecondProduct::multiply(output, operands[i], fragment);
    }
  }

  /// The warp's rows of the step's tile, 64 columns from `column` on: alpha * output + beta *
  /// source, rounded once.
  CUTLASS_DEVICE static void store(Output const &output, Params const &params,
                                   ChainedGemmProblem const &problem, ChainedGemmStep const &step,
                                   int column, ChainedGemmThread const &thread) {
    column += step.column;
    int const row = step.row + thread.warp * Config::kWarpRows;
    int const rows = problem.m - row;
    int const columns = problem.n1 - column;
    Store const store(
        static_cast<ElementOutput *>(problem.output) + row * problem.stride_output + column,
        problem.stride_output, rows, columns, thread.lane);
    if (params.beta == 0.f) {
      store([&](int r, int c) { return params.alpha * output[OutputMap::index(r, c)]; });
      return;
    }
    auto const origin = OutputMap::origin(thread.lane);
    auto const *source = static_cast<ElementOutput const *>(problem.source) +
                         (row + origin.row()) * problem.stride_source + column + origin.column();
    store([&](int r, int c) {
      bool const exists = OutputMap::row(r) < rows - origin.row() &&
                          OutputMap::column(c) < columns - origin.column();
      float const added =
          exists ? float(source[OutputMap::row(r) * problem.stride_source + OutputMap::column(c)])
                 : 0.f;
      return params.alpha * output[OutputMap::index(r, c)] + params.beta * added;
    });
  }
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
