/// @file
/// Where in the output each access of an epilogue's thread lies.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/matrix_coord.h"

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

/// The accesses that a thread makes in one step of an epilogue, by rows.
///
/// Output thread maps spread a thread's rows over clusters, groups and rows. What visits a
/// fragment wants them in the fragment's order, which is row-major: access n = r * kColumns + c.
///
/// \tparam ThreadMap  output thread map of cutlass::epilogue::threadblock (OutputTileThreadMap,
///                    OutputTileOptimalThreadMap and its CompactedThreadMap)
template <class ThreadMap>
struct OutputCoordinates {
  using Iterations = typename ThreadMap::Iterations;
  using Delta = typename ThreadMap::Delta;

  /// Rows of a thread in a step, and accesses in each of them.
  static constexpr int kRows = Iterations::kRow * Iterations::kGroup * Iterations::kCluster;
  static constexpr int kColumns = Iterations::kColumn;

  /// Rows from the thread's first row of the step to its row r.
  CUTLASS_HOST_DEVICE static constexpr int row_offset(int r) {
    return r % Iterations::kRow * Delta::kRow +
           r / Iterations::kRow % Iterations::kGroup * Delta::kGroup +
           r / (Iterations::kRow * Iterations::kGroup) * Delta::kCluster;
  }

  /// Columns from the thread's first column to the first element of its access c.
  CUTLASS_HOST_DEVICE static constexpr int column_offset(int c) { return c * Delta::kColumn; }

  /// Calls f(n, row, column) for each access n, in order; `start` is the thread's position in
  /// this step (thread_start() of an output tile iterator).
  template <class F>
  CUTLASS_DEVICE static void for_each(cutlass::MatrixCoord start, F const &f) {
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        f(r * kColumns + c, start.row() + row_offset(r), start.column() + column_offset(c));
      }
    }
  }
};

/// Whether an epilogue's threads visit as many elements as its tile has. Stock factories do not
/// check it: of a tile 96 columns wide over four warps they store 64.
template <class Epilogue>
inline constexpr bool kCoversTile =
    Epilogue::OutputTileIterator::Fragment::kElements * Epilogue::OutputTileIterator::kIterations *
        Epilogue::kBlockThreads ==
    Epilogue::Shape::kM * Epilogue::Shape::kN;

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
