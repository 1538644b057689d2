/// @file
/// Attention forward, 16-bit operands, mma.sync m16n8k16: the weights never leave the registers.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "cutlass_ext/gemm/warp/mma_column_order.h"
#include "fmha/forward_sm80_config.h"
#include "fmha/key_block_pipeline.h"
#include "fmha/mask.h"
#include "fmha/online_softmax.h"
#include "fmha/output_tile.h"
#include "fmha/query_tile.h"
#include "fmha/score_scale.h"

namespace fmha {

/// output = softmax(scale * query key^T) value for one tile of queries.
///
/// Warps divide the queries only, so each row's scores, weights, statistics and output belong to
/// one warp and stay in its registers: the accumulators of the first product, as weights, are the
/// A operand of the second. Exponentials are taken 16 keys at a time between the instructions of
/// the second product, so that the special-function unit and the tensor cores work together.
template <class Config>
class ForwardSm80Kernel {
 public:
  using Params = typename Config::Params;
  using Element = typename Config::Element;
  using Pipeline = KeyBlockPipeline<Config>;
  using Tile = QueryTile<Config::kQueries, Config::kKeys>;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kMinBlocks = Config::kMinBlocks;

  struct SharedStorage {
    alignas(128) Element query[Config::kQueries * Config::kHeadDim];
    typename Pipeline::SharedStorage blocks;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const lane = thread % 32;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    Tile const tile(params, blockIdx.x);

    int const first_row = tile.first_query + warp * Config::kWarpQueries;
    PrefixMask const mask(params);
    ScoreScale const scale(params.scale);
    // What scores need beyond the softmax's own scale is done where they are masked.
    int const unmasked_blocks = scale.is_positive() ? tile.unmasked_blocks : 0;

    Softmax softmax(scale.log2_scale());
    Output output[kSections];
    CUTLASS_PRAGMA_UNROLL
    for (int section = 0; section < kSections; ++section) {
      output[section].clear();
    }
    if (tile.key_blocks > 0) {
      Pipeline pipeline(params, tile, shared.blocks, thread);
      load_query(params, tile, shared, thread);
      pipeline.prologue();

      QueryFragments query(shared, warp, lane);
      if (Config::kQueryInRegisters) {
        cutlass::arch::cp_async_wait<0>();
        __syncthreads();
        query.load_all();
      }

      auto key_block = [&](auto masked, int block) {
        pipeline.template acquire_keys<decltype(masked)::value>();
        Scores scores;
        compute_scores(query, shared, pipeline.stage_offset(), lane, scores);
        pipeline.acquire_values();
        if (decltype(masked)::value) {
          scale.apply(scores);
          mask.template apply<ScoreMap>(scores, first_row, block * Config::kKeys, lane);
        }
        accumulate_output(softmax, scores, shared, pipeline.stage_offset(), lane, output);
        pipeline.release();
      };

      int block = tile.key_blocks - 1;
      CUTLASS_PRAGMA_NO_UNROLL
      do {
        key_block(True(), block);
      } while (--block >= unmasked_blocks);
      CUTLASS_PRAGMA_NO_UNROLL
      for (; block >= 0; --block) {
        key_block(False(), block);
      }
    }
    store(params, tile, first_row, lane, softmax, output);
  }

 private:
  static constexpr int kSections = Config::kHeadDim / Config::kValueSection;

  using ScoreMma = typename Config::ScoreMma;
  using ValueMma = typename Config::ValueMma;
  using ScoreMap = cutlass_ext::gemm::warp::AccumulatorMap<ScoreMma>;
  using ValueMap = cutlass_ext::gemm::warp::AccumulatorMap<ValueMma>;
  using Softmax = OnlineSoftmax<ScoreMap>;
  using Scores = typename ScoreMma::FragmentC;
  /// A section of columns.
  using Output = typename ValueMma::FragmentC;
  using ValueProduct = cutlass_ext::gemm::threadblock::RegisterOperandGemm<ValueMma, Config::kKeys>;

  struct True {
    static constexpr bool value = true;
  };
  struct False {
    static constexpr bool value = false;
  };

  /// The warp's query fragments: loaded once, or again for every key block.
  class QueryFragments {
   public:
    static constexpr int kSteps = Config::kHeadDim / 16;
    using Fragment = typename ScoreMma::FragmentA;

    CUTLASS_DEVICE QueryFragments(SharedStorage &shared, int warp, int lane)
        : iterator_(
              {shared.query, Config::SmemLayoutQuery::packed({Config::kQueries, Config::kHeadDim})},
              lane) {
      iterator_.add_tile_offset({warp, 0});
    }

    CUTLASS_DEVICE void load_all() {
      auto iterator = iterator_;
      CUTLASS_PRAGMA_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        iterator.load(resident_[step]);
        ++iterator;
      }
    }

