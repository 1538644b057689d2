/// @file
/// Accumulators to shared memory, where the next product reads its operand.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass/layout/matrix.h"
#include "cutlass/layout/tensor_op_multiplicand_sm70.h"
#include "cutlass/layout/tensor_op_multiplicand_sm75.h"
#include "cutlass/layout/tensor_op_multiplicand_sm80.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"

namespace cutlass_ext {
namespace gemm {
namespace threadblock {

namespace detail {

/// How a layout of an operand in shared memory arranges neighbours:
///   kColumns   whether elements of neighbouring columns (else: rows) are contiguous
///   kVector    how many of them are, aligned to that number; 0: as the leading dimension allows
template <class Layout>
struct ContiguousRun {
  static_assert(sizeof(Layout) == 0,
                "SmemOperandWriter does not know the layout of this operand in shared memory");
};
template <>
struct ContiguousRun<cutlass::layout::RowMajor> {
  static constexpr bool kColumns = true;
  static constexpr int kVector = 0;
};
template <>
struct ContiguousRun<cutlass::layout::ColumnMajor> {
  static constexpr bool kColumns = false;
  static constexpr int kVector = 0;
};
// Layouts for ldmatrix permute vectors of 16 bytes, and nothing inside them.
template <int kBits, int kCrosswise>
struct ContiguousRun<cutlass::layout::RowMajorTensorOpMultiplicandCrosswise<kBits, kCrosswise>> {
  static constexpr bool kColumns = true;
  static constexpr int kVector = 128 / kBits;
};
template <int kBits, int kCrosswise>
struct ContiguousRun<cutlass::layout::ColumnMajorTensorOpMultiplicandCrosswise<kBits, kCrosswise>> {
  static constexpr bool kColumns = false;
  static constexpr int kVector = 128 / kBits;
};
template <int kBits, int kCrosswise>
struct ContiguousRun<cutlass::layout::RowMajorTensorOpMultiplicandCongruous<kBits, kCrosswise>> {
  static constexpr bool kColumns = true;
  static constexpr int kVector = 128 / kBits;
};
template <int kBits, int kCrosswise>
struct ContiguousRun<cutlass::layout::ColumnMajorTensorOpMultiplicandCongruous<kBits, kCrosswise>> {
  static constexpr bool kColumns = false;
  static constexpr int kVector = 128 / kBits;
};
// Volta's layouts permute vectors of 16 bytes; where k is contiguous, of 8 bytes.
template <int kBits>
struct ContiguousRun<cutlass::layout::ColumnMajorVoltaTensorOpMultiplicandCongruous<kBits>> {
  static constexpr bool kColumns = false;
  static constexpr int kVector = 128 / kBits;
};
template <int kBits>
struct ContiguousRun<cutlass::layout::RowMajorVoltaTensorOpMultiplicandBCongruous<kBits>> {
  static constexpr bool kColumns = true;
  static constexpr int kVector = 128 / kBits;
};
template <int kBits, int kBlock>
struct ContiguousRun<cutlass::layout::RowMajorVoltaTensorOpMultiplicandCrosswise<kBits, kBlock>> {
  static constexpr bool kColumns = true;
  static constexpr int kVector = 64 / kBits;
};
template <int kBits, int kBlock>
struct ContiguousRun<
    cutlass::layout::ColumnMajorVoltaTensorOpMultiplicandCrosswise<kBits, kBlock>> {
  static constexpr bool kColumns = false;
  static constexpr int kVector = 64 / kBits;
};

}  // namespace detail

/// Writes a warp's accumulators as operand `kOperand` of the next product, into the shared storage
/// of its Mma (a ResidentOperand), converted to the operand's element type.
///
/// Contract
///   - Each element of the warp tile is written once, at stage 0 on; nothing else is touched. The
///     element in row i, column j of the accumulators becomes operand element (i, j), or (j, i)
///     where transposed; operand A counts (m, k), operand B counts (k, n).
///   - Neighbours that are contiguous in both are converted and written together.
///   - No barrier: the main loop of the next product publishes the operand; that all threads have
///     finished reading the operand written before is the caller's to see to (a multistage main
///     loop ends with a barrier).
///
/// \tparam Mma_         threadblock-level Mma that reads the operand; its k has to hold the columns
///                      (rows where transposed): tiles * kK, for A up to ResidentOperand::kExtent
/// \tparam kOperand     which operand it is
/// \tparam Map_         AccumulatorMap of the warp-level operator that computed the accumulators
/// \tparam kTransposed  whether rows and columns change places
///
/// The address comes from the layout functor of the shared storage, which agrees with what the
/// stock iterators write for every stage.
template <class Mma_, cutlass::gemm::Operand kOperand, class Map_, bool kTransposed = false>
class SmemOperandWriter {
 public:
  using Mma = Mma_;
  using Map = Map_;
  using SharedStorage = typename Mma::Base::SharedStorage;
  using Operand = detail::OperandOf<Mma, kOperand>;
  using Element = typename Operand::Element;
  using Layout = typename Operand::Layout;
  using Fragment = typename Map::Fragment;

