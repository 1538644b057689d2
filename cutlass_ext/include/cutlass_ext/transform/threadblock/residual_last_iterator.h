/// @file
/// Stock iterators over tiles in global memory, with the partial tile where it belongs: last.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/layout/matrix.h"
#include "cutlass/layout/pitch_linear.h"
#include "cutlass/transform/threadblock/predicated_tile_access_iterator.h"
#include "cutlass/transform/threadblock/predicated_tile_iterator.h"

#include CUDA_STD_HEADER(cassert)

namespace cutlass_ext {
namespace transform {
namespace threadblock {

namespace detail {

/// Tile extents in the order of the layout's coordinates.
template <class Shape, class Layout>
struct TileExtent {
  static_assert(sizeof(Shape) == 0,
                "ResidualLast works on pitch-linear, row-major and column-major tensors");
};
template <class Shape>
struct TileExtent<Shape, cutlass::layout::PitchLinear> {
  CUTLASS_HOST_DEVICE static constexpr int of(int rank) {
    return rank == 0 ? Shape::kContiguous : Shape::kStrided;
  }
};
template <class Shape>
struct TileExtent<Shape, cutlass::layout::RowMajor> {
  CUTLASS_HOST_DEVICE static constexpr int of(int rank) {
    return rank == 0 ? Shape::kRow : Shape::kColumn;
  }
};
template <class Shape>
struct TileExtent<Shape, cutlass::layout::ColumnMajor> {
  CUTLASS_HOST_DEVICE static constexpr int of(int rank) {
    return rank == 0 ? Shape::kRow : Shape::kColumn;
  }
};

/// A position on the tiles along the advance dimension, and the stock iterator that stands there.
///
/// The stock iterator is built for an extent rounded up to whole tiles, so that it considers no
/// tile partial; its own way of moving (and its special first step) is never used. A move adds to
/// its pointer and sets its predicates: those of a whole tile, those of the last tile as a second
/// stock iterator computes them, or none.
template <class Base>
class ResidualLastPosition {
 public:
  using Shape = typename Base::Shape;
  using Element = typename Base::Element;
  using Layout = typename Base::Layout;
  using Index = typename Base::Index;
  using LongIndex = typename Base::LongIndex;
  using TensorRef = typename Base::TensorRef;
  using TensorView = typename Base::TensorView;
  using TensorCoord = typename Base::TensorCoord;
  using Pointer = typename Base::Pointer;
  using NonConstPointer = typename Base::NonConstPointer;
  using ThreadMap = typename Base::ThreadMap;
  using AccessType = typename Base::AccessType;
  using Mask = typename Base::Mask;

  static constexpr int kAdvanceRank = Base::kAdvanceRank;
  /// As in PredicatedTileAccessIterator; PredicatedTileIterator does not always say.
  static constexpr int kAccessesPerVector = ThreadMap::kElementsPerAccess / AccessType::kElements;
  static constexpr bool kResidualLast = true;

  /// Of one tensor, built on the host.
  struct Params {
    typename Base::Params base;
    LongIndex tile_stride;  ///< elements from tile to tile

    Params() = default;
    CUTLASS_HOST_DEVICE Params(Layout const &layout) : base(layout) {
      TensorCoord step(0, 0);
      step[kAdvanceRank] = kTileExtent;
      tile_stride = layout(step);
    }
  };

  CUTLASS_HOST_DEVICE ResidualLastPosition(Params const &params, Pointer pointer,
                                           TensorCoord const &extent, int thread,
                                           TensorCoord const &offset)
      : base_(params.base, pointer, whole_tiles(extent, offset), thread, offset),
        params_(params),
        pointer_(pointer),
        extent_(extent),
        thread_(thread),
        offset_(offset) {
    compute_masks();
    select_mask();
  }

  /// Tiles along the advance dimension, from the threadblock offset on, the partial one included.
  CUTLASS_HOST_DEVICE int tiles() const { return tiles_; }

  /// The current one; it may lie outside 0 ... tiles() - 1, where every access is masked.
  CUTLASS_HOST_DEVICE int tile() const { return tile_; }

  /// Goes to any tile and enables its accesses.
  CUTLASS_HOST_DEVICE void seek(int tile) {
    cleared_ = false;
    move(tile - tile_);
  }

  /// Goes back `count` tiles and enables that tile's accesses.
  CUTLASS_HOST_DEVICE void rewind(int count) { seek(tile_ - count); }

