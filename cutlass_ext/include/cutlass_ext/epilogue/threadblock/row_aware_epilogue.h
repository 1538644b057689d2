/// @file
/// A stock epilogue whose output operator knows which row and column it computes.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/epilogue.h"

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

namespace detail {

/// A stock epilogue with another output operator.
template <class Epilogue, class OutputOp>
struct WithOutputOp {
  static_assert(sizeof(Epilogue) == 0,
                "RowAwareEpilogue takes cutlass::epilogue::threadblock::Epilogue");
};

template <class Shape, class WarpMma, int kPartitionsK, class OutputTileIterator,
          class AccumulatorFragmentIterator, class WarpTileIterator, class SharedLoadIterator,
          class StockOutputOp, class Padding, int kFragmentsPerPartition, int kUnroll,
          class OutputOp>
struct WithOutputOp<cutlass::epilogue::threadblock::Epilogue<
                        Shape, WarpMma, kPartitionsK, OutputTileIterator,
                        AccumulatorFragmentIterator, WarpTileIterator, SharedLoadIterator,
                        StockOutputOp, Padding, kFragmentsPerPartition, kUnroll>,
                    OutputOp> {
  using Type = cutlass::epilogue::threadblock::Epilogue<
      Shape, WarpMma, kPartitionsK, OutputTileIterator, AccumulatorFragmentIterator,
      WarpTileIterator, SharedLoadIterator, OutputOp, Padding, kFragmentsPerPartition>;
};

}  // namespace detail

/// Stores output(i, j) = op(i, j, accumulator(i, j)) for one threadblock tile.
///
/// Stock epilogues hand the output operator nothing but accumulators. Their public call with a
/// user's source aspect, though, lets that aspect apply the operator; this one has no source and
/// follows the output iterator to know the coordinates.
///
/// Contract
///   - `op(row, column, accumulators)` gets the coordinates, in the output tensor, of the first of
///     kElementsPerAccess accumulators in a row, and returns as many output elements. What it
///     returns for (row, column) is stored there.
///   - Rows from the extent on reach `op` too, and are not stored: per-row data has to be guarded.
///   - Every element of the output tile in range is stored once. The first thing that happens is a
///     barrier: shared storage may overlay what a main loop has finished with.
///
/// \tparam StockEpilogue  cutlass::epilogue::threadblock::Epilogue
/// \tparam OutputOp_      copyable; `Array<Output, n> operator()(int row, int column,
///                        Array<Accumulator, n> const &) const`, n = kElementsPerAccess
template <class StockEpilogue, class OutputOp_>
class RowAwareEpilogue {
 public:
  using OutputOp = OutputOp_;
  using Epilogue = typename detail::WithOutputOp<StockEpilogue, OutputOp>::Type;
  using SharedStorage = typename Epilogue::Base::SharedStorage;
  using OutputTileIterator = typename Epilogue::OutputTileIterator;
  using AccumulatorTile = typename Epilogue::AccumulatorTile;
  static constexpr int kElementsPerAccess = Epilogue::kElementsPerAccess;

  // Stock factories do not check it: of a tile 96 columns wide over four warps they store 64.
  static_assert(OutputTileIterator::Fragment::kElements * OutputTileIterator::kIterations *
                        Epilogue::kBlockThreads ==
                    Epilogue::Shape::kM * Epilogue::Shape::kN,
                "the output iterator's thread map does not cover the tile: choose a tile whose "
                "extents are powers of two");

  CUTLASS_DEVICE RowAwareEpilogue(SharedStorage &shared_storage, int thread, int warp, int lane)
      : epilogue_(shared_storage, thread, warp, lane) {}

  CUTLASS_DEVICE void operator()(OutputOp const &op, OutputTileIterator destination,
                                 AccumulatorTile const &accumulators) {
    epilogue_(op, destination, accumulators, Coordinates(destination));
  }

 private:
  /// Source aspect (concept of cutlass::epilogue::threadblock::Epilogue) without a source.
  class Coordinates {
   public:
    CUTLASS_DEVICE explicit Coordinates(OutputTileIterator destination) : position_(destination) {}

    CUTLASS_DEVICE void load() {}

    CUTLASS_DEVICE void apply_output_operator(
        typename OutputTileIterator::Fragment &output, OutputOp const &op,
        typename Epilogue::SharedLoadIterator::Fragment const &accumulators) {
      using ThreadMap = typename OutputTileIterator::ThreadMap;
      using Iterations = typename ThreadMap::Iterations;
      using Delta = typename ThreadMap::Delta;
      auto *results = reinterpret_cast<typename Epilogue::OutputAccessType *>(&output);
      auto const *operands =
          reinterpret_cast<typename Epilogue::AccumulatorAccessType const *>(&accumulators);
      CUTLASS_PRAGMA_UNROLL
      for (int cluster = 0; cluster < Iterations::kCluster; ++cluster) {
        CUTLASS_PRAGMA_UNROLL
        for (int group = 0; group < Iterations::kGroup; ++group) {
          CUTLASS_PRAGMA_UNROLL
          for (int r = 0; r < Iterations::kRow; ++r) {
            int const row = position_.thread_start_row() + r * Delta::kRow + group * Delta::kGroup +
                            cluster * Delta::kCluster;
            int const first = (r + Iterations::kRow * (group + Iterations::kGroup * cluster)) *
                              Iterations::kColumn;
            CUTLASS_PRAGMA_UNROLL
            for (int c = 0; c < Iterations::kColumn; ++c) {
              int const column = position_.thread_start_column() + c * Delta::kColumn;
              results[first + c] = op(row, column, operands[first + c]);
            }
          }
        }
      }
      ++position_;
    }

   private:
    OutputTileIterator position_;
  };

  Epilogue epilogue_;
};

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
