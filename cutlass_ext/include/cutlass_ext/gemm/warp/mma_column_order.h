/// @file
/// A warp's matrix product with its instructions in column order.
#pragma once

#include "cutlass/cutlass.h"

namespace cutlass_ext {
namespace gemm {
namespace warp {

/// accumulators += a * b, columns (n) outermost, rows (m) back and forth within a column.
///
/// Stock cutlass::gemm::warp::MmaTensorOp visits rows outermost, which keeps the whole B fragment
/// alive; with tall warp tiles (m > n of A against many columns of B) column order needs fewer
/// registers. The result is the same to the bit: each accumulator takes the same instruction.
///
/// \tparam WarpMma  stock cutlass::gemm::warp::MmaTensorOp without transformation of operands
template <class WarpMma>
struct MmaColumnOrder {
  CUTLASS_DEVICE void operator()(typename WarpMma::FragmentC &accumulators,
                                 typename WarpMma::FragmentA const &a,
                                 typename WarpMma::FragmentB const &b) const {
    using Instruction = typename WarpMma::ArchMmaOperator;
    constexpr int kRows = WarpMma::MmaIterations::kRow;
    constexpr int kColumns = WarpMma::MmaIterations::kColumn;
    auto const *a_tiles = reinterpret_cast<typename Instruction::FragmentA const *>(&a);
    auto const *b_tiles = reinterpret_cast<typename Instruction::FragmentB const *>(&b);
    auto *c_tiles = reinterpret_cast<typename Instruction::FragmentC *>(&accumulators);
    WarpMma mma;
    CUTLASS_PRAGMA_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kRows; ++i) {
        int const m = n % 2 ? kRows - 1 - i : i;
        auto &c = c_tiles[n * kRows + m];
        mma.mma(c, a_tiles[m], b_tiles[n], c);
      }
    }
  }
};

}  // namespace warp
}  // namespace gemm
}  // namespace cutlass_ext
