/// @file
/// Which keys a query sees.
#pragma once

#include "cutlass/cutlass.h"
#include "fmha/params.h"

namespace fmha {

/// Row i sees keys 0 ... visible_keys(i) - 1.
class PrefixMask {
 public:
  CUTLASS_DEVICE explicit PrefixMask(ForwardParams const &params)
      : keys_(params.keys), causal_(params.causal) {}

  CUTLASS_DEVICE int visible_keys(int row) const { return causal_ ? min(keys_, row + 1) : keys_; }

  /// Sets to -inf, by selection, the scores of keys that their row does not see.
  ///
  /// \tparam Map                  AccumulatorMap of the scores
  /// \param first_row, first_key  of the warp's tile
  template <class Map>
  CUTLASS_DEVICE void apply(typename Map::Fragment &scores, int first_row, int first_key,
                            int lane) const {
    auto const origin = Map::origin(lane);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      int const row = first_row + origin.row() + Map::row(r);
      int const visible = visible_keys(row) - first_key - origin.column();
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < Map::kColumnsPerThread; ++c) {
        float const score = scores[Map::index(r, c)];
        scores[Map::index(r, c)] = Map::column(c) < visible ? score : -INFINITY;
      }
    }
  }

 private:
  int keys_;
  bool causal_;
};

}  // namespace fmha
