/// @file
/// The order in which a stock warp-level product visits its instructions, chosen by its caller.
#pragma once

#include "arguments.h"
#include "stock_mma.h"

namespace harness {

/// An instruction that leaves its place in the order, instead of a product.
template <class Instruction>
struct RecordingInstruction : Instruction {
  CUTLASS_HOST_DEVICE void operator()(typename Instruction::FragmentC &d,
                                      typename Instruction::FragmentA const &,
                                      typename Instruction::FragmentB const &,
                                      typename Instruction::FragmentC const &) const {
    static int count = 0;
    d[0] = float(count++);
  }
};

/// The stock operator with such instructions.
template <class WarpMma>
using RecordingMma = cutlass::gemm::warp::MmaTensorOp<
    typename WarpMma::Shape, typename WarpMma::ElementA, typename WarpMma::LayoutA,
    typename WarpMma::ElementB, typename WarpMma::LayoutB, typename WarpMma::ElementC,
    typename WarpMma::LayoutC,
    cutlass::gemm::warp::MmaTensorOpPolicy<RecordingInstruction<typename WarpMma::ArchMmaOperator>,
                                           typename WarpMma::Policy::OpDelta>>;

/// order (float): [instruction rows, instruction columns]; column by column
template <class WarpMma, bool kColumnByColumn>
void visit_order(Arguments arguments) {
  using Mma = RecordingMma<WarpMma>;
  constexpr int kRows = Mma::MmaIterations::kRow;
  constexpr int kColumns = Mma::MmaIterations::kColumn;
  typename Mma::FragmentC accumulators;
  typename Mma::TransformedFragmentA a;
  typename Mma::TransformedFragmentB b;
  Mma().template multiply<kColumnByColumn>(accumulators, a, b, accumulators);
  float *order = arguments.pointer<float>();
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; ++n) {
      order[m * kColumns + n] = accumulators[4 * (n * kRows + m)];
    }
  }
}

}  // namespace harness
