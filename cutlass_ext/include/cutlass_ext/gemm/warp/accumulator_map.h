/// @file
/// Which thread of a warp holds which element of the warp's accumulator tile.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/warp/mma_simt.h"
#include "cutlass/gemm/warp/mma_tensor_op.h"
#include "cutlass/gemm/warp/mma_tensor_op_fast_f32.h"
#include "cutlass/gemm/warp/mma_tensor_op_sm70.h"
#include "cutlass/layout/matrix.h"
#include "cutlass/matrix_coord.h"

namespace cutlass_ext {
namespace gemm {
namespace warp {

namespace detail {

/// A map as the family of warp-level operators determines it:
///   kRowsPerThread, kColumnsPerThread   a thread's elements are all pairs of its rows and columns
///   kRowRun, kColumnRun                 so many of them are neighbours, aligned to their number
///   origin_row(lane), origin_column(lane)   element (0, 0) of a lane in the warp tile
///   row(r), column(c)                   offset of a thread's r-th row, c-th column from there
///   index(r, c)                         that element's position in the fragment
template <class WarpMma>
struct AccumulatorMapTraits {
  static_assert(sizeof(WarpMma) == 0,
                "AccumulatorMap knows warp-level operators of 16x8 tensor-op instructions, "
                "MmaVoltaTensorOp and MmaSimt, with row-major accumulators");
};

/// Instructions of 16 rows and 8 columns (Sm75 and Sm80: f16, bf16, tf32), whose accumulators four
/// neighbouring lanes share row by row; instructions in column order.
template <class Shape, int kInstructionColumns>
struct TensorOp16x8Map {
  static constexpr int kTileRows = Shape::kM / 16;
  static constexpr int kRowsPerThread = 2 * kTileRows;
  static constexpr int kColumnsPerThread = 2 * (Shape::kN / 8);
  static constexpr int kRowRun = 1;
  static constexpr int kColumnRun = 2;
  static_assert(Shape::kM % 16 == 0 && Shape::kN % 8 == 0 && kInstructionColumns == 8,
                "AccumulatorMap: the warp tile is not a multiple of 16x8 instructions");

