/// @file
/// Which tiles of rows a block computes: of equal groups, of packed segments, of a list of
/// problems.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/fast_math.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// Tiles that cover an extent; for any extent, those close to 2^31 too.
CUTLASS_HOST_DEVICE constexpr int tiles_along(int extent, int tile) {
  return extent / tile + (extent % tile != 0);
}

/// One tile of rows.
struct TileWork {
  int group;          ///< batch element, segment or problem
  int member;         ///< of the group, where several share its rows (heads); else 0
  int tile;           ///< of the group, from row tile * kTileRows on
  int rows;           ///< of the group
  int64_t first_row;  ///< of the group, where groups lie one behind the other
};

/// Order of a group's tiles. Under a causal mask the last ones are the longest: they come first,
/// so that short ones fill the gaps at the end.
enum class TileOrder { kAscending, kDescending };

namespace detail {

CUTLASS_HOST_DEVICE constexpr int ordered(TileOrder order, int tile, int tiles) {
  return order == TileOrder::kAscending ? tile : tiles - 1 - tile;
}

}  // namespace detail

/// Schedulers have
///     Params                      built on the host, trivially copyable
///     Params::grid_size()         blocks that take one tile each; any other grid is right too
///     Scheduler(params, block, blocks)
///     bool next(TileWork &)       the block's next tile; false after its last. The same for all
///                                 threads of a block, without communication among them
/// and give every tile of every group to one block once, whatever the extents, zero included, and
/// the number of blocks.
///
/// Groups of equally many rows. Members of a group are neighbours: what they share is in the cache.
template <int kTileRows, TileOrder kOrder = TileOrder::kAscending>
class DenseTileScheduler {
 public:
  struct Params {
    int rows = 0;
    int count = 0;
    cutlass::FastDivmod tiles;
    cutlass::FastDivmod members;

    Params() = default;
    /// The product of groups, members and tiles is below 2^31.
    Params(int groups, int members_, int rows_)
        : rows(rows_),
          count(groups * members_ * tiles_along(rows_, kTileRows)),
          tiles(rows_ > 0 ? tiles_along(rows_, kTileRows) : 1),
          members(members_ > 0 ? members_ : 1) {}

    int grid_size() const { return count; }
  };

  CUTLASS_DEVICE DenseTileScheduler(Params const &params, int block, int blocks)
      : params_(params), index_(block), step_(blocks) {}

  CUTLASS_DEVICE bool next(TileWork &work) {
    if (index_ >= params_.count) {
      return false;
    }
    int tile_of_all;
    params_.members(tile_of_all, work.member, index_);
    int tile;
    params_.tiles(work.group, tile, tile_of_all);
    work.tile = detail::ordered(kOrder, tile, params_.tiles.divisor);
    work.rows = params_.rows;
    work.first_row = int64_t(work.group) * params_.rows;
    index_ = step_ < params_.count - index_ ? index_ + step_ : params_.count;
    return true;
  }

 private:
  Params const &params_;
  int index_;
  int step_;
};

/// Segments of a packed tensor, whose boundaries are known on the device only: row i belongs to
/// segment g where boundaries[g] <= i < boundaries[g + 1].
///
/// The host knows how many rows there are, not how many tiles: segment g is given the slots from
/// boundaries[g] / kTileRows + g on, which are enough for its tiles and one too many at most. A
/// block finds its segment by bisection; slots without a tile are passed over.
template <int kTileRows, TileOrder kOrder = TileOrder::kAscending>
class SegmentTileScheduler {
 public:
  struct Params {
    int const *boundaries = nullptr;  ///< [segments + 1], in device memory, ascending from 0
    int segments = 0;
    int slots = 0;  ///< all members' together
    cutlass::FastDivmod members;

    Params() = default;
    /// \param rows  of the packed tensor, at least the last boundary. Slots are below 2^31:
    ///              members * (rows / kTileRows + segments)
    Params(int const *boundaries_, int segments_, int members_, int rows)
        : boundaries(boundaries_),
          segments(segments_),
          slots(segments_ > 0 ? members_ * (rows / kTileRows + segments_) : 0),
          members(members_ > 0 ? members_ : 1) {}

