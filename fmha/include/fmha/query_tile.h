/// @file
/// Which part of the problem a block computes: one query tile of one head.
#pragma once

#include "cutlass/cutlass.h"
#include "fmha/params.h"

namespace fmha {

/// kQueries rows of one head of one batch entry, and the key blocks that they see.
///
/// The grid has one dimension, query tiles innermost, so that no count of batch entries or heads is
/// limited by a grid dimension and the tiles that share keys and values run together.
template <int kQueries, int kKeys>
struct QueryTile {
  int batch;
  int head;
  int kv_head;
  int first_query;
  /// Keys 0 ... visible_keys-1 are seen by at least one row of the tile.
  int visible_keys;
  /// Key blocks that hold a visible key.
  int key_blocks;
  /// Of these the first, each of whose keys is seen by every row.
  int unmasked_blocks;

  static int64_t grid_size(ForwardParams const &params) {
    return int64_t(params.batch) * params.heads * tiles(params);
  }

  CUTLASS_HOST_DEVICE static int tiles(ForwardParams const &params) {
    return int((int64_t(params.queries) + kQueries - 1) / kQueries);
  }

  CUTLASS_DEVICE QueryTile(ForwardParams const &params, int block) {
    int const tiles_per_head = tiles(params);
    int tile = block % tiles_per_head;
    int const head_of_batch = block / tiles_per_head;
    batch = head_of_batch / params.heads;
    head = head_of_batch % params.heads;
    kv_head = head / (params.heads / params.kv_heads);
    if (params.causal) {
      tile = tiles_per_head - 1 - tile;  // the tiles that see the most keys start first
    }
    first_query = tile * kQueries;
    visible_keys = params.keys;
    int keys_seen_by_all = params.keys;
    if (params.causal) {
      int const end_query = first_query + min(kQueries, params.queries - first_query);
      visible_keys = min(params.keys, end_query);
      keys_seen_by_all = min(params.keys, first_query + 1);
    }
    key_blocks = (visible_keys - 1) / kKeys + (visible_keys > 0);
    unmasked_blocks = keys_seen_by_all / kKeys;
  }
};

}  // namespace fmha
