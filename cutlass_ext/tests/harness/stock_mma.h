/// @file
/// Stock threadblock-level Mmas, by the parameters that tests vary.
#pragma once

#include "cutlass/arch/arch.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass/gemm/threadblock/default_mma.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"

namespace harness {

using cutlass::bfloat16_t;
using cutlass::half_t;
using cutlass::gemm::GemmShape;
using cutlass::gemm::Operand;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;

/// f32 (f64) on CUDA cores; two stages give MmaPipelined, more MmaMultistage.
template <class Shape, class WarpShape, class LayoutA, class LayoutB, int kStages,
          class Element = float>
using SimtMma = typename cutlass::gemm::threadblock::DefaultMma<
    Element, LayoutA, 1, Element, LayoutB, 1, Element, Row, cutlass::arch::OpClassSimt,
    cutlass::arch::Sm80, Shape, WarpShape, GemmShape<1, 1, 1>, kStages,
    cutlass::arch::OpMultiplyAdd>::ThreadblockMma;

/// Tensor cores, Sm80.
template <class Element, class Shape, class WarpShape, class Instruction, class LayoutA,
          class LayoutB, int kStages, class Operator = cutlass::arch::OpMultiplyAdd,
          int kAlignment = 128 / cutlass::sizeof_bits<Element>::value>
using Sm80Mma = typename cutlass::gemm::threadblock::DefaultMma<
    Element, LayoutA, kAlignment, Element, LayoutB, kAlignment, float, Row,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Shape, WarpShape, Instruction, kStages,
    Operator>::ThreadblockMma;

/// f32 by three tf32 products.
template <class Shape, class WarpShape, class LayoutA, class LayoutB, int kStages,
          int kAlignment = 4>
using Tf32x3Mma = Sm80Mma<float, Shape, WarpShape, GemmShape<16, 8, 8>, LayoutA, LayoutB, kStages,
                          cutlass::arch::OpMultiplyAddFastF32, kAlignment>;

/// f32, rounded to tf32.
template <class Shape, class WarpShape, class LayoutA, class LayoutB, int kStages,
          int kAlignment = 4>
using Tf32Mma = Sm80Mma<float, Shape, WarpShape, GemmShape<16, 8, 8>, LayoutA, LayoutB, kStages,
                        cutlass::arch::OpMultiplyAdd, kAlignment>;

/// Tensor cores, Sm75: f16, two stages.
template <class Shape, class WarpShape, class LayoutA, class LayoutB, int kAlignment = 8>
using Sm75Mma = typename cutlass::gemm::threadblock::DefaultMma<
    half_t, LayoutA, kAlignment, half_t, LayoutB, kAlignment, float, Row,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm75, Shape, WarpShape, GemmShape<16, 8, 8>, 2,
    cutlass::arch::OpMultiplyAdd>::ThreadblockMma;

/// Tensor cores, Sm70: f16, two stages; warp tiles are multiples of 32x32.
template <class Shape, class WarpShape, class LayoutA, class LayoutB, int kAlignment = 8,
          class Accumulator = float>
using Sm70Mma = typename cutlass::gemm::threadblock::DefaultMma<
    half_t, LayoutA, kAlignment, half_t, LayoutB, kAlignment, Accumulator, Row,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm70, Shape, WarpShape, GemmShape<8, 8, 4>, 2,
    cutlass::arch::OpMultiplyAdd>::ThreadblockMma;

/// Type of an Mma's accumulators.
template <class Mma>
using AccumulatorOf = typename Mma::FragmentC::Element;

template <class Mma>
inline constexpr int kThreadsOf = 32 * Mma::Base::WarpCount::kCount;

/// Tiles along k.
template <class Mma>
CUTLASS_HOST_DEVICE int tiles_of(int k) {
  return (k + Mma::Shape::kK - 1) / Mma::Shape::kK;
}

/// Calls f(position in the fragment, row, column) for each accumulator of a lane.
template <class Map, class F>
CUTLASS_DEVICE void for_each(int lane, F f) {
  for (int r = 0; r < Map::kRowsPerThread; ++r) {
    for (int c = 0; c < Map::kColumnsPerThread; ++c) {
      auto const coord = Map::coord(lane, r, c);
      f(Map::index(r, c), coord.row(), coord.column());
    }
  }
}

/// A threadblock's accumulators as a matrix in global memory, [Mma::Shape::kM, Mma::Shape::kN].
template <class Mma>
struct AccumulatorTile {
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename Mma::Operator>;
  using Element = AccumulatorOf<Mma>;

  CUTLASS_DEVICE static void load(typename Map::Fragment &fragment, Element const *matrix) {
    Element const *tile = matrix + warp_offset();
    for_each<Map>(threadIdx.x % 32, [&](int i, int row, int column) {
      fragment[i] = tile[row * Mma::Shape::kN + column];
    });
  }
  CUTLASS_DEVICE static void store(typename Map::Fragment const &fragment, Element *matrix) {
    Element *tile = matrix + warp_offset();
    for_each<Map>(threadIdx.x % 32, [&](int i, int row, int column) {
      tile[row * Mma::Shape::kN + column] = fragment[i];
    });
  }
  /// First row and column of the calling warp's tile.
  CUTLASS_DEVICE static int first_row() {
    return threadIdx.x / 32 % Mma::Base::WarpCount::kM * Map::Shape::kM;
  }
  CUTLASS_DEVICE static int first_column() {
    return threadIdx.x / 32 / Mma::Base::WarpCount::kM * Map::Shape::kN;
  }

 private:
  CUTLASS_DEVICE static int warp_offset() { return first_row() * Mma::Shape::kN + first_column(); }
};

/// Iterator over the operand at `data`, from its start.
template <class Iterator, class Element>
CUTLASS_DEVICE Iterator iterate(Element *data, int ld, int rows, int columns) {
  using Layout = typename Iterator::Layout;
  return Iterator(typename Iterator::Params(Layout(ld)), data, {rows, columns}, threadIdx.x);
}

}  // namespace harness
