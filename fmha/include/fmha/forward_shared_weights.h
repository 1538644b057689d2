/// @file
/// Attention forward where the weights reach the second product through shared memory.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/threadblock/smem_operand_writer.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "fmha/forward_shared_weights_config.h"
#include "fmha/mask.h"
#include "fmha/online_softmax.h"
#include "fmha/output_tile.h"
#include "fmha/query_tile.h"
#include "fmha/score_scale.h"

namespace fmha {

/// output = softmax(scale * query key^T) value for one tile of queries.
///
/// For products whose accumulators do not lie as the next operand has to (SIMT, TF32). Both are
/// threadblock-level Mmas, staged: the values start to load when the scores are done, the next keys
/// after them, and both arrive while the softmax runs. The query lies resident in the first Mma's
/// shared memory, the weights in the second's.
template <class Config>
class ForwardSharedWeightsKernel {
 public:
  using Params = typename Config::Params;
  using Tile = QueryTile<Config::kQueries, Config::kKeys>;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kMinBlocks = Config::kMinBlocks;

 private:
  using ScoreMma = cutlass_ext::gemm::threadblock::StagedMma<typename Config::ScoreMma::Mma>;
  using ValueMma = cutlass_ext::gemm::threadblock::StagedMma<typename Config::ValueMma::Mma>;
  using ScoreMap = cutlass_ext::gemm::warp::AccumulatorMap<typename ScoreMma::Mma::Operator>;
  using ValueMap = cutlass_ext::gemm::warp::AccumulatorMap<typename ValueMma::Mma::Operator>;
  using WeightWriter =
      cutlass_ext::gemm::threadblock::SmemOperandWriter<typename ValueMma::Mma,
                                                        cutlass::gemm::Operand::kA, ScoreMap>;
  using Softmax = OnlineSoftmax<ScoreMap>;
  using Scores = typename ScoreMma::FragmentC;
  using Output = typename ValueMma::FragmentC;

 public:
  struct SharedStorage {
    typename ScoreMma::SharedStorage score;
    typename ValueMma::SharedStorage value;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    Tile const tile(params, blockIdx.x);
    Thread const thread{int(threadIdx.x), __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0),
                        int(threadIdx.x) % 32};
    int const first_row = thread.warp * Config::kWarpQueries;

    PrefixMask const mask(params);
    ScoreScale const scale(params.scale);
    // What scores need beyond the softmax's own scale is done where they are masked.
    int const unmasked_blocks = scale.is_positive() ? tile.unmasked_blocks : 0;

    Softmax softmax(scale.log2_scale());
    Output output;
    output.clear();
    if (tile.key_blocks > 0) {
      fill_query(params, tile, shared, thread);
      ScoreMma score_mma(shared.score, thread.index, thread.warp, thread.lane);
      auto key_tiles = keys_of_block(params, tile, 0, thread);
      score_mma.prologue(key_tiles);
      auto values = all_values(params, tile, thread);

      CUTLASS_PRAGMA_NO_UNROLL
      for (int block = 0; block < tile.key_blocks; ++block) {
        int const first_key = block * Config::kKeys;
        Scores scores;
        scores.clear();
        score_mma.mainloop(key_tiles, scores);

        ValueMma value_mma(shared.value, thread.index, thread.warp, thread.lane);
        typename ValueMma::Tiles value_tiles{
            typename ValueMma::IteratorA(), values,
            k_tiles<ValueMma>(min(Config::kKeys, tile.visible_keys - first_key))};
        value_mma.prologue(value_tiles);
        if (block + 1 < tile.key_blocks) {
          // Its operand A is resident from the first stage on: each block begins there.
          score_mma = ScoreMma(shared.score, thread.index, thread.warp, thread.lane);
          key_tiles = keys_of_block(params, tile, first_key + Config::kKeys, thread);
          score_mma.prologue(key_tiles);
        }

        if (block >= unmasked_blocks) {
          scale.apply(scores);
          mask.template apply<ScoreMap>(scores, tile.first_query + first_row, first_key,
                                        thread.lane);
        }
        softmax.update_maximum(scores, [&](int r, float factor) {
          CUTLASS_PRAGMA_UNROLL
          for (int c = 0; c < ValueMap::kColumnsPerThread; ++c) {
            output[ValueMap::index(r, c)] *= factor;
          }
        });
        softmax.template exponentiate<ScoreMap::kColumnsPerThread>(scores);
        WeightWriter(shared.value, first_row, 0, thread.lane)(scores);

        value_mma.mainloop(value_tiles, output);
        values = value_tiles.b;
        values.rewind(ValueMma::kOvershoot);
      }
    }
    store(params, tile, first_row, thread, softmax, output);
  }

