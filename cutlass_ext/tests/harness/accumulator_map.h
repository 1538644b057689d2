/// @file
/// AccumulatorMap beside the stock iterator that stores the same fragment.
#pragma once

#include "arguments.h"
#include "cutlass/gemm/warp/default_mma_tensor_op.h"
#include "cutlass/gemm/warp/default_mma_tensor_op_sm80.h"
#include "cutlass/gemm/warp/mma_simt.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/warp/accumulator_map.h"
#include "stock_mma.h"

namespace harness {

/// One warp. Fragment element i of a lane holds fragment[lane, i].
template <class WarpMma>
class AccumulatorMapProbe {
 public:
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<WarpMma>;
  using Fragment = typename Map::Fragment;
  using Element = typename Map::Element;
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;

  struct Params {
    Element const *fragment;  ///< [32, Fragment::kElements]
    Element *stock;           ///< [rows, ld], stored by the stock iterator
    Element *mapped;          ///< [rows, ld], stored by the map
    Element *maximum;         ///< [32, kRowsPerThread]
    Element *sum;             ///< [32, kRowsPerThread]
    int ld;
  };
  struct SharedStorage {
    int unused;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    int const lane = threadIdx.x;
    Fragment fragment;
    for (int i = 0; i < Fragment::kElements; ++i) {
      fragment[i] = params.fragment[lane * Fragment::kElements + i];
    }
    typename WarpMma::IteratorC iterator({params.stock, Row(params.ld)}, lane);
    iterator.store(fragment);
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      for (int c = 0; c < Map::kColumnsPerThread; ++c) {
        auto const coord = Map::coord(lane, r, c);
        params.mapped[coord.row() * params.ld + coord.column()] = fragment[Map::index(r, c)];
      }
    }
    auto const maximum = Map::reduce_rows(fragment, Maximum());
    auto const sum = Map::reduce_rows(fragment, Sum());
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      params.maximum[lane * Map::kRowsPerThread + r] = maximum[r];
      params.sum[lane * Map::kRowsPerThread + r] = sum[r];
    }
  }

 private:
  struct Maximum {
    CUTLASS_DEVICE Element operator()(Element a, Element b) const { return a > b ? a : b; }
  };
  struct Sum {
    CUTLASS_DEVICE Element operator()(Element a, Element b) const { return a + b; }
  };
};

/// fragment, stock, mapped, maximum, sum, ld
template <class WarpMma>
void accumulator_map(Arguments arguments) {
  using Probe = AccumulatorMapProbe<WarpMma>;
  typename Probe::Params params;
  params.fragment = arguments.pointer<typename Probe::Element const>();
  params.stock = arguments.pointer<typename Probe::Element>();
  params.mapped = arguments.pointer<typename Probe::Element>();
  params.maximum = arguments.pointer<typename Probe::Element>();
  params.sum = arguments.pointer<typename Probe::Element>();
  params.ld = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

/// shape (int32): rows, columns, rows a thread, row mask, then the row of (lane, r) for all lanes
template <class WarpMma>
void accumulator_map_shape(Arguments arguments) {
  using Map = typename AccumulatorMapProbe<WarpMma>::Map;
  int *shape = arguments.pointer<int>();
  shape[0] = Map::Shape::kM;
  shape[1] = Map::Shape::kN;
  shape[2] = Map::kRowsPerThread;
  shape[3] = int(Map::kRowMask);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < Map::kRowsPerThread; ++r) {
      shape[4 + lane * Map::kRowsPerThread + r] = Map::coord(lane, r, 0).row();
    }
  }
}

/// Warp-level operators as the stock factories make them.
template <int kM, int kN, class Element = float>
using SimtWarpMma =
    typename SimtMma<GemmShape<kM, kN, 8>, GemmShape<kM, kN, 8>, Row, Row, 2, Element>::Operator;
template <class Element, int kM, int kN, class Instruction, class Operator>
using TensorWarpMma = typename cutlass::gemm::warp::DefaultMmaTensorOp<
    GemmShape<kM, kN, 32>, Instruction, Element,
    cutlass::layout::RowMajorTensorOpMultiplicandCrosswise<cutlass::sizeof_bits<Element>::value,
                                                           32>,
    Element,
    cutlass::layout::ColumnMajorTensorOpMultiplicandCrosswise<cutlass::sizeof_bits<Element>::value,
                                                              32>,
    float, Row, Operator>::Type;
template <class Element, int kM, int kN>
using Sm80WarpMma =
    TensorWarpMma<Element, kM, kN, GemmShape<16, 8, 16>, cutlass::arch::OpMultiplyAdd>;
template <int kM, int kN>
using Sm75WarpMma =
    TensorWarpMma<half_t, kM, kN, GemmShape<16, 8, 8>, cutlass::arch::OpMultiplyAdd>;
template <int kM, int kN, class Accumulator = float>
using Sm70WarpMma = typename Sm70Mma<GemmShape<kM, kN, 32>, GemmShape<kM, kN, 32>, Row, Column, 8,
                                     Accumulator>::Operator;
template <int kM, int kN>
using Tf32WarpMma = TensorWarpMma<float, kM, kN, GemmShape<16, 8, 8>, cutlass::arch::OpMultiplyAdd>;
template <int kM, int kN>
using Tf32x3WarpMma =
    TensorWarpMma<float, kM, kN, GemmShape<16, 8, 8>, cutlass::arch::OpMultiplyAddFastF32>;

}  // namespace harness