  CUTLASS_HOST_DEVICE static constexpr int origin_row(int lane) { return lane / 4; }
  CUTLASS_HOST_DEVICE static constexpr int origin_column(int lane) { return lane % 4 * 2; }
  CUTLASS_HOST_DEVICE static constexpr int row(int r) { return r / 2 * 16 + r % 2 * 8; }
  CUTLASS_HOST_DEVICE static constexpr int column(int c) { return c / 2 * 8 + c % 2; }
  CUTLASS_HOST_DEVICE static constexpr int index(int r, int c) {
    return (c / 2 * kTileRows + r / 2) * 4 + r % 2 * 2 + c % 2;
  }
};

template <class Shape, class ElementA, class LayoutA, class ElementB, class LayoutB, class ElementC,
          class LayoutC, class Policy, int kPartitionsK>
struct AccumulatorMapTraits<cutlass::gemm::warp::MmaTensorOp<
    Shape, ElementA, LayoutA, ElementB, LayoutB, ElementC, LayoutC, Policy, kPartitionsK, false>>
    : TensorOp16x8Map<Shape, Policy::Operator::Shape::kN> {
  static_assert(Policy::Operator::Shape::kM == 16,
                "AccumulatorMap: the instruction is not one of 16 rows and 8 columns");
};

template <class Shape, class ElementA, class LayoutA, class ElementB, class LayoutB, class ElementC,
          class LayoutC, class Policy, int kPartitionsK>
struct AccumulatorMapTraits<cutlass::gemm::warp::MmaTensorOpFastF32<
    Shape, ElementA, LayoutA, ElementB, LayoutB, ElementC, LayoutC, Policy, kPartitionsK, false>>
    : TensorOp16x8Map<Shape, Policy::Operator::Shape::kN> {};

/// Volta's 8x8 instructions, one a quad pair, over tiles of 32 rows and 32 columns: bits 2 and 4 of
/// the lane choose a strip of 8 rows, bit 3 every other strip of 8 columns. In such a strip an
/// instruction covers 4 rows and, twice, 4 columns; of each 4x4 block a lane holds a row of four
/// f16, or of f32 two neighbours in two rows.
template <class Shape, class ElementA, class LayoutA, class ElementB, class LayoutB, class ElementC,
          class Policy>
struct AccumulatorMapTraits<
    cutlass::gemm::warp::MmaVoltaTensorOp<Shape, ElementA, LayoutA, ElementB, LayoutB, ElementC,
                                          cutlass::layout::RowMajor, Policy, bool>> {
  static constexpr bool kFloat = cutlass::sizeof_bits<ElementC>::value == 32;
  /// Of a 4x4 block, what a lane holds.
  static constexpr int kBlockRows = kFloat ? 2 : 1;
  static constexpr int kBlockColumns = kFloat ? 2 : 4;
  /// Of a 32x32 tile.
  static constexpr int kTileRows = 2 * kBlockRows;
  static constexpr int kTileColumns = 4 * kBlockColumns;
  static constexpr int kRowsPerThread = Shape::kM / 32 * kTileRows;
  static constexpr int kColumnsPerThread = Shape::kN / 32 * kTileColumns;
  static constexpr int kRowRun = 1;
  static constexpr int kColumnRun = kFloat ? 2 : 8;

  CUTLASS_HOST_DEVICE static constexpr int origin_row(int lane) {
    return (lane >> 2 & 1) * 8 + (lane >> 4 & 1) * 16 + (kFloat ? lane & 1 : lane & 3);
  }
  CUTLASS_HOST_DEVICE static constexpr int origin_column(int lane) {
    return (lane >> 3 & 1) * 8 + (kFloat ? lane & 2 : 0);
  }
  CUTLASS_HOST_DEVICE static constexpr int row(int r) {
    return r / kTileRows * 32 + r / kBlockRows % 2 * 4 + r % kBlockRows * 2;
  }
  CUTLASS_HOST_DEVICE static constexpr int column(int c) {
    return c / kTileColumns * 32 + c / (2 * kBlockColumns) % 2 * 16 + c / kBlockColumns % 2 * 4 +
           c % kBlockColumns;
  }
  /// Instructions: tile column, tile row, block column, block row; eight elements each.
  CUTLASS_HOST_DEVICE static constexpr int index(int r, int c) {
    int const tile = c / kTileColumns * (Shape::kM / 32) + r / kTileRows;
    int const instruction = (tile * 2 + c / kBlockColumns % 2) * 2 + r / kBlockRows % 2;
    int const strip = c / (2 * kBlockColumns) % 2;
    return (instruction * 2 + strip) * 4 + r % kBlockRows * kBlockColumns + c % kBlockColumns;
  }
};

/// Lanes in `Policy::WarpShape`, numbered by a row-major layout that interleaves rows; each lane
/// holds blocks of `Policy::LaneMmaShape`, row by row.
template <class Shape, class ElementA, class LayoutA, class ElementB, class LayoutB, class ElementC,
          class Policy, int kPartitionsK>
struct AccumulatorMapTraits<
    cutlass::gemm::warp::MmaSimt<Shape, ElementA, LayoutA, ElementB, LayoutB, ElementC,
                                 cutlass::layout::RowMajor, Policy, kPartitionsK>> {
  static constexpr int kInterleave = Policy::LaneLayout::kInterleave;
  static constexpr int kLaneRows = Policy::WarpShape::kRow;
  static constexpr int kLaneColumns = Policy::WarpShape::kColumn;
  static constexpr int kRowRun = Policy::LaneMmaShape::kM;
  static constexpr int kColumnRun = Policy::LaneMmaShape::kN;
  static constexpr int kRowsPerThread = Shape::kM / kLaneRows;
  static constexpr int kColumnsPerThread = Shape::kN / kLaneColumns;

  CUTLASS_HOST_DEVICE static constexpr int origin_row(int lane) {
    return (lane / (kLaneColumns * kInterleave) * kInterleave + lane % kInterleave) * kRowRun;
  }
  CUTLASS_HOST_DEVICE static constexpr int origin_column(int lane) {
    return lane % (kLaneColumns * kInterleave) / kInterleave * kColumnRun;
  }
  CUTLASS_HOST_DEVICE static constexpr int row(int r) {
    return r / kRowRun * kRowRun * kLaneRows + r % kRowRun;
  }
  CUTLASS_HOST_DEVICE static constexpr int column(int c) {
    return c / kColumnRun * kColumnRun * kLaneColumns + c % kColumnRun;
  }
  CUTLASS_HOST_DEVICE static constexpr int index(int r, int c) { return r * kColumnsPerThread + c; }
};

}  // namespace detail

/// Maps (lane, position in the accumulator fragment) to (row, column) of the warp tile, one to one.
///
/// The map is a sum: lane's origin + an offset known at compile time. A thread's elements are all
/// pairs of kRowsPerThread rows and kColumnsPerThread columns, so that row statistics are arrays of
/// kRowsPerThread values.
///
/// Stock CUTLASS has the map only inside iterators that load or store the whole tile.
///
/// \tparam WarpMma_  warp-level operator: MmaTensorOp, MmaTensorOpFastF32 (16x8 instructions),
///                   MmaVoltaTensorOp or MmaSimt; accumulators in row-major layout
template <class WarpMma_>
struct AccumulatorMap : detail::AccumulatorMapTraits<WarpMma_> {
  using WarpMma = WarpMma_;
  using Traits = detail::AccumulatorMapTraits<WarpMma>;
  using Shape = typename WarpMma::Shape;
  using Fragment = typename WarpMma::FragmentC;
  using Element = typename Fragment::Element;
  using Traits::kColumnsPerThread;
  using Traits::kRowsPerThread;

