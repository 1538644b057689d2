/// @file
/// The stream of key and value blocks through shared memory, one load ahead of the products.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/cutlass.h"
#include "cutlass/tensor_ref.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"
#include "fmha/query_tile.h"

namespace fmha {

using Access = cutlass_ext::transform::threadblock::TileAccess;

/// Loads key and value blocks in descending order, so that only the first of them is partial.
///
/// With one stage (a single buffer each), two barriers a block:
///     acquire_keys     wait for K, barrier, start loading V
///     ... scores ...
///     acquire_values   wait for V, barrier, start loading the next K
///     ... softmax, value product ...
/// so that each load has one of the two products to hide behind. With two stages a block's K and V
/// are loaded together while the block before is computed, at one barrier a block.
///
/// Tiles wider than a stock layout allows lie in sections of Config::kKeySection (keys) and
/// Config::kValueSection (values) columns.
template <class Config>
class KeyBlockPipeline {
 public:
  using Element = typename Config::Element;
  static constexpr int kKeys = Config::kKeys;
  static constexpr int kHeadDim = Config::kHeadDim;
  static constexpr int kStages = Config::kStages;
  static constexpr int kStageElements = kKeys * kHeadDim;
  static_assert(kStages == 1 || kStages == 2, "key blocks are loaded at most one ahead");

  struct SharedStorage {
    alignas(128) Element keys[kStages * kStageElements];
    alignas(128) Element values[kStages * kStageElements];
  };

  template <class Tile>
  CUTLASS_DEVICE KeyBlockPipeline(typename Config::Params const &params, Tile const &tile,
                                  SharedStorage &shared, int thread)
      : params_(params),
        shared_(shared),
        thread_(thread),
        copy_keys_(thread),
        copy_values_(thread),
        key_blocks_left_(tile.key_blocks) {
    int const first_key = (tile.key_blocks - 1) * kKeys;
    rows_ = tile.visible_keys - first_key;
    keys_ = static_cast<Element const *>(params.key) + tile.batch * params.key_stride.batch +
            tile.kv_head * params.key_stride.head + first_key * params.key_stride.row +
            copy_keys_.thread_offset(params.copy_keys);
    values_ = static_cast<Element const *>(params.value) + tile.batch * params.value_stride.batch +
              tile.kv_head * params.value_stride.head + first_key * params.value_stride.row +
              copy_values_.thread_offset(params.copy_values);
  }

  /// Starts the first loads. What the caller copied by cp.async before arrives with them.
  CUTLASS_DEVICE void prologue() {
    load_keys<true>(0);
    if (kStages > 1) {
      load_values<true>(0);
    }
    cutlass::arch::cp_async_fence();
  }

  /// Makes the keys of the next block readable; kPartial says that it may be the partial one.
  template <bool kPartial>
  CUTLASS_DEVICE void acquire_keys() {
    cutlass::arch::cp_async_wait<0>();
    __syncthreads();
    if (kStages > 1) {
      if (key_blocks_left_ > 0) {
        load_keys<false>(stage_ ^ 1);
        load_values<false>(stage_ ^ 1);
      }
    } else {
      load_values<kPartial>(0);
      rows_ = kKeys;
    }
    cutlass::arch::cp_async_fence();
  }

  /// Makes the values of the block readable. With one stage its keys are gone then.
  CUTLASS_DEVICE void acquire_values() {
    if (kStages == 1) {
      cutlass::arch::cp_async_wait<0>();
      __syncthreads();
      if (key_blocks_left_ > 0) {
        load_keys<false>(0);
      }
      cutlass::arch::cp_async_fence();
    }
  }

  /// The block is done with.
  CUTLASS_DEVICE void release() {
    if (kStages > 1) {
      stage_ ^= 1;
    }
  }

  /// Offset in elements of the current block's stage within its buffer.
  CUTLASS_DEVICE int stage_offset() const { return kStages > 1 ? stage_ * kStageElements : 0; }

 private:
  template <bool kPartial>
  CUTLASS_DEVICE void load_keys(int stage) {
    using Layout = typename Config::SmemLayoutKeys;
    typename Config::SmemIteratorKeys destination({shared_.keys, Layout::packed({kHeadDim, kKeys})},
                                                  thread_);
    if (kStages > 1) {
      destination.add_pointer_offset(stage * kStageElements);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int column = 0; column < kHeadDim; column += Config::kKeySection) {
      copy_keys_.template copy<kPartial>(params_.copy_keys, keys_ + column, rows_,
                                         params_.head_dim - column, destination);
      destination.add_tile_offset({1, 0});
    }
    keys_ -= params_.copy_keys.tile;
    --key_blocks_left_;
  }

  template <bool kPartial>
  CUTLASS_DEVICE void load_values(int stage) {
    using Layout = typename Config::SmemLayoutValues;
    typename Config::SmemIteratorValues destination(
        {shared_.values, Layout::packed({kKeys, Config::kValueSection})}, thread_);
    if (kStages > 1) {
      destination.add_pointer_offset(stage * kStageElements);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int row = 0; row < kKeys; row += Config::kValueRows) {
      auto section = destination;
      CUTLASS_PRAGMA_UNROLL
      for (int column = 0; column < kHeadDim; column += Config::kValueSection) {
        copy_values_.template copy<kPartial>(params_.copy_values, values_ + column, rows_ - row,
                                             params_.value_dim - column, section);
        section.add_pointer_offset(kKeys * Config::kValueSection);
      }
      destination.add_tile_offset({1, 0});
      values_ += params_.copy_values.tile;
    }
    values_ -= 2 * (kKeys / Config::kValueRows) * params_.copy_values.tile;
  }

  typename Config::Params const &params_;
  SharedStorage &shared_;
  int thread_;
  typename Config::CopyKeys copy_keys_;
  typename Config::CopyValues copy_values_;
  Element const *keys_;
  Element const *values_;
  int rows_;
  int key_blocks_left_;
  int stage_ = 0;
};

}  // namespace fmha