 private:
  using Run = detail::ContiguousRun<Layout>;
  /// Whether neighbouring accumulators of a row (else: of a column) are contiguous in the operand.
  static constexpr bool kAlongColumns = Run::kColumns != kTransposed;

  static constexpr int smaller(int a, int b) { return a < b ? a : b; }
  /// Greatest power of two that divides `n`.
  static constexpr int alignment(int n) { return n & -n; }

  static constexpr int kLeading = Run::kColumns ? Operand::Shape::kColumn : Operand::Shape::kRow;
  static constexpr int kContiguous =
      Run::kVector ? Run::kVector
                   : smaller(alignment(kLeading), 128 / cutlass::sizeof_bits<Element>::value);

 public:
  /// Elements a write.
  static constexpr int kVector =
      smaller(kContiguous, kAlongColumns ? Map::kColumnRun : Map::kRowRun);

  /// \param row, column  first row and column of the warp's tile among all accumulators
  CUTLASS_DEVICE SmemOperandWriter(SharedStorage &shared_storage, int row, int column, int lane)
      : ref_(Operand::ref(shared_storage)), origin_(Map::origin(lane)) {
    origin_.row() += row;
    origin_.column() += column;
  }

  CUTLASS_DEVICE void operator()(Fragment const &accumulators) {
    constexpr int kRowStep = kAlongColumns ? 1 : kVector;
    constexpr int kColumnStep = kAlongColumns ? kVector : 1;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Map::kRowsPerThread; r += kRowStep) {
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < Map::kColumnsPerThread; c += kColumnStep) {
        write(accumulators, r, c);
      }
    }
  }

 private:
  CUTLASS_DEVICE void write(Fragment const &accumulators, int r, int c) {
    cutlass::Array<typename Fragment::Element, kVector> vector;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kVector; ++i) {
      vector[i] = accumulators[Map::index(kAlongColumns ? r : r + i, kAlongColumns ? c + i : c)];
    }
    cutlass::NumericArrayConverter<Element, typename Fragment::Element, kVector> convert;
    int const row = origin_.row() + Map::row(r);
    int const column = origin_.column() + Map::column(c);
    auto const coord =
        kTransposed ? cutlass::MatrixCoord(column, row) : cutlass::MatrixCoord(row, column);
    using Vector = cutlass::AlignedArray<Element, kVector>;
    auto const converted = convert(vector);
    *reinterpret_cast<Vector *>(ref_.data() + ref_.offset(coord)) =
        reinterpret_cast<Vector const &>(converted);
  }

  cutlass::TensorRef<Element, Layout> ref_;
  cutlass::MatrixCoord origin_;
};

}  // namespace threadblock
}  // namespace gemm
}  // namespace cutlass_ext
