/// @file
/// A warp's accumulators to global memory in row vectors, without shared memory.
#pragma once

#include "cutlass/arch/memory.h"
#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/numeric_types.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace epilogue {
namespace warp {

/// Transposes four values over four neighbouring lanes: value i of lane q becomes value q of lane
/// i. All lanes of the warp take part.
CUTLASS_DEVICE void transpose_in_quads(cutlass::Array<uint32_t, 4> &values, int lane) {
  CUTLASS_PRAGMA_UNROLL
  for (int bit = 1; bit < 4; bit *= 2) {
    bool const upper = lane & bit;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) == 0) {  // exchanges the blocks off the diagonal
        uint32_t const received =
            __shfl_xor_sync(0xffffffffu, upper ? values[i] : values[i | bit], bit);
        values[i] = upper ? received : values[i];
        values[i | bit] = upper ? values[i | bit] : received;
      }
    }
  }
}

/// Stores a warp tile whose accumulators lie as 16x8 instructions leave them.
///
/// Stock epilogues carry accumulators through shared memory, where the whole block waits twice for
/// every few rows. Of 16x8 instructions four neighbouring lanes hold eight neighbouring columns of
/// a row: of 16-bit elements a transposition among the four gives each lane 16 bytes in a row, of
/// 32-bit ones they fill a sector as they are.
///
/// Contract: element (row, column) of the tile in range is stored once, everything else is left
/// alone; full 32-byte sectors where kAlignment elements are 16 bytes; no shared memory, no
/// barrier. All lanes of the warp take part.
///
/// \tparam Map_        AccumulatorMap of 16x8 instructions
/// \tparam Element_    of the output: float, or 16 bits
/// \tparam kAlignment_ elements that the address, the stride and the columns are multiples of
template <class Map_, class Element_, int kAlignment_>
class RowVectorStore {
 public:
  using Map = Map_;
  using Element = Element_;
  static constexpr int kAlignment = kAlignment_;

 private:
  static constexpr int kBits = cutlass::sizeof_bits<Element>::value;
  static constexpr bool kTransposed = kBits == 16 && kAlignment >= 8 && Map::Shape::kN % 32 == 0;
  using Pair = cutlass::Array<Element, 2>;

 public:
  static_assert(Map::kColumnRun == 2 && Map::kRowRun == 1,
                "RowVectorStore knows accumulators of 16x8 instructions: store others by a stock "
                "epilogue");
  static_assert(kBits == 16 || kBits == 32, "RowVectorStore writes elements of 16 or 32 bits");

  /// \param tile     address of the warp tile's element (0, 0)
  /// \param rows     of the output from there on; \param columns likewise
  CUTLASS_DEVICE RowVectorStore(Element *tile, int64_t stride, int rows, int columns, int lane)
      : row_(tile + Map::origin(lane).row() * stride),
        stride_(stride),
        rows_(rows - Map::origin(lane).row()),
        columns_(columns),
        lane_(lane) {}

  /// Stores value(r, c), a float, for each of a thread's rows r and columns c.
  /// Values out of range are asked for too.
  template <class Value>
  CUTLASS_DEVICE void operator()(Value value) const {
    cutlass::NumericArrayConverter<Element, float, 2> convert;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      Element *const row = row_ + Map::row(r) * stride_;
      bool const exists = Map::row(r) < rows_;
      if constexpr (kTransposed) {
        CUTLASS_PRAGMA_UNROLL
        for (int first = 0; first < Map::kColumnsPerThread; first += 8) {
          cutlass::Array<uint32_t, 4> vector;
          CUTLASS_PRAGMA_UNROLL
          for (int i = 0; i < 4; ++i) {
            int const c = first + 2 * i;
            cutlass::Array<float, 2> const pair = {value(r, c), value(r, c + 1)};
            reinterpret_cast<Pair &>(vector[i]) = convert(pair);
          }
          transpose_in_quads(vector, lane_);
          int const column = Map::column(first) + lane_ % 4 * 8;
          cutlass::arch::global_store<cutlass::Array<uint32_t, 4>, 16>(vector, row + column,
                                                                       exists && column < columns_);
        }
      } else {
        CUTLASS_PRAGMA_UNROLL
        for (int c = 0; c < Map::kColumnsPerThread; c += 2) {
          cutlass::Array<float, 2> const pair = {value(r, c), value(r, c + 1)};
          store_pair(row, Map::origin(lane_).column() + Map::column(c), exists, convert(pair));
        }
      }
    }
  }

 private:
  CUTLASS_DEVICE void store_pair(Element *row, int column, bool exists, Pair const &pair) const {
    if constexpr (kAlignment >= 2) {
      cutlass::arch::global_store<Pair, sizeof(Pair)>(pair, row + column,
                                                      exists && column < columns_);
    } else {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < 2; ++i) {
        if (exists && column + i < columns_) {
          row[column + i] = pair[i];
        }
      }
    }
  }

  Element *row_;
  int64_t stride_;
  int rows_;
  int columns_;
  int lane_;
};

}  // namespace warp
}  // namespace epilogue
}  // namespace cutlass_ext