  /// Moves by whole tiles, to either side, along both dimensions. Across the advance dimension it
  /// costs as much as a new iterator.
  CUTLASS_HOST_DEVICE void add_tile_offset(TensorCoord const &tiles) {
    if (tiles[1 - kAdvanceRank] != 0) {
      move_across(tiles[1 - kAdvanceRank]);
    }
    move(tiles[kAdvanceRank]);
  }

  /// Masks every access until seek() or rewind(), moves included: stock Mmas clear once, and go on
  /// to move.
  CUTLASS_HOST_DEVICE void clear_mask(bool enable = true) {
    cleared_ = cleared_ || enable;
    base_.clear_mask(enable);
  }

  CUTLASS_HOST_DEVICE void get_mask(Mask &mask) { base_.get_mask(mask); }
  CUTLASS_HOST_DEVICE void set_mask(Mask const &mask) { base_.set_mask(mask); }

  CUTLASS_HOST_DEVICE void add_pointer_offset(LongIndex offset) {
    base_.add_pointer_offset(offset);
    pointer_ += offset;
  }

 protected:
  static constexpr int kTileExtent = TileExtent<Shape, Layout>::of(kAdvanceRank);
  static constexpr int kOtherExtent = TileExtent<Shape, Layout>::of(1 - kAdvanceRank);

  /// Moves along the advance dimension.
  CUTLASS_HOST_DEVICE void move(int tiles) {
    tile_ += tiles;
    base_.add_pointer_offset(tiles * params_.tile_stride);
    select_mask();
  }

  Base base_;

 private:
  /// Moves across the advance dimension: predicates have to be computed anew.
  CUTLASS_HOST_DEVICE void move_across(int tiles) {
    offset_[1 - kAdvanceRank] += tiles * kOtherExtent;
    base_ = Base(params_.base, pointer_, whole_tiles(extent_, offset_), thread_, offset_);
    base_.add_pointer_offset(tile_ * params_.tile_stride);
    compute_masks();
    select_mask();
  }

  CUTLASS_HOST_DEVICE static int count_tiles(TensorCoord const &extent, TensorCoord const &offset) {
    int const length = extent[kAdvanceRank] - offset[kAdvanceRank];
    return length > 0 ? (length + kTileExtent - 1) / kTileExtent : 0;
  }

  /// The extent, rounded up to whole tiles from `offset` on.
  CUTLASS_HOST_DEVICE static TensorCoord whole_tiles(TensorCoord extent,
                                                     TensorCoord const &offset) {
    extent[kAdvanceRank] = offset[kAdvanceRank] + count_tiles(extent, offset) * kTileExtent;
    return extent;
  }

  /// Takes the masks of a whole tile from base_, those of the last tile from another iterator.
  CUTLASS_HOST_DEVICE void compute_masks() {
    tiles_ = count_tiles(extent_, offset_);
    base_.get_mask(whole_mask_);
    TensorCoord last_offset = offset_;
    last_offset[kAdvanceRank] += (tiles_ - 1) * kTileExtent;
    Base last(params_.base, pointer_, extent_, thread_, last_offset);
    last.get_mask(last_mask_);
  }

  CUTLASS_HOST_DEVICE void select_mask() {
    bool const last = tile_ == tiles_ - 1;
    // Word by word: a choice between the two arrays would force both into memory.
    Mask mask;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Mask::kElements; ++i) {
      mask[i] = last ? last_mask_[i] : whole_mask_[i];
    }
    base_.set_mask(mask);
    base_.clear_mask(cleared_ || tile_ < 0 || tile_ >= tiles_);
  }