    /// Calls f(step, fragment) for each 16 columns.
    template <class F>
    CUTLASS_DEVICE void for_each(F f) const {
      auto iterator = iterator_;
      CUTLASS_PRAGMA_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        if (Config::kQueryInRegisters) {
          f(step, resident_[step]);
        } else {
          Fragment fragment;
          iterator.load(fragment);
          ++iterator;
          f(step, fragment);
        }
      }
    }

   private:
    typename ScoreMma::IteratorA iterator_;
    Fragment resident_[Config::kQueryInRegisters ? kSteps : 1];
  };

  CUTLASS_DEVICE static void load_query(Params const &params, Tile const &tile,
                                        SharedStorage &shared, int thread) {
    typename Config::CopyQuery copy(thread);
    Element const *rows =
        static_cast<Element const *>(params.query) + tile.batch * params.query_stride.batch +
        tile.head * params.query_stride.head + tile.first_query * params.query_stride.row +
        copy.thread_offset(params.copy_query);
    typename Config::SmemIteratorQuery destination(
        {shared.query, Config::SmemLayoutQuery::packed({Config::kQueries, Config::kHeadDim})},
        thread);
    CUTLASS_PRAGMA_UNROLL
    for (int column = 0; column < Config::kHeadDim; column += Config::kKeySection) {
      copy.template copy<true>(params.copy_query, rows + column, params.queries - tile.first_query,
                               params.head_dim - column, destination);
      destination.add_tile_offset({0, 1});
    }
  }

  /// scores = query key^T
  CUTLASS_DEVICE static void compute_scores(QueryFragments const &query, SharedStorage &shared,
                                            int stage_offset, int lane, Scores &scores) {
    typename ScoreMma::IteratorB keys(
        {shared.blocks.keys + stage_offset,
         Config::SmemLayoutKeys::packed({Config::kHeadDim, Config::kKeys})},
        lane);
    scores.clear();
    query.for_each([&](int, typename ScoreMma::FragmentA const &fragment) {
      typename ScoreMma::FragmentB key_fragment;
      keys.load(key_fragment);
      ++keys;
      cutlass_ext::gemm::warp::MmaColumnOrder<ScoreMma>()(scores, fragment, key_fragment);
    });
  }

  /// Takes the block's scores into the statistics and adds weights times values to the output.
  CUTLASS_DEVICE static void accumulate_output(Softmax &softmax, Scores &scores,
                                               SharedStorage &shared, int stage_offset, int lane,
                                               Output (&output)[kSections]) {
    softmax.update_maximum(scores, [&](int r, float factor) {
      CUTLASS_PRAGMA_UNROLL
      for (int section = 0; section < kSections; ++section) {
        CUTLASS_PRAGMA_UNROLL
        for (int c = 0; c < ValueMap::kColumnsPerThread; ++c) {
          output[section][ValueMap::index(r, c)] *= factor;
        }
      }
    });
    typename ValueMma::IteratorB values(
        {shared.blocks.values + stage_offset,
         Config::SmemLayoutValues::packed({Config::kKeys, Config::kValueSection})},
        lane);
    // Of 16 keys a thread has 4 columns.
    constexpr int kStepColumns = ScoreMap::kColumnsPerThread / ValueProduct::kSteps;
    CUTLASS_PRAGMA_UNROLL
    for (int step = 0; step < ValueProduct::kSteps; ++step) {
      softmax.template exponentiate<kStepColumns>(scores, kStepColumns * step);
      auto const weights = ValueProduct::operand(scores, step);
      CUTLASS_PRAGMA_UNROLL
      for (int section = 0; section < kSections; ++section) {
        typename ValueMma::FragmentB value_fragment;
        values.load_with_pointer_offset(value_fragment,
                                        section * Config::kKeys * Config::kValueSection);
        ValueProduct::multiply(output[section], weights, value_fragment);
      }
      ++values;
    }
  }

  /// Divides by the sums of the weights and writes the rows and columns that exist.
  CUTLASS_DEVICE static void store(Params const &params, Tile const &tile, int first_row, int lane,
                                   Softmax const &softmax, Output const (&output)[kSections]) {
    OutputTile<ValueMap, Element, Config::kRowAccess> const destination(params, tile, first_row,
                                                                        lane);
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Softmax::kRows; ++r) {
      float const total = softmax.total(r);
      float const inverse = total == 0.f ? 0.f : 1.f / total;
      if (destination.has_row(r)) {
        CUTLASS_PRAGMA_UNROLL
        for (int section = 0; section < kSections; ++section) {
          destination.store_row(output[section], r, inverse, section * Config::kValueSection);
        }
        destination.store_log_sum_exp(r, softmax.log_sum_exp(r, total));
      }
    }
  }
};

}  // namespace fmha
