/// @file
/// Copy of one tile from global to shared memory, by a stock thread map and shared-memory iterator.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/array.h"
#include "cutlass/cutlass.h"

namespace cutlass_ext {
namespace transform {
namespace threadblock {

/// What may be assumed of a tile's rows in global memory.
enum class TileAccess {
  kAligned,  ///< rows are 16-byte aligned, and their columns fill whole 16-byte vectors
  kElement   ///< nothing beyond adjacent columns
};

/// Copies a tile of `ThreadMap::Shape::kStrided` rows of `ThreadMap::Shape::kContiguous` elements.
///
/// Stock predicated iterators keep a mask for the residue tile and walk towards higher addresses.
/// A main loop that visits the partial tile first and everything else without predicates needs
/// neither: here the predicates of the partial tile are computed where it is copied.
///
/// \tparam ThreadMap  pitch-linear thread map of 16-byte vectors (of a stock DefaultMmaCore)
/// \tparam Element    element type in global and in shared memory
/// \tparam kAccess    kAligned copies by cp.async (Sm80), to be waited for; kElement copies through
///                    registers and has happened, for this thread, when the call returns
template <class ThreadMap, class Element, TileAccess kAccess>
class AsyncTileCopy {
 public:
  static constexpr int kVector = ThreadMap::kElementsPerAccess;
  using Vector = cutlass::AlignedArray<Element, kVector>;
  static_assert(sizeof(Vector) == 16, "AsyncTileCopy moves 16-byte vectors");

  /// Of one tensor, computed on the host: what the copy adds to addresses lies in constant memory
  /// then and takes no registers.
  struct Params {
    int64_t stride;  ///< elements from row to row
    int64_t step;    ///< elements from one of a thread's rows to its next
    int64_t tile;    ///< elements from tile to tile along the rows

    Params() = default;
    CUTLASS_HOST_DEVICE explicit Params(int64_t stride)
        : stride(stride),
          step(stride * ThreadMap::Delta::kStrided),
          tile(stride * ThreadMap::Shape::kStrided) {}
  };

  CUTLASS_DEVICE explicit AsyncTileCopy(int thread) {
    auto const first = ThreadMap::initial_offset(thread);
    row_ = first.strided();
    column_ = first.contiguous();
  }

  /// Where in a tile the thread's first vector is, in elements.
  CUTLASS_DEVICE int64_t thread_offset(Params const &params) const {
    return row_ * params.stride + column_;
  }

  /// Copies the tile whose address plus thread_offset is `source`. Rows from `rows` on (only where
  /// kPartialRows) and columns from `columns` on are not read; zeros are written for them. The
  /// predicate on columns costs nothing that could be measured, that on rows a few percent.
  template <bool kPartialRows, class SmemIterator>
  CUTLASS_DEVICE void copy(Params const &params, Element const *source, int rows, int columns,
                           SmemIterator destination) const {
    destination.set_iteration_index(0);
    CUTLASS_PRAGMA_UNROLL
    for (int s = 0; s < ThreadMap::Iterations::kStrided; ++s) {
      bool const row_exists = !kPartialRows || row_ + s * ThreadMap::Delta::kStrided < rows;
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < ThreadMap::Iterations::kContiguous; ++c) {
        int const offset = c * ThreadMap::Delta::kContiguous;
        copy_vector(destination.get(), source + offset, row_exists, columns - column_ - offset);
        ++destination;
      }
      source += params.step;
    }
  }

 private:
  /// Copies one vector, of which the first `columns` elements exist if its row does.
  template <class Pointer>
  CUTLASS_DEVICE static void copy_vector(Pointer destination, Element const *source,
                                         bool row_exists, int columns) {
    constexpr auto kCache = cutlass::arch::CacheOperation::Global;
    if constexpr (kAccess == TileAccess::kElement) {
      // Not a cutlass::Array: assigning an element of 16 bits to one reads 32 bits of it.
      alignas(Vector) Element elements[kVector];
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kVector; ++i) {
        elements[i] = row_exists && i < columns ? source[i] : Element(0);
      }
      *reinterpret_cast<Vector *>(destination) = reinterpret_cast<Vector const &>(elements);
    } else {
      cutlass::arch::cp_async_zfill<16, kCache>(destination, source, row_exists && columns > 0);
    }
  }

  int row_;
  int column_;
};

}  // namespace threadblock
}  // namespace transform
}  // namespace cutlass_ext
