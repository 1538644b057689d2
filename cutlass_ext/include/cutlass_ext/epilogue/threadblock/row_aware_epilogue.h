/// @file
/// A stock epilogue whose output operator knows which row and column it computes.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass_ext/epilogue/threadblock/output_coordinates.h"
#include "cutlass_ext/epilogue/threadblock/rebind_epilogue.h"

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

/// Stores output(i, j) = op(i, j, accumulator(i, j)) for one threadblock tile.
///
/// Stock epilogues hand the output operator nothing but accumulators. Their public call with a
/// user's source aspect, though, lets that aspect apply the operator; the one here has no source
/// and follows the output iterator to know the coordinates. With a source tensor, give the call an
/// aspect that has one: PipelinedSource.
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
  using Epilogue = WithOutputOp<StockEpilogue, OutputOp>;
  using SharedStorage = typename Epilogue::Base::SharedStorage;
  using OutputTileIterator = typename Epilogue::OutputTileIterator;
  using AccumulatorTile = typename Epilogue::AccumulatorTile;
  static constexpr int kElementsPerAccess = Epilogue::kElementsPerAccess;

  static_assert(kCoversTile<Epilogue>,
                "the output iterator's thread map does not cover the tile: choose a tile whose "
                "extents are powers of two");

  CUTLASS_DEVICE RowAwareEpilogue(SharedStorage &shared_storage, int thread, int warp, int lane)
      : epilogue_(shared_storage, thread, warp, lane) {}

  CUTLASS_DEVICE void operator()(OutputOp const &op, OutputTileIterator destination,
                                 AccumulatorTile const &accumulators) {
    epilogue_(op, destination, accumulators, Coordinates(destination));
  }

  /// \param source  aspect that applies `op`: PipelinedSource<Epilogue, ...>
  template <class SourceAspect>
  CUTLASS_DEVICE void operator()(OutputOp const &op, OutputTileIterator destination,
                                 AccumulatorTile const &accumulators, SourceAspect const &source) {
    epilogue_(op, destination, accumulators, source);
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
      auto *results = reinterpret_cast<typename Epilogue::OutputAccessType *>(&output);
      auto const *operands =
          reinterpret_cast<typename Epilogue::AccumulatorAccessType const *>(&accumulators);
      OutputCoordinates<typename OutputTileIterator::ThreadMap>::for_each(
          position_.thread_start(),
          [&](int n, int row, int column) { results[n] = op(row, column, operands[n]); });
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
