/// @file
/// Iterators that visit nothing, for an operand that needs no copying.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/layout/pitch_linear.h"

namespace cutlass_ext {
namespace transform {
namespace threadblock {

/// What a NullTileIterator loads.
struct NullFragment {
  static constexpr int kElements = 0;
  CUTLASS_HOST_DEVICE void clear() {}
};

/// Models the concepts of both stock iterators over tiles in global memory (PredicatedTileIterator
/// and PredicatedTileAccessIterator) for a tile without any access. Keeps those types of `Base`
/// from which stock Mmas compute the size of an access.
template <class Base>
class NullTileIterator {
 public:
  using Shape = typename Base::Shape;
  using Element = typename Base::Element;
  using Layout = typename Base::Layout;
  using TensorCoord = typename Base::TensorCoord;
  using AccessType = typename Base::AccessType;
  using Pointer = typename Base::Pointer;
  using LongIndex = typename Layout::LongIndex;
  using Fragment = NullFragment;

  struct Params {
    Params() = default;
    CUTLASS_HOST_DEVICE explicit Params(Layout const &) {}
  };

  struct ThreadMap {
    using Iterations = cutlass::layout::PitchLinearShape<0, 0>;
    static constexpr int kElementsPerAccess = Base::ThreadMap::kElementsPerAccess;
  };

  /// As in PredicatedTileAccessIterator; PredicatedTileIterator does not always say.
  static constexpr int kAccessesPerVector =
      ThreadMap::kElementsPerAccess / Base::AccessType::kElements;

  CUTLASS_HOST_DEVICE void set_iteration_index(int) {}
  CUTLASS_HOST_DEVICE void add_pointer_offset(LongIndex) {}
  CUTLASS_HOST_DEVICE void add_tile_offset(TensorCoord const &) {}
  CUTLASS_HOST_DEVICE void clear_mask(bool = true) {}
  CUTLASS_HOST_DEVICE AccessType *get() const { return nullptr; }
  CUTLASS_HOST_DEVICE bool valid() const { return false; }
  CUTLASS_HOST_DEVICE void load(Fragment &) {}
  CUTLASS_HOST_DEVICE NullTileIterator &operator++() { return *this; }
};

/// The same for iterators that write tiles to shared memory.
template <class Base>
class NullSmemIterator {
 public:
  using Element = typename Base::Element;
  using Layout = typename Base::Layout;
  using TensorCoord = typename Layout::TensorCoord;

  template <class TensorRef>
  CUTLASS_HOST_DEVICE NullSmemIterator(TensorRef const &, int) {}

  CUTLASS_HOST_DEVICE void set_iteration_index(int) {}
  CUTLASS_HOST_DEVICE void add_tile_offset(TensorCoord const &) {}
  CUTLASS_HOST_DEVICE Element *get() const { return nullptr; }
  CUTLASS_HOST_DEVICE void store(NullFragment const &) {}
  CUTLASS_HOST_DEVICE NullSmemIterator &operator++() { return *this; }
};

/// Hands a NullFragment on.
struct NullTransform {
  CUTLASS_HOST_DEVICE NullFragment operator()(NullFragment fragment) const { return fragment; }
};

}  // namespace threadblock
}  // namespace transform
}  // namespace cutlass_ext
