/// @file
/// A warp's product whose operand A is the accumulators of another product, in registers.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/warp/mma_tensor_op.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/numeric_types.h"
#include "cutlass_ext/gemm/warp/mma_column_order.h"

namespace cutlass_ext {
namespace gemm {
namespace threadblock {

namespace detail {

/// Whether a warp-level operator's accumulators lie where it wants operand A.
template <class WarpMma>
struct TakesAccumulators {
  static constexpr bool value = false;
};

template <class Shape, class ElementA, class LayoutA, class ElementB, class LayoutB, class ElementC,
          class LayoutC, class Policy, int kPartitionsK>
struct TakesAccumulators<cutlass::gemm::warp::MmaTensorOp<
    Shape, ElementA, LayoutA, ElementB, LayoutB, ElementC, LayoutC, Policy, kPartitionsK, false>> {
  using Instruction = typename Policy::Operator;
  static constexpr bool value = Instruction::Shape::kM == 16 && Instruction::Shape::kN == 8 &&
                                cutlass::sizeof_bits<typename Instruction::ElementA>::value == 16;
};

}  // namespace detail

/// accumulators += convert(source) * b, where `source` are accumulators of an earlier product.
///
/// With 16-bit instructions of 16 rows the accumulators of two neighbouring 16x8 tiles (of one, for
/// 16x8x8 instructions) lie in the threads where the next instruction wants its operand A: no
/// exchange, no shared memory. The product can be taken step by step, k elements at a time, with
/// other work in between:
///
///     RegisterOperandGemm<WarpMma, kColumns> gemm;
///     for (int step = 0; step < gemm.kSteps; ++step) {       // unrolled
///       ...                                                  // finish 16 columns of `source`
///       gemm.step(accumulators, source, step, iterator_b);
///     }
///
/// Contract: equal to the bit to a product that reads the same operand A, rounded to the same type,
/// from shared memory with the same instructions; no access to shared memory but for operand B.
///
/// \tparam WarpMma_   stock cutlass::gemm::warp::MmaTensorOp of 16x8x16 (f16, bf16) or 16x8x8 (f16)
///                    instructions; only its operand B is read from shared memory
/// \tparam kColumns_  columns of `source`, and extent along k of the product. The warp holds them
/// all:
///                    warps of the source product do not divide its columns
template <class WarpMma_, int kColumns_>
class RegisterOperandGemm {
  // First: what follows names parts that other operators lack.
  static_assert(detail::TakesAccumulators<WarpMma_>::value,
                "RegisterOperandGemm: only 16-bit instructions of 16x8x16 and 16x8x8 take "
                "accumulators as operand A as they lie; write them with SmemOperandWriter");

 public:
  using WarpMma = WarpMma_;
  using Instruction = typename WarpMma::ArchMmaOperator;
  using ElementA = typename Instruction::ElementA;
  using FragmentA = typename WarpMma::FragmentA;
  using FragmentB = typename WarpMma::FragmentB;
  using FragmentC = typename WarpMma::FragmentC;
  using IteratorB = typename WarpMma::IteratorB;

  static constexpr int kColumns = kColumns_;
  static constexpr int kStepColumns = Instruction::Shape::kK;
  static constexpr int kSteps = kColumns / kStepColumns;

  static_assert(kColumns % kStepColumns == 0,
                "RegisterOperandGemm: the columns are not a multiple of the instruction's k");

 private:
  static constexpr int kRowTiles = WarpMma::MmaIterations::kRow;
  static constexpr int kColumnTiles = kStepColumns / 8;

 public:
  /// Accumulators of the source product, instructions in column order.
  template <class Element>
  using Source = cutlass::Array<Element, kRowTiles *(kColumns / 8) * 4>;

  /// Columns step * kStepColumns ... of `source`, rounded to nearest, as operand A.
  template <class Element>
  CUTLASS_DEVICE static FragmentA operand(Source<Element> const &source, int step) {
    using Pair = cutlass::Array<ElementA, 2>;
    cutlass::NumericArrayConverter<ElementA, Element, 2> convert;
    auto const *pairs = reinterpret_cast<cutlass::Array<Element, 2> const *>(&source);
    FragmentA fragment;
    auto *result = reinterpret_cast<Pair *>(&fragment);
    CUTLASS_PRAGMA_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CUTLASS_PRAGMA_UNROLL
      for (int tile = 0; tile < kColumnTiles; ++tile) {
        CUTLASS_PRAGMA_UNROLL
        for (int half = 0; half < 2; ++half) {
          int const n = step * kColumnTiles + tile;
          result[(m * kColumnTiles + tile) * 2 + half] =
              convert(pairs[(n * kRowTiles + m) * 2 + half]);
        }
      }
    }
    return fragment;
  }

  /// accumulators += a * b, columns outermost.
  CUTLASS_DEVICE static void multiply(FragmentC &accumulators, FragmentA const &a,
                                      FragmentB const &b) {
    warp::MmaColumnOrder<WarpMma>()(accumulators, a, b);
  }

  /// One step of the product; steps come in ascending order and move the iterator on.
  template <class Element>
  CUTLASS_DEVICE static void step(FragmentC &accumulators, Source<Element> const &source, int step,
                                  IteratorB &iterator_b) {
    FragmentA const a = operand(source, step);
    FragmentB b;
    iterator_b.load(b);
    ++iterator_b;
    multiply(accumulators, a, b);
  }

  /// The whole product.
  template <class Element>
  CUTLASS_DEVICE void operator()(FragmentC &accumulators, Source<Element> const &source,
                                 IteratorB iterator_b) const {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      step(accumulators, source, i, iterator_b);
    }
  }
};

}  // namespace threadblock
}  // namespace gemm
}  // namespace cutlass_ext
