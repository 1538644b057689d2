/// @file
/// RegisterOperandGemm beside the same product with operand A written to shared memory.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/threadblock/smem_operand_writer.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "stock_mma.h"

namespace harness {

/// accumulators = convert(source) * b, operand B resident in shared memory.
///
/// \tparam Mma       the product's threadblock-level Mma, warps along m only
/// \tparam kColumns  columns of `source`, and the product's k; fits the stages of Mma
template <class Mma, int kColumns>
class RegisterOperandProbe {
 public:
  enum Way : int { kRegisters, kRegistersByStep, kSharedMemory };
  using WarpMma = typename Mma::Operator;
  using Gemm = cutlass_ext::gemm::threadblock::RegisterOperandGemm<WarpMma, kColumns>;
  using Source = typename Gemm::template Source<float>;
  using ResidentB = cutlass_ext::gemm::threadblock::ResidentOperand<Mma, Operand::kB>;
  using ResidentBoth =
      cutlass_ext::gemm::threadblock::ResidentOperand<typename ResidentB::Mma, Operand::kA>;
  using Staged = cutlass_ext::gemm::threadblock::StagedMma<typename ResidentBoth::Mma>;
  /// The instructions that `source` comes from: as many rows, kColumns columns.
  using SourceShape = GemmShape<WarpMma::Shape::kM, kColumns, WarpMma::Shape::kK>;
  using SourceWarpMma = cutlass::gemm::warp::MmaTensorOp<
      SourceShape, typename WarpMma::ElementA, typename WarpMma::LayoutA,
      typename WarpMma::ElementB, typename WarpMma::LayoutB, float, Row, typename WarpMma::Policy>;
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<SourceWarpMma>;
  using Writer = cutlass_ext::gemm::threadblock::SmemOperandWriter<Mma, Operand::kA, Map>;
  using ElementB = typename Mma::IteratorB::Element;
  using Fragment = typename Mma::FragmentC;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;
  static constexpr int kTiles = kColumns / Mma::Shape::kK;
  static_assert(Mma::Base::WarpCount::kN == 1 && ResidentB::kExtent >= kColumns, "");

  struct Params {
    int way;
    float const *source;  ///< [Mma::Shape::kM, kColumns]
    ElementB *b;          ///< [kColumns, ldb]
    int n;
    int ldb;
    float *accumulators;  ///< [Shape::kM, Shape::kN], written
    int *marker;          ///< [kThreads], 1 before, 2 after the product
  };
  struct SharedStorage {
    typename Mma::Base::SharedStorage mma;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    int const row = warp * WarpMma::Shape::kM;
    Source source;
    for_each<Map>(
        lane, [&](int i, int r, int c) { source[i] = params.source[(row + r) * kColumns + c]; });
    ResidentB::fill(shared.mma,
                    iterate<typename Mma::IteratorB>(params.b, params.ldb, kColumns, params.n),
                    kTiles, thread);
    cutlass::arch::cp_async_wait<0>();
    __syncthreads();
    params.marker[thread] = 1;
    Fragment accumulators;
    accumulators.clear();
    if (params.way == kSharedMemory) {
      Writer(shared.mma, row, 0, lane)(source);
      Staged mma(shared.mma, thread, warp, lane);
      typename Staged::Tiles tiles{{}, {}, kTiles};
      mma(tiles, accumulators);
    } else {
      typename WarpMma::IteratorB iterator(shared.mma.operand_B_ref(), lane);
      if (params.way == kRegisters) {
        Gemm()(accumulators, source, iterator);
      } else {
        CUTLASS_PRAGMA_UNROLL
        for (int step = 0; step < Gemm::kSteps; ++step) {
          // The columns of later steps may still change.
          Gemm::step(accumulators, source, step, iterator);
        }
      }
    }
    params.marker[thread] = 2;
    AccumulatorTile<Mma>::store(accumulators, params.accumulators);
  }
};

/// way, source, b, n, ldb, accumulators, marker
template <class Mma, int kColumns>
void register_operand_gemm(Arguments arguments) {
  using Probe = RegisterOperandProbe<Mma, kColumns>;
  typename Probe::Params params;
  params.way = arguments.integer();
  params.source = arguments.pointer<float>();
  params.b = arguments.pointer<typename Probe::ElementB>();
  params.n = arguments.integer();
  params.ldb = arguments.integer();
  params.accumulators = arguments.pointer<float>();
  params.marker = arguments.pointer<int>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
