/// @file
/// Types that both kernels of the chained product are put together from.
#pragma once

#include "cutlass/arch/arch.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/epilogue/threadblock/default_epilogue_simt.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass/gemm/threadblock/default_mma.h"
#include "cutlass_ext/epilogue/thread/activation.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_problem.h"
#include "cutlass_ext/gemm/threadblock/rebind_mma.h"

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// How products are computed: float16 or bfloat16 on tensor cores, accumulated in float.
template <class Element_>
struct TensorOp16 {
  using Element = Element_;
  using OperatorClass = cutlass::arch::OpClassTensorOp;
  using Operator = cutlass::arch::OpMultiplyAdd;
  using Instruction = cutlass::gemm::GemmShape<16, 8, 16>;
  static constexpr int kStep = 32;
};

/// Float operands rounded to TF32 on tensor cores.
struct TensorOpTf32 {
  using Element = float;
  using OperatorClass = cutlass::arch::OpClassTensorOp;
  using Operator = cutlass::arch::OpMultiplyAdd;
  using Instruction = cutlass::gemm::GemmShape<16, 8, 8>;
  static constexpr int kStep = 16;
};

/// Float operands, each product out of three TF32 products.
struct TensorOpTf32x3 {
  using Element = float;
  using OperatorClass = cutlass::arch::OpClassTensorOp;
  using Operator = cutlass::arch::OpMultiplyAddFastF32;
  using Instruction = cutlass::gemm::GemmShape<16, 8, 8>;
  static constexpr int kStep = 16;
};

/// Float operands on CUDA cores, exactly.
struct SimtFloat {
  using Element = float;
  using OperatorClass = cutlass::arch::OpClassSimt;
  using Operator = cutlass::arch::OpMultiplyAdd;
  using Instruction = cutlass::gemm::GemmShape<1, 1, 1>;
  static constexpr int kStep = 8;
};

namespace detail {

template <class Arithmetic>
constexpr bool kIsSimt = cutlass::platform::is_same<typename Arithmetic::OperatorClass,
                                                    cutlass::arch::OpClassSimt>::value;

/// The stock product of row-major operands, with zeros for whatever lies outside of them: columns
/// of the intermediate that do not exist are zero, then, not what shared memory held before.
///
/// Stages: two take the Mma that copies through registers, the only one for rows whose alignment is
/// less than cp.async's four bytes.
template <class Arithmetic, class Shape, class WarpShape, int kAlignment, int kStages>
struct ChainedGemmProduct {
  using Element = typename Arithmetic::Element;
  using Default = cutlass::gemm::threadblock::DefaultMma<
      Element, cutlass::layout::RowMajor, kAlignment, Element, cutlass::layout::RowMajor,
      kAlignment, float, cutlass::layout::RowMajor, typename Arithmetic::OperatorClass,
      cutlass::arch::Sm80, Shape, WarpShape, typename Arithmetic::Instruction, kStages,
      typename Arithmetic::Operator>;
  using Core = typename Default::MmaCore;

  template <class Mma, bool kSimt = kIsSimt<Arithmetic>>
  struct Padded {
    using Type = Mma;
  };
  /// Copies that transpose put neighbours of a row into neighbouring rows of shared memory: 16
  /// bytes more a row spread them over the banks, and keep vectors aligned.
  template <class Mma>
  struct Padded<Mma, true> {
    using Type =
        threadblock::WithPadding<Mma, cutlass::MatrixShape<4, 0>, cutlass::MatrixShape<0, 0>>;
  };
  using Mma = threadblock::WithZeroFill<typename Padded<typename Default::ThreadblockMma>::Type>;
};

/// The stock epilogue of a product, whose shared memory holds one fragment a warp: stock factories
/// reserve room for two, which the loop of the stock class has no use for.
template <class Arithmetic, class Shape, class WarpMma, class OutputOp, bool = kIsSimt<Arithmetic>>
struct ChainedGemmEpilogue {
  using Default =
      cutlass::epilogue::threadblock::DefaultEpilogueTensorOp<Shape, WarpMma, 1, OutputOp,
                                                              OutputOp::kCount>;
  static_assert(WarpMma::Shape::kN <= 64,
                "iterators of stock epilogues for 16-bit output are wrong for wider warp tiles "
                "(TileIteratorTensorOpMixed)");
  using Epilogue = cutlass::epilogue::threadblock::Epilogue<
      Shape, WarpMma, 1, typename Default::OutputTileIterator,
      typename Default::AccumulatorFragmentIterator, typename Default::WarpTileIterator,
      typename Default::SharedLoadIterator, OutputOp, typename Default::Padding, 1>;
};

template <class Arithmetic, class Shape, class WarpMma, class OutputOp>
struct ChainedGemmEpilogue<Arithmetic, Shape, WarpMma, OutputOp, true> {
  using Epilogue =
      typename cutlass::epilogue::threadblock::DefaultEpilogueSimt<Shape, WarpMma, OutputOp,
                                                                   OutputOp::kCount>::Epilogue;
};

constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

}  // namespace detail

