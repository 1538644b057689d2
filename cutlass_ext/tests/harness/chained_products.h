/// @file
/// output = 2 (q k^T) v in one kernel, composed of all components: q resident, k and v streamed
/// block by block, the first product's accumulators through shared memory into the second.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/threadblock/resident_operand.h"
#include "cutlass_ext/gemm/threadblock/smem_operand_writer.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"
#include "cutlass_ext/transform/threadblock/residual_last_iterator.h"
#include "row_aware_epilogue.h"
#include "stock_mma.h"

namespace harness {

/// \tparam ScoreStock   [queries, keys] tile, k = head dimension; all of it fits its stages
/// \tparam ValueStock   [queries, value dimension] tile, k = keys; a key block fits its stages
/// \tparam OutputStock  stock epilogue of ValueStock
template <class ScoreStock_, class ValueStock_, class OutputStock>
class ChainedProducts {
 public:
  using ScoreStock = cutlass_ext::gemm::threadblock::WithZeroFill<ScoreStock_>;
  using Query = cutlass_ext::gemm::threadblock::ResidentOperand<ScoreStock, Operand::kA>;
  using ScoreMma = cutlass_ext::gemm::threadblock::StagedMma<typename Query::Mma>;
  using ValueIterator =
      cutlass_ext::transform::threadblock::ResidualLast<typename ValueStock_::IteratorB>;
  using ValueStock = cutlass_ext::gemm::threadblock::WithIteratorB<
      cutlass_ext::gemm::threadblock::WithZeroFill<ValueStock_>, ValueIterator>;
  using Weights = cutlass_ext::gemm::threadblock::ResidentOperand<ValueStock, Operand::kA>;
  using ValueMma = cutlass_ext::gemm::threadblock::StagedMma<typename Weights::Mma>;
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename ScoreStock::Operator>;
  using Writer = cutlass_ext::gemm::threadblock::SmemOperandWriter<ValueStock, Operand::kA, Map>;
  using Op = RowAndColumn<float>;
  using Epilogue = cutlass_ext::epilogue::threadblock::RowAwareEpilogue<OutputStock, Op>;
  using Element = typename ScoreStock::IteratorA::Element;

  static constexpr int kQueries = ScoreStock::Shape::kM;
  static constexpr int kKeys = ScoreStock::Shape::kN;
  static constexpr int kThreads = kThreadsOf<ScoreStock>;
  static constexpr int kMinBlocks = 1;
  static_assert(Weights::kExtent >= kKeys, "a key block fits");

  struct Params {
    Element *query;
    Element *key;
    Element *value;
    float *output;
    float const *row_data;
    float const *column_data;
    int queries, keys, head_dim, value_dim;
    int query_ld, key_ld, value_ld, output_ld;
  };
  struct MainLoop {
    typename ScoreMma::SharedStorage scores;
    typename ValueMma::SharedStorage values;
  };
  union SharedStorage {
    MainLoop main;
    typename Epilogue::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    int const head_tiles = tiles_of<ScoreStock>(params.head_dim);
    auto key_tiles_from = [&](int key) {
      using Iterator = typename ScoreStock::IteratorB;
      int const keys = params.keys - key < kKeys ? params.keys - key : kKeys;
      return typename ScoreMma::Tiles{{},
                                      iterate<Iterator>(params.key + int64_t(key) * params.key_ld,
                                                        params.key_ld, params.head_dim, keys),
                                      head_tiles};
    };

    typename ValueMma::FragmentC output;
    output.clear();
    ScoreMma score_mma(shared.main.scores, thread, warp, lane);
    auto key_tiles = key_tiles_from(0);
    auto value_iterator =
        iterate<ValueIterator>(params.value, params.value_ld, params.keys, params.value_dim);
    if (params.keys > 0) {
      Query::fill(shared.main.scores,
                  iterate<typename ScoreStock::IteratorA>(params.query, params.query_ld,
                                                          params.queries, params.head_dim),
                  head_tiles, thread);
      score_mma.prologue(key_tiles);
    }
    for (int key = 0; key < params.keys; key += kKeys) {
      typename ScoreMma::FragmentC scores;
      scores.clear();
      score_mma.mainloop(key_tiles, scores);
      if (ScoreMma::kNeedsBarrierAfter) {
        __syncthreads();
      }
      int const keys = params.keys - key < kKeys ? params.keys - key : kKeys;
      ValueMma value_mma(shared.main.values, thread, warp, lane);
      typename ValueMma::Tiles value_tiles{{}, value_iterator, tiles_of<ValueStock>(keys)};
      value_mma.prologue(value_tiles);
      if (key + kKeys < params.keys) {
        score_mma = ScoreMma(shared.main.scores, thread, warp, lane);
        key_tiles = key_tiles_from(key + kKeys);
        score_mma.prologue(key_tiles);
      }
      Writer(shared.main.values, AccumulatorTile<ScoreStock>::first_row(),
             AccumulatorTile<ScoreStock>::first_column(), lane)(scores);
      value_mma.mainloop(value_tiles, output);
      if (ValueMma::kNeedsBarrierAfter) {
        __syncthreads();
      }
      value_iterator = value_tiles.b;
      value_iterator.rewind(ValueMma::kOvershoot);
    }
    using OutputIterator = typename Epilogue::OutputTileIterator;
    Epilogue epilogue(shared.epilogue, thread, warp, lane);
    epilogue(Op{params.row_data, params.column_data, params.queries, params.value_dim},
             OutputIterator(typename OutputIterator::Params(Row(params.output_ld)), params.output,
                            {params.queries, params.value_dim}, thread),
             output);
  }
};

/// query, key, value, output, row data, column data, queries, keys, head dim, value dim, and the
/// leading dimensions of the first four
template <class ScoreStock, class ValueStock, class OutputStock>
void chained_products(Arguments arguments) {
  using Kernel = ChainedProducts<ScoreStock, ValueStock, OutputStock>;
  typename Kernel::Params params;
  params.query = arguments.pointer<typename Kernel::Element>();
  params.key = arguments.pointer<typename Kernel::Element>();
  params.value = arguments.pointer<typename Kernel::Element>();
  params.output = arguments.pointer<float>();
  params.row_data = arguments.pointer<float const>();
  params.column_data = arguments.pointer<float const>();
  for (int *value : {&params.queries, &params.keys, &params.head_dim, &params.value_dim,
                     &params.query_ld, &params.key_ld, &params.value_ld, &params.output_ld}) {
    *value = arguments.integer();
  }
  cutlass_ext::launch<Kernel>(params, dim3(1), arguments.stream());
}

}  // namespace harness