 private:
  struct Thread {
    int index;
    int warp;
    int lane;
  };

  static_assert(ScoreMap::kRowsPerThread == ValueMap::kRowsPerThread,
                "a thread holds the same rows of scores and of output");
  static_assert(!ScoreMma::kNeedsBarrierAfter, "the main loops end with a barrier");

  template <class Mma>
  CUTLASS_DEVICE static int k_tiles(int extent) {
    return (extent + Mma::Mma::Shape::kK - 1) / Mma::Mma::Shape::kK;
  }

  CUTLASS_DEVICE static void fill_query(Params const &params, Tile const &tile,
                                        SharedStorage &shared, Thread const &thread) {
    auto const *rows =
        static_cast<float const *>(params.query) + tile.batch * params.query_stride.batch +
        tile.head * params.query_stride.head + tile.first_query * params.query_stride.row;
    typename Config::IteratorQuery iterator(params.iterate_query, const_cast<float *>(rows),
                                            {params.queries - tile.first_query, params.head_dim},
                                            thread.index);
    Config::ScoreMma::fill(shared.score, iterator, k_tiles<ScoreMma>(params.head_dim),
                           thread.index);
  }

  CUTLASS_DEVICE static typename ScoreMma::Tiles keys_of_block(Params const &params,
                                                               Tile const &tile, int first_key,
                                                               Thread const &thread) {
    auto const *rows = static_cast<float const *>(params.key) +
                       tile.batch * params.key_stride.batch +
                       tile.kv_head * params.key_stride.head + first_key * params.key_stride.row;
    typename Config::IteratorKeys iterator(params.iterate_keys, const_cast<float *>(rows),
                                           {params.head_dim, tile.visible_keys - first_key},
                                           thread.index);
    return {typename ScoreMma::IteratorA(), iterator, k_tiles<ScoreMma>(params.head_dim)};
  }

  CUTLASS_DEVICE static typename Config::IteratorValues all_values(Params const &params,
                                                                   Tile const &tile,
                                                                   Thread const &thread) {
    auto const *rows = static_cast<float const *>(params.value) +
                       tile.batch * params.value_stride.batch +
                       tile.kv_head * params.value_stride.head;
    return typename Config::IteratorValues(params.iterate_values, const_cast<float *>(rows),
                                           {tile.visible_keys, params.value_dim}, thread.index);
  }

  /// Divides by the sums of the weights and writes the rows and columns that exist.
  CUTLASS_DEVICE static void store(Params const &params, Tile const &tile, int first_row,
                                   Thread const &thread, Softmax const &softmax,
                                   Output const &output) {
    OutputTile<ValueMap, float, Config::kRowAccess> const destination(
        params, tile, tile.first_query + first_row, thread.lane);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Softmax::kRows; ++r) {
      float const total = softmax.total(r);
      float const inverse = total == 0.f ? 0.f : 1.f / total;
      if (destination.has_row(r)) {
        destination.store_row(output, r, inverse, 0);
        destination.store_log_sum_exp(r, softmax.log_sum_exp(r, total));
      }
    }
  }
};

}  // namespace fmha