/// alpha * accumulators + beta * source in float, rounded to the output's type once. Vectors are as
/// long as 16 bytes of output and the alignment allow; CUDA cores write elements.
template <class Arithmetic, class ElementOutput, int kAlignment>
using ChainedGemmOutputOp = cutlass::epilogue::thread::LinearCombination<
    ElementOutput,
    detail::kIsSimt<Arithmetic> ? 1 : detail::smaller(kAlignment, 16 / sizeof(ElementOutput)),
    float, float>;

/// A kernel's configuration with loads requested late, to measure what requesting them early gains.
template <class Config>
struct LatePrologue : Config {
  static constexpr bool kEarlyPrologue = false;
};

/// What a kernel of the chained product takes: the problems, and the activation between products.
template <class Activation>
struct ChainedGemmKernelParams : ChainedGemmParams {
  Activation activation;
};

/// Adds bias0 to a warp's accumulators of the first product, and applies the activation.
///
/// \tparam Map      AccumulatorMap of the first product
/// \tparam Element  of the bias
///
/// \param column    the warp's first column; \param columns  of the intermediate
template <class Map, class Element, class Activation>
CUTLASS_DEVICE void finish_intermediate(typename Map::Fragment &accumulators,
                                        ChainedGemmProblem const &problem, int column, int lane,
                                        Activation const &activation) {
  auto const *bias = static_cast<Element const *>(problem.bias0);
  if (bias != nullptr) {
    column += Map::origin(lane).column();
    CUTLASS_PRAGMA_UNROLL
    for (int c = 0; c < Map::kColumnsPerThread; ++c) {
      int const i = column + Map::column(c);
      float const value = i < problem.n0 ? float(bias[i]) : 0.f;
      CUTLASS_PRAGMA_UNROLL
      for (int r = 0; r < Map::kRowsPerThread; ++r) {
        accumulators[Map::index(r, c)] += value;
      }
    }
  }
  activation(accumulators);
}

/// Stores one tile by a stock epilogue.
template <class Epilogue, class Element>
CUTLASS_DEVICE void store_chained_gemm_tile(typename Epilogue::Base::SharedStorage &shared,
                                            ChainedGemmParams const &params,
                                            ChainedGemmProblem const &problem, int row, int column,
                                            typename Epilogue::AccumulatorTile const &accumulators,
                                            int thread, int warp, int lane) {
  using Iterator = typename Epilogue::OutputTileIterator;
  using OutputOp = typename Epilogue::OutputOp;
  auto at = [&](void const *matrix, int64_t stride) {
    auto *rows = static_cast<Element *>(const_cast<void *>(matrix));
    return Iterator(typename Iterator::Params(cutlass::layout::RowMajor(stride)),
                    rows == nullptr ? rows : rows + row * stride + column,
                    {problem.m - row, problem.n1 - column}, thread);
  };
  Epilogue epilogue(shared, thread, warp, lane);
  epilogue(OutputOp(typename OutputOp::Params(params.alpha, params.beta)),
           at(problem.output, problem.stride_output), accumulators,
           at(problem.source, problem.stride_source));
}

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
