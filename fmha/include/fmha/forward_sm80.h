/// @file
/// Attention forward, 16-bit operands, mma.sync m16n8k16: the weights never leave the registers.
#pragma once

#include "cutlass/arch/memory.h"
#include "cutlass/cutlass.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass_ext/gemm/warp/mma_column_order.h"
#include "fmha/forward_sm80_config.h"
#include "fmha/key_block_pipeline.h"
#include "fmha/online_softmax.h"
#include "fmha/params.h"
#include "fmha/query_tile.h"

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

    // The softmax works with a positive scale. Any other multiplies the scores beforehand, which
    // the masked path does, so that the unmasked one is free of it.
    bool const scale_scores = !(params.scale > 0.f);
    float const scale = scale_scores ? 1.f : params.scale;
    int const unmasked_blocks = scale_scores ? 0 : tile.unmasked_blocks;

    Output output;
    output.clear();
    Softmax softmax(scale * kLog2e);
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
          if (scale_scores) {
            CUTLASS_PRAGMA_UNROLL
            for (int i = 0; i < Scores::kElements; ++i) {
              scores[i] *= params.scale;
            }
          }
          int const first_row = tile.first_query + warp * Config::kWarpQueries;
          mask(params, first_row, block * Config::kKeys, lane, scores);
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
    int const first_row = tile.first_query + warp * Config::kWarpQueries;
    store(params, tile, first_row, lane, softmax, output);
  }

 private:
  static constexpr float kLog2e = 1.4426950408889634f;
  static constexpr int kRowTiles = Config::kWarpQueries / 16;
  static constexpr int kKeyTiles = Config::kKeys / 8;
  static constexpr int kSections = Config::kHeadDim / Config::kValueSection;
  static constexpr int kSectionTiles = Config::kValueSection / 8;
  static constexpr int kOutputTiles = Config::kHeadDim / 8;

  using Softmax = OnlineSoftmax<kRowTiles>;
  using ScoreMma = typename Config::ScoreMma;
  using ValueMma = typename Config::ValueMma;
  using Scores = typename ScoreMma::FragmentC;
  using Output = cutlass::Array<float, kSections * ValueMma::FragmentC::kElements>;

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

  /// Sets to -inf, by selection, the scores of keys that their row does not see.
  CUTLASS_DEVICE static void mask(Params const &params, int first_row, int first_key, int lane,
                                  Scores &scores) {
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Softmax::kRows; ++r) {
      int const row = first_row + Softmax::row(lane, r);
      int const visible = params.causal ? min(params.keys, row + 1) : params.keys;
      int const visible_here = visible - first_key - 2 * (lane % 4);
      CUTLASS_PRAGMA_UNROLL
      for (int n = 0; n < kKeyTiles; ++n) {
        CUTLASS_PRAGMA_UNROLL
        for (int e = 0; e < 2; ++e) {
          float &score = scores[Softmax::pair(r, n) + e];
          score = 8 * n + e < visible_here ? score : -INFINITY;
        }
      }
    }
  }

  /// Takes the block's scores into the statistics and adds weights times values to the output.
  CUTLASS_DEVICE static void accumulate_output(Softmax &softmax, Scores &scores,
                                               SharedStorage &shared, int stage_offset, int lane,
                                               Output &output) {
    auto &weights = as_registers(scores);
    softmax.template update_maximum<kKeyTiles, kOutputTiles>(weights, as_registers(output));
    typename ValueMma::IteratorB values(
        {shared.blocks.values + stage_offset,
         Config::SmemLayoutValues::packed({Config::kKeys, Config::kValueSection})},
        lane);
    auto *section_output = reinterpret_cast<typename ValueMma::FragmentC *>(&output);
    CUTLASS_PRAGMA_UNROLL
    for (int step = 0; step < Config::kKeys / 16; ++step) {
      softmax.template exponentiate<2>(weights, 2 * step);
      typename ValueMma::FragmentA const operand = as_operand(weights, step);
      CUTLASS_PRAGMA_UNROLL
      for (int section = 0; section < kSections; ++section) {
        typename ValueMma::FragmentB value_fragment;
        values.load_with_pointer_offset(value_fragment,
                                        section * Config::kKeys * Config::kValueSection);
        cutlass_ext::gemm::warp::MmaColumnOrder<ValueMma>()(section_output[section], operand,
                                                            value_fragment);
      }
      ++values;
    }
  }

  /// The weights of keys 16 step ... 16 step + 15, rounded, as the A operand of the value product:
  /// accumulators of two neighbouring instruction columns hold the same rows and columns as one
  /// A fragment.
  CUTLASS_DEVICE static typename ValueMma::FragmentA as_operand(
      float const (&weights)[Scores::kElements], int step) {
    using Pair = cutlass::Array<Element, 2>;
    cutlass::NumericArrayConverter<Element, float, 2> convert;
    typename ValueMma::FragmentA operand;
    auto *pairs = reinterpret_cast<Pair *>(&operand);
    CUTLASS_PRAGMA_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      CUTLASS_PRAGMA_UNROLL
      for (int half = 0; half < 2; ++half) {
        CUTLASS_PRAGMA_UNROLL
        for (int r = 0; r < 2; ++r) {
          int const i = Softmax::pair(2 * m + r, 2 * step + half);
          cutlass::Array<float, 2> const pair{weights[i], weights[i + 1]};
          pairs[m * 4 + half * 2 + r] = convert(pair);
        }
      }
    }
    return operand;
  }

  /// Divides by the sum of the weights and writes the rows and columns that exist.
  CUTLASS_DEVICE static void store(Params const &params, Tile const &tile, int first_row, int lane,
                                   Softmax const &softmax, Output const &output) {
    Element *rows = static_cast<Element *>(params.output) +
                    tile.batch * params.output_stride.batch + tile.head * params.output_stride.head;
    int64_t const head_of_batch = int64_t(tile.batch) * params.heads + tile.head;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Softmax::kRows; ++r) {
      float const total = softmax.total(r);
      float const inverse = total == 0.f ? 0.f : 1.f / total;
      int const row = first_row + Softmax::row(lane, r);
      if (row >= params.queries) {
        continue;
      }
      Element *row_pointer = rows + row * params.output_stride.row;
      CUTLASS_PRAGMA_UNROLL
      for (int n = 0; n < kOutputTiles; ++n) {
        int const i = Softmax::pair(r, n);
        int const column = 8 * n + 2 * (lane % 4);
        store_pair(row_pointer + column, params.value_dim - column,
                   {output[i] * inverse, output[i + 1] * inverse});
      }
      if (params.log_sum_exp != nullptr && lane % 4 == 0) {
        params.log_sum_exp[head_of_batch * params.queries + row] = softmax.log_sum_exp(r, total);
      }
    }
  }

  /// Writes two neighbouring columns, of which the first `columns` exist.
  CUTLASS_DEVICE static void store_pair(Element *destination, int columns,
                                        cutlass::Array<float, 2> const &values) {
    cutlass::NumericArrayConverter<Element, float, 2> convert;
    cutlass::Array<Element, 2> const pair = convert(values);
    if constexpr (Config::kRowAccess == Access::kElement) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < 2; ++i) {
        if (i < columns) {
          destination[i] = pair[i];
        }
      }
    } else {
      cutlass::arch::global_store<cutlass::Array<Element, 2>, sizeof(pair)>(pair, destination,
                                                                            columns > 0);
    }
  }

  template <int kElements>
  CUTLASS_DEVICE static float (&as_registers(cutlass::Array<float, kElements> &array))
      [kElements] { return *reinterpret_cast<float (*)[kElements]>(array.raw_data()); }
};

}  // namespace fmha
