/// @file
/// A source tensor for a stock epilogue: loaded ahead, of any type, with coordinates.
#pragma once

#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/platform/platform.h"
#include "cutlass_ext/epilogue/threadblock/output_coordinates.h"

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

/// Makes an epilogue store output(i, j) = op(i, j, accumulator(i, j), source(i, j)).
///
/// Concept: SourceAspect of cutlass::epilogue::threadblock::Epilogue, whose public call takes it.
/// The aspects that come with CUTLASS load the source of a step at its beginning, in the type of
/// the output, and tell the operator nothing of where it is. This one follows the destination to
/// know the coordinates, reads with an iterator of its own, and asks for the source of the next
/// step before the barriers of this one, so that a whole step hides the latency.
///
/// Contract
///   - `op(row, column, accumulators, source)` gets the coordinates, in the output tensor, of the
///     first of kElementsPerAccess elements in a row; what it returns is stored there.
///   - The source of step i + kDepth - 1 is asked for before the first barrier of step i; each
///     element in range is read once, nothing outside. Constructed early, with kDepth 2, the first
///     step's load flies while the main loop ends.
///   - Rows from the extent on, and columns that the source iterator's predicates exclude, reach
///     `op` with a source of zeros; they are not stored. Per-row data has to be guarded.
///   - Source and destination may be the same memory if each element keeps its address.
///   - Columns are guarded by vectors: the extent, the strides and the pointer of the source are
///     multiples of kElementsPerAccess elements (16 bytes are enough for longer vectors).
///
/// \tparam Epilogue        cutlass::epilogue::threadblock::Epilogue; its OutputOp is copyable with
///                         `Array<Output, n> operator()(int row, int column,
///                         Array<Accumulator, n> const &, Array<Source, n> const &) const`
///                         (thread::RowAgnostic makes one of a stock operator)
/// \tparam SourceIterator  output tile iterator of the same thread map, of any element
/// \tparam kDepth          fragments in registers: 2 loads a step ahead, 1 does as CUTLASS does
template <class Epilogue, class SourceIterator, int kDepth = 2>
class PipelinedSource {
 public:
  using OutputTileIterator = typename Epilogue::OutputTileIterator;
  using ThreadMap = typename OutputTileIterator::ThreadMap;
  static constexpr int kElementsPerAccess = OutputTileIterator::kElementsPerAccess;

  static_assert(kDepth == 1 || kDepth == 2,
                "PipelinedSource holds one fragment, or two to load a step ahead");
  static_assert(
      cutlass::platform::is_same<typename SourceIterator::ThreadMap, ThreadMap>::value,
      "source and destination need the same thread map: rebind the destination's iterator with "
      "the source's element");
  static_assert(kCoversTile<Epilogue>,
                "the output iterator's thread map does not cover the tile: choose a tile whose "
                "extents are powers of two");

  /// \param source       at the tile's beginning
  /// \param destination  what the epilogue is called with; followed, not accessed
  CUTLASS_DEVICE PipelinedSource(SourceIterator source, OutputTileIterator destination)
      : source_(source), destination_(destination) {
    if (kDepth == 2) {
      fetch(ahead_);
    }
  }

  /// What the epilogue calls at the beginning of each step.
  CUTLASS_DEVICE void load() {
    if (kDepth == 2) {
      now_ = ahead_;
    }
    // A load past the last step would read another tile, which its block may be writing.
    if (step_ + kDepth - 1 < OutputTileIterator::kIterations) {
      fetch(kDepth == 2 ? ahead_ : now_);
    }
    ++step_;
  }

  /// What the epilogue calls between a step's barriers and its store.
  template <class OutputOp>
  CUTLASS_DEVICE void apply_output_operator(
      typename OutputTileIterator::Fragment &output, OutputOp const &op,
      typename Epilogue::SharedLoadIterator::Fragment const &accumulators) {
    auto *results = reinterpret_cast<typename Epilogue::OutputAccessType *>(&output);
    auto const *operands =
        reinterpret_cast<typename Epilogue::AccumulatorAccessType const *>(&accumulators);
    auto const *sources = reinterpret_cast<SourceAccess const *>(&now_);
    OutputCoordinates<ThreadMap>::for_each(
        destination_.thread_start(),
        [&](int n, int row, int column) { results[n] = op(row, column, operands[n], sources[n]); });
    ++destination_;
  }

 private:
  using Fragment = typename SourceIterator::Fragment;
  using SourceAccess = cutlass::Array<typename SourceIterator::Element, kElementsPerAccess>;

  CUTLASS_DEVICE void fetch(Fragment &fragment) {
    // Loads leave what their predicate excludes as it was.
    fragment.clear();
    source_.load(fragment);
    ++source_;
  }

  SourceIterator source_;
  OutputTileIterator destination_;
  Fragment now_;
  Fragment ahead_;
  int step_ = 0;
};

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