  static constexpr int kElements = Fragment::kElements;
  static_assert(kElements == kRowsPerThread * kColumnsPerThread,
                "AccumulatorMap: the fragment is not rows times columns");

  /// One value for each of a thread's rows.
  using RowFragment = cutlass::Array<Element, kRowsPerThread>;

  /// Bits of the lane index that change neither origin_row nor, so, the rows that a lane holds: the
  /// lanes that share rows are those that differ in these bits only.
  static constexpr unsigned kRowMask = [] {
    unsigned mask = 0;
    for (int bit = 1; bit < 32; bit *= 2) {
      mask |= Traits::origin_row(bit) == Traits::origin_row(0) ? unsigned(bit) : 0u;
    }
    return mask;
  }();

  /// Element (0, 0) of a lane; all its others lie to the right and below.
  CUTLASS_HOST_DEVICE static cutlass::MatrixCoord origin(int lane) {
    return {Traits::origin_row(lane), Traits::origin_column(lane)};
  }

  /// Coordinates in the warp tile of a thread's element in row r, column c of its own.
  CUTLASS_HOST_DEVICE static cutlass::MatrixCoord coord(int lane, int r, int c) {
    return {Traits::origin_row(lane) + Traits::row(r),
            Traits::origin_column(lane) + Traits::column(c)};
  }

  /// Combines `value` over the lanes that share a row: all of them get the same result, to the bit
  /// where `op` is commutative. Every lane of the warp takes part.
  template <class T, class Op>
  CUTLASS_DEVICE static T reduce_lanes(T value, Op op) {
    CUTLASS_PRAGMA_UNROLL
    for (int bit = 1; bit < 32; bit *= 2) {
      if (kRowMask & unsigned(bit)) {
        // Types narrower than float travel as float, exactly.
        value = op(value, T(__shfl_xor_sync(0xffffffffu, value, bit)));
      }
    }
    return value;
  }

  /// Combines a thread's own elements of each row, from the left.
  template <class Op>
  CUTLASS_DEVICE static RowFragment reduce_columns(Fragment const &fragment, Op op) {
    RowFragment result;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRowsPerThread; ++r) {
      Element value = fragment[Traits::index(r, 0)];
      CUTLASS_PRAGMA_UNROLL
      for (int c = 1; c < kColumnsPerThread; ++c) {
        value = op(value, fragment[Traits::index(r, c)]);
      }
      result[r] = value;
    }
    return result;
  }

  /// Combines each row of the warp tile: reduce_columns(), then reduce_lanes().
  template <class Op>
  CUTLASS_DEVICE static RowFragment reduce_rows(Fragment const &fragment, Op op) {
    RowFragment result = reduce_columns(fragment, op);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRowsPerThread; ++r) {
      result[r] = reduce_lanes(Element(result[r]), op);
    }
    return result;
  }
};

}  // namespace warp
}  // namespace gemm
}  // namespace cutlass_ext
