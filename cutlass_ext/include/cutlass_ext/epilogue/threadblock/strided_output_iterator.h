/// @file
/// An output tile iterator whose rows lie where a map says.
#pragma once

#include "cutlass/arch/memory.h"
#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/predicated_tile_iterator.h"
#include "cutlass_ext/epilogue/threadblock/output_coordinates.h"
#include "cutlass_ext/epilogue/threadblock/row_map.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

/// Loads and stores the tiles of a matrix whose rows are contiguous and lie anywhere.
///
/// Concept: output tile iterator of cutlass::epilogue::threadblock, wherever PredicatedTileIterator
/// stands: an epilogue's destination (WithOutputTileIterator) and its source. Position, predicates
/// and steps are the stock iterator's; only the addresses are its own, so that a permutation known
/// at run time costs one division a row and no pass over the output.
///
/// Contract
///   - Row r, column c of the matrix is pointer[row_map(r) + c], with 64-bit offsets; `row_map` is
///     asked of rows within the extent only, once a row, step and thread.
///   - Touched are the sectors that the stock iterator touches in each row.
///   - Columns are guarded by vectors: the column extent, what the map returns, and the pointer
///     are multiples of kElementsPerAccess elements (16 bytes are enough for longer vectors).
///
/// \tparam ThreadMap_  output thread map
/// \tparam Element_    of the matrix
/// \tparam RowMap_     concept RowMap (row_map.h)
template <class ThreadMap_, class Element_, class RowMap_>
class StridedOutputIterator
    : private cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap_, Element_> {
  using Base = cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap_, Element_>;

 public:
  using ThreadMap = ThreadMap_;
  using Element = Element_;
  using RowMap = RowMap_;
  using Base::kElementsPerAccess;
  using Base::kIterations;
  using Base::kThreads;
  using typename Base::AccessType;
  using typename Base::ConstTensorRef;
  using typename Base::Fragment;
  using typename Base::Index;
  using typename Base::Layout;
  using typename Base::LongIndex;
  using typename Base::Mask;
  using typename Base::Shape;
  using typename Base::TensorCoord;
  using typename Base::TensorRef;

  using Base::clear_mask;
  using Base::extent_column;
  using Base::extent_row;
  using Base::get_mask;
  using Base::set_mask;
  using Base::thread_start;
  using Base::thread_start_column;
  using Base::thread_start_row;

  struct Params {
    RowMap row_map;

    Params() = default;
    CUTLASS_HOST_DEVICE Params(RowMap const &row_map) : row_map(row_map) {}
    /// As stock kernels make it; for maps that are a stride.
    CUTLASS_HOST_DEVICE Params(Layout const &layout) : row_map{layout.stride(0)} {}
  };

  /// \param pointer    first element of the matrix; null accesses nothing
  /// \param extent     rows and columns of the matrix
  /// \param offset     of the threadblock's tile
  CUTLASS_DEVICE StridedOutputIterator(Params const &params, Element *pointer, TensorCoord extent,
                                       int thread, TensorCoord offset = TensorCoord(),
                                       int const * = nullptr)
      : Base(typename Base::Params(Layout(0)), pointer, extent, thread, offset),
        row_map_(params.row_map),
        pointer_(pointer) {}

  CUTLASS_HOST_DEVICE void add_pointer_offset(LongIndex elements) { pointer_ += elements; }

  CUTLASS_DEVICE void load(Fragment &fragment) const { load_with_byte_offset(fragment, 0); }

  CUTLASS_DEVICE void load_with_byte_offset(Fragment &fragment, int64_t bytes) const {
    auto *accesses = reinterpret_cast<AccessType *>(&fragment);
    for_each_address(bytes, [&](int n, void *address, bool guard) {
      cutlass::arch::global_load<AccessType, sizeof(AccessType)>(accesses[n], address, guard);
    });
  }

  CUTLASS_DEVICE void store(Fragment const &fragment) const { store_with_byte_offset(fragment, 0); }

  CUTLASS_DEVICE void store_with_byte_offset(Fragment const &fragment, int64_t bytes) const {
    auto const *accesses = reinterpret_cast<AccessType const *>(&fragment);
    for_each_address(bytes, [&](int n, void *address, bool guard) {
      cutlass::arch::global_store<AccessType, sizeof(AccessType)>(accesses[n], address, guard);
    });
  }

  /// Calls f(n, address, guard) for each access n of this step; the address means something where
  /// `guard` holds.
  template <class F>
  CUTLASS_DEVICE void for_each_address(int64_t bytes, F const &f) const {
    using Coordinates = OutputCoordinates<ThreadMap>;
    Mask mask;
    get_mask(mask);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Coordinates::kRows; ++r) {
      int const row = thread_start_row() + Coordinates::row_offset(r);
      bool const exists = row < extent_row();
      Element *const first = pointer_ + (exists ? row_map_(row) : 0) + thread_start_column();
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < Coordinates::kColumns; ++c) {
        f(r * Coordinates::kColumns + c,
          reinterpret_cast<char *>(first + Coordinates::column_offset(c)) + bytes,
          exists && mask.predicates[c]);
      }
    }
  }

  CUTLASS_HOST_DEVICE StridedOutputIterator &operator++() {
    Base::operator++();
    return *this;
  }
  CUTLASS_HOST_DEVICE StridedOutputIterator &operator+=(int steps) {
    Base::operator+=(steps);
    return *this;
  }

 private:
  RowMap row_map_;
  Element *pointer_;
};

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
