/// @file
/// Tile shapes and threadblock-level products of the forward kernel for float operands.
#pragma once

#include "cutlass/arch/arch.h"
#include "cutlass/gemm/threadblock/default_mma.h"
#include "cutlass_ext/gemm/threadblock/rebind_mma.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"
#include "cutlass_ext/transform/threadblock/residual_last_iterator.h"
#include "fmha/params.h"

namespace fmha {

using Access = cutlass_ext::transform::threadblock::TileAccess;

/// Exact float arithmetic on CUDA cores.
struct SimtFloat {
  using OperatorClass = cutlass::arch::OpClassSimt;
  using Operator = cutlass::arch::OpMultiplyAdd;
  using Instruction = cutlass::gemm::GemmShape<1, 1, 1>;
  /// Stock SIMT products copy element by element.
  static constexpr int kVector = 1;
  static constexpr int step(int depth) { return depth < 64 ? 8 : 16; }

  /// Transposing copies put neighbours of a row into neighbouring rows of shared memory: a padding
  /// of 16 bytes spreads them over the banks, and keeps vectors aligned.
  template <class Mma, bool kTransposesB>
  using Padded =
      cutlass_ext::gemm::threadblock::WithPadding<Mma, cutlass::MatrixShape<4, 0>,
                                                  cutlass::MatrixShape<0, kTransposesB ? 4 : 0>>;
};

/// Float products out of three TF32 products each (Sm80): the operands' upper and lower parts.
struct Tf32x3 {
  using OperatorClass = cutlass::arch::OpClassTensorOp;
  using Operator = cutlass::arch::OpMultiplyAddFastF32;
  using Instruction = cutlass::gemm::GemmShape<16, 8, 8>;
  static constexpr int kVector = 4;
  static constexpr int step(int) { return 16; }

  template <class Mma, bool>
  using Padded = Mma;
};

/// The two products of attention as stock multistage Mmas with their A operands resident.
///
/// \tparam Arithmetic  SimtFloat or Tf32x3
/// \tparam kHeadDim_   columns of query, key, value and output in the kernel, at least the
/// problem's
/// \tparam kAccess     how rows are read and written
template <class Arithmetic, int kHeadDim_, Access kAccess>
struct ForwardSharedWeightsConfig {
  using Element = float;
  static constexpr Access kRowAccess = kAccess;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kQueries = 64;
  static constexpr int kKeys = 64;
  /// Warps divide the queries only, so that a row's statistics stay within one warp.
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kMinBlocks = 1;
  static constexpr int kWarpQueries = kQueries / kWarps;
  static constexpr int kVector = kAccess == Access::kElement ? 1 : Arithmetic::kVector;

  /// A product of kQueries x kColumns x kDepth whose operand A fits in the stages of its Mma.
  template <int kColumns, int kDepth, class LayoutB>
  struct Product {
    static constexpr int kStep = Arithmetic::step(kDepth);
    // MmaMultistage begins at three stages.
    static constexpr int kStages = kDepth / kStep < 3 ? 3 : kDepth / kStep;
    using DefaultMma = typename cutlass::gemm::threadblock::DefaultMma<
        float, cutlass::layout::RowMajor, kVector, float, LayoutB, kVector, float,
        cutlass::layout::RowMajor, typename Arithmetic::OperatorClass, cutlass::arch::Sm80,
        cutlass::gemm::GemmShape<kQueries, kColumns, kStep>,
        cutlass::gemm::GemmShape<kWarpQueries, kColumns, kStep>, typename Arithmetic::Instruction,
        kStages, typename Arithmetic::Operator>::ThreadblockMma;
    using Mma = cutlass_ext::gemm::threadblock::WithZeroFill<typename Arithmetic::template Padded<
        DefaultMma, cutlass::platform::is_same<LayoutB, cutlass::layout::ColumnMajor>::value>>;
  };

  /// Scores. Query and keys are visited alike, partial k tile first.
  using ScoreProduct = Product<kKeys, kHeadDim, cutlass::layout::ColumnMajor>;
  using ScoreMma = cutlass_ext::gemm::threadblock::ResidentOperand<typename ScoreProduct::Mma,
                                                                   cutlass::gemm::Operand::kA>;
  using IteratorQuery = typename ScoreProduct::DefaultMma::IteratorA;
  using IteratorKeys = typename ScoreProduct::DefaultMma::IteratorB;
  static_assert(ScoreMma::kExtent >= kHeadDim, "the query does not fit in the stages");

  /// Weights times values. The values are visited from the first key on, partial k tile last.
  using ValueProduct = Product<kHeadDim, kKeys, cutlass::layout::RowMajor>;
  using IteratorValues = cutlass_ext::transform::threadblock::ResidualLast<
      typename ValueProduct::DefaultMma::IteratorB>;
  using ValueMma = cutlass_ext::gemm::threadblock::ResidentOperand<
      cutlass_ext::gemm::threadblock::WithIteratorB<typename ValueProduct::Mma, IteratorValues>,
      cutlass::gemm::Operand::kA>;
  static_assert(ValueMma::kExtent >= kKeys, "the weights do not fit in the stages");

  struct Params : ForwardParams {
    typename IteratorQuery::Params iterate_query;
    typename IteratorKeys::Params iterate_keys;
    typename IteratorValues::Params iterate_values;

    explicit Params(ForwardParams const &params)
        : ForwardParams(params),
          iterate_query(cutlass::layout::RowMajor(params.query_stride.row)),
          iterate_keys(cutlass::layout::ColumnMajor(params.key_stride.row)),
          iterate_values(cutlass::layout::RowMajor(params.value_stride.row)) {}
  };
};

}  // namespace fmha
