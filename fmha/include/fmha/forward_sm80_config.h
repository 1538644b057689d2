/// @file
/// Tile shapes, layouts and thread maps of the 16-bit forward kernel on mma.sync m16n8k16.
#pragma once

#include "cutlass/gemm/threadblock/default_mma_core_sm80.h"
#include "cutlass/gemm/warp/default_mma_tensor_op.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"
#include "fmha/params.h"

namespace fmha {

using Access = cutlass_ext::transform::threadblock::TileAccess;

/// Shapes that were measured to be the fastest on an H200, by head dim; docs/performance has the
/// figures.
template <int kHeadDim>
struct Sm80TileShape;

template <>
struct Sm80TileShape<32> {
  static constexpr int kKeys = 64;
  static constexpr int kStages = 2;
  static constexpr bool kQueryInRegisters = true;
  static constexpr int kMinBlocks = 3;
  static constexpr int kSection = 32;
};

template <>
struct Sm80TileShape<64> {
  static constexpr int kKeys = 128;
  static constexpr int kStages = 1;
  static constexpr bool kQueryInRegisters = false;
  static constexpr int kMinBlocks = 1;
  static constexpr int kSection = 64;
};

template <>
struct Sm80TileShape<96> {
  static constexpr int kKeys = 64;
  static constexpr int kStages = 1;
  static constexpr bool kQueryInRegisters = false;
  static constexpr int kMinBlocks = 1;
  static constexpr int kSection = 32;
};

template <>
struct Sm80TileShape<128> {
  static constexpr int kKeys = 64;
  static constexpr int kStages = 1;
  static constexpr bool kQueryInRegisters = false;
  static constexpr int kMinBlocks = 1;
  static constexpr int kSection = 64;
};

/// Everything that stock CUTLASS decides once shapes are given.
///
/// \tparam Element_    cutlass::half_t or cutlass::bfloat16_t
/// \tparam kHeadDim_   columns of query, key, value and output in the kernel; a problem has at most
///                     as many, and the rest is zero
/// \tparam kAccess     how rows are read and written
template <class Element_, int kHeadDim_, Access kAccess>
struct ForwardSm80Config : Sm80TileShape<kHeadDim_> {
  using Element = Element_;
  using Shape = Sm80TileShape<kHeadDim_>;
  static constexpr Access kRowAccess = kAccess;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kQueries = 128;
  static constexpr int kKeys = Shape::kKeys;
  static constexpr int kWarpQueries = 32;
  /// Crosswise layouts (query, key) reach 64 columns, congruous ones (value) the whole tile where
  /// its width is a power of two.
  static constexpr int kKeySection = Shape::kSection;
  static constexpr int kValueSection = kHeadDim == 96 ? 32 : kHeadDim;

  template <int kM, int kN, int kK>
  using GemmShape = cutlass::gemm::GemmShape<kM, kN, kK>;
  using Instruction = GemmShape<16, 8, 16>;

  /// Keys a copy of a value tile: the stock core takes k tiles of up to 64.
  static constexpr int kValueRows = kKeys < 64 ? kKeys : 64;

  /// DefaultMmaCore is taken for its thread maps, shared-memory layouts and iterators; the stages
  /// named to it are not used.
  template <class Shape, class WarpShape, class LayoutB>
  using Core = cutlass::gemm::threadblock::DefaultMmaCore<
      Shape, WarpShape, Instruction, Element, cutlass::layout::RowMajor, Element, LayoutB, float,
      cutlass::layout::RowMajor, cutlass::arch::OpClassTensorOp, 3, cutlass::arch::OpMultiplyAdd,
      false, cutlass::arch::CacheOperation::Global, cutlass::arch::CacheOperation::Global>;
  using ScoreCore = Core<GemmShape<kQueries, kKeys, kKeySection>,
                         GemmShape<kWarpQueries, kKeys, kKeySection>, cutlass::layout::ColumnMajor>;
  using ValueCore =
      Core<GemmShape<kQueries, kValueSection, kValueRows>,
           GemmShape<kWarpQueries, kValueSection, kValueRows>, cutlass::layout::RowMajor>;

  static constexpr int kThreads = ScoreCore::kThreads;
  static_assert(kThreads == ValueCore::kThreads, "both products run on the same warps");
  static_assert(kThreads / 32 * kWarpQueries == kQueries, "warps divide the queries only");

  using ScoreMma = typename ScoreCore::MmaTensorOp;
  using ValueMma = typename ValueCore::MmaTensorOp;

  using SmemLayoutQuery = typename ScoreCore::SmemLayoutA;
  using SmemIteratorQuery = typename ScoreCore::SmemIteratorA;
  using SmemLayoutKeys = typename ScoreCore::SmemLayoutB;
  using SmemIteratorKeys = typename ScoreCore::SmemIteratorB;
  using SmemLayoutValues = typename ValueCore::SmemLayoutB;
  using SmemIteratorValues = typename ValueCore::SmemIteratorB;

  template <class ThreadMap>
  using Copy = cutlass_ext::transform::threadblock::AsyncTileCopy<ThreadMap, Element, kAccess>;
  using CopyQuery = Copy<typename ScoreCore::IteratorThreadMapA>;
  using CopyKeys = Copy<typename ScoreCore::IteratorThreadMapB>;
  using CopyValues = Copy<typename ValueCore::IteratorThreadMapB>;

  struct Params : ForwardParams {
    typename CopyQuery::Params copy_query;
    typename CopyKeys::Params copy_keys;
    typename CopyValues::Params copy_values;

    explicit Params(ForwardParams const &params)
        : ForwardParams(params),
          copy_query(params.query_stride.row),
          copy_keys(params.key_stride.row),
          copy_values(params.value_stride.row) {}
  };
};

}  // namespace fmha