  Params params_;
  Mask whole_mask_;
  Mask last_mask_;
  int tile_ = 0;
  int tiles_;
  bool cleared_ = false;
  // Needed across the advance dimension only; where nobody goes there they take no registers.
  Pointer pointer_;
  TensorCoord extent_;
  int thread_;
  TensorCoord offset_;
};

}  // namespace detail

/// The stock iterator `Base` over tiles along its advance dimension, in ascending order of address,
/// the partial tile last; with seek and rewind.
///
/// Stock iterators visit the partial tile first, and forget where it was: they cannot be led back,
/// and two operands of one product have to have the same residue.
///
/// Contract
///   - Visiting tiles 0 ... tiles() - 1 accesses every element in range once and no address
///     outside; at each tile pointer and predicates are those of a fresh stock iterator built
///     there. Tiles outside that range access nothing: an extent of zero has no tile.
///   - Predicates guard vectors (AccessType) by their first element, as in stock iterators:
///     extents along the contiguous dimension are multiples of the vector.
///   - clear_mask() holds until seek() or rewind().
///   - A stock multistage Mma needs WithZeroFill (gemm/threadblock/rebind_mma.h) with it: otherwise
///     stale shared memory stands in for what the last tile lacks. StagedMma insists.
///
/// \tparam Base  cutlass::transform::threadblock::PredicatedTileAccessIterator or
///               PredicatedTileIterator, without gather or permutation
template <class Base>
class ResidualLast {
  static_assert(sizeof(Base) == 0,
                "ResidualLast wraps cutlass::transform::threadblock::PredicatedTileAccessIterator "
                "or PredicatedTileIterator without gather and permutation");
};

/// Over vectors: the iterator that multistage Mmas copy with.
template <class Shape, class Element, class Layout, int kAdvanceRank, class ThreadMap,
          class AccessType>
class ResidualLast<cutlass::transform::threadblock::PredicatedTileAccessIterator<
    Shape, Element, Layout, kAdvanceRank, ThreadMap, AccessType, false, cutlass::layout::NoPermute>>
    : public detail::ResidualLastPosition<
          cutlass::transform::threadblock::PredicatedTileAccessIterator<
              Shape, Element, Layout, kAdvanceRank, ThreadMap, AccessType, false,
              cutlass::layout::NoPermute>> {
 public:
  using Base = cutlass::transform::threadblock::PredicatedTileAccessIterator<
      Shape, Element, Layout, kAdvanceRank, ThreadMap, AccessType, false,
      cutlass::layout::NoPermute>;
  using Position = detail::ResidualLastPosition<Base>;
  using typename Position::Params;
  using typename Position::Pointer;
  using typename Position::TensorCoord;

  /// \param extent  of the tensor; \param offset  where this threadblock's tiles begin
  CUTLASS_HOST_DEVICE ResidualLast(Params const &params, Pointer pointer, TensorCoord extent,
                                   int thread, TensorCoord const &offset = TensorCoord(0, 0))
      : Position(params, pointer, extent, thread, offset) {}

  CUTLASS_HOST_DEVICE void set_iteration_index(int index) {
    this->base_.set_iteration_index(index);
  }
  CUTLASS_HOST_DEVICE AccessType *get() const { return this->base_.get(); }
  CUTLASS_HOST_DEVICE bool valid() { return this->base_.valid(); }

  /// To the next vector of this tile.
  CUTLASS_HOST_DEVICE ResidualLast &operator++() {
    ++this->base_;
    return *this;
  }
};

/// Over fragments: the iterator that two-stage Mmas load with.
template <class Shape, class Element, class Layout, int kAdvanceRank, class ThreadMap,
          int kAccessSize>
class ResidualLast<cutlass::transform::threadblock::PredicatedTileIterator<
    Shape, Element, Layout, kAdvanceRank, ThreadMap, kAccessSize, false,
    cutlass::layout::NoPermute>>
    : public detail::ResidualLastPosition<cutlass::transform::threadblock::PredicatedTileIterator<
          Shape, Element, Layout, kAdvanceRank, ThreadMap, kAccessSize, false,
          cutlass::layout::NoPermute>> {
 public:
  using Base =
      cutlass::transform::threadblock::PredicatedTileIterator<Shape, Element, Layout, kAdvanceRank,
                                                              ThreadMap, kAccessSize, false,
                                                              cutlass::layout::NoPermute>;
  using Position = detail::ResidualLastPosition<Base>;
  using Fragment = typename Base::Fragment;
  using typename Position::Params;
  using typename Position::Pointer;
  using typename Position::TensorCoord;

  /// \param extent  of the tensor; \param offset  where this threadblock's tiles begin
  CUTLASS_HOST_DEVICE ResidualLast(Params const &params, Pointer pointer, TensorCoord extent,
                                   int thread, TensorCoord const &offset = TensorCoord(0, 0))
      : Position(params, pointer, extent, thread, offset) {}

  /// To the next tile.
  CUTLASS_HOST_DEVICE ResidualLast &operator++() {
    this->move(1);
    return *this;
  }

  CUTLASS_DEVICE void load(Fragment &fragment) { this->base_.load(fragment); }
  CUTLASS_DEVICE void store(Fragment const &fragment) { this->base_.store(fragment); }
};

}  // namespace threadblock
}  // namespace transform
}  // namespace cutlass_ext