    int grid_size() const { return slots; }
  };

  CUTLASS_DEVICE SegmentTileScheduler(Params const &params, int block, int blocks)
      : params_(params), index_(block), step_(blocks) {}

  CUTLASS_DEVICE bool next(TileWork &work) {
    while (index_ < params_.slots) {
      int slot;
      params_.members(slot, work.member, index_);
      index_ = step_ < params_.slots - index_ ? index_ + step_ : params_.slots;
      work.group = segment_of(slot);
      int const first_row = params_.boundaries[work.group];
      int const tile = slot - first_slot(work.group);
      work.rows = params_.boundaries[work.group + 1] - first_row;
      work.first_row = first_row;
      int const tiles = tiles_along(work.rows, kTileRows);
      if (tile < tiles) {
        work.tile = detail::ordered(kOrder, tile, tiles);
        return true;
      }
    }
    return false;
  }

 private:
  CUTLASS_DEVICE int first_slot(int segment) const {
    return params_.boundaries[segment] / kTileRows + segment;
  }

  /// The last segment whose slots begin at or before `slot`.
  CUTLASS_DEVICE int segment_of(int slot) const {
    int segment = 0;
    for (int above = params_.segments; above - segment > 1;) {
      int const middle = segment + (above - segment) / 2;
      if (first_slot(middle) <= slot) {
        segment = middle;
      } else {
        above = middle;
      }
    }
    return segment;
  }

  Params const &params_;
  int index_;
  int step_;
};

/// Tiles of a list of problems, or of equal ones, for persistent blocks: each takes a contiguous
/// range, so that what neighbouring tiles share stays where it is.
///
/// For kernels that look ahead it can also be walked: has_tile(), group(), tile(), advance().
class GroupedTileScheduler {
 public:
  struct Params {
    /// In device memory: each group's first tile, and at last the number of tiles; null where all
    /// groups have as many.
    int const *first_tiles = nullptr;
    int groups = 0;
    int tiles_per_group = 0;  ///< where first_tiles is null
    int tiles = 0;            ///< of all groups

    int grid_size() const { return tiles; }
  };

  CUTLASS_DEVICE GroupedTileScheduler(Params const &params, int block, int blocks)
      : params_(params),
        tile_(int(int64_t(params.tiles) * block / blocks)),
        end_(int(int64_t(params.tiles) * (block + 1) / blocks)) {
    if (has_tile() && params_.first_tiles != nullptr) {
      find_first_group();
    }
    begin_tile();
  }

  CUTLASS_DEVICE bool has_tile() const { return tile_ < end_; }
  CUTLASS_DEVICE int group() const { return group_; }
  /// Of the group, from 0.
  CUTLASS_DEVICE int tile() const { return tile_of_group_; }

  CUTLASS_DEVICE void advance() {
    ++tile_;
    begin_tile();
  }

  /// Of `work` group and tile are set: what a problem's tiles are is known to its kernel.
  CUTLASS_DEVICE bool next(TileWork &work) {
    if (!has_tile()) {
      return false;
    }
    work = TileWork();
    work.group = group_;
    work.tile = tile_of_group_;
    advance();
    return true;
  }

 private:
  /// The last group that begins at or before the first tile.
  CUTLASS_DEVICE void find_first_group() {
    for (int above = params_.groups; above - group_ > 1;) {
      int const middle = group_ + (above - group_) / 2;
      if (params_.first_tiles[middle] <= tile_) {
        group_ = middle;
      } else {
        above = middle;
      }
    }
  }

  CUTLASS_DEVICE void begin_tile() {
    if (!has_tile()) {
      return;
    }
    if (params_.first_tiles == nullptr) {
      group_ = tile_ / params_.tiles_per_group;
      tile_of_group_ = tile_ % params_.tiles_per_group;
      return;
    }
    while (tile_ >= params_.first_tiles[group_ + 1]) {
      ++group_;
    }
    tile_of_group_ = tile_ - params_.first_tiles[group_];
  }

  Params const &params_;
  int tile_;
  int end_;
  int group_ = 0;
  int tile_of_group_ = 0;
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
