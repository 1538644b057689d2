#include "scaled_gemm.h"

#include <cuda_runtime.h>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass/gemm/threadblock/default_mma.h"
#include "cutlass_ext/epilogue/threadblock/row_aware_epilogue.h"
#include "cutlass_ext/gemm/threadblock/staged_mma.h"

namespace {

using Element = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Tile = cutlass::gemm::GemmShape<64, 64, 32>;
using StockMma = cutlass::gemm::threadblock::DefaultMma<
    Element, Row, 8, Element, Row, 8, float, Row, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, Tile, cutlass::gemm::GemmShape<32, 32, 32>,
    cutlass::gemm::GemmShape<16, 8, 16>, 3, cutlass::arch::OpMultiplyAdd>::ThreadblockMma;
using Mma = cutlass_ext::gemm::threadblock::StagedMma<StockMma>;
using StockEpilogue = cutlass::epilogue::threadblock::DefaultEpilogueTensorOp<
    Tile, StockMma::Operator, 1,
    cutlass::epilogue::thread::LinearCombination<Element, 8, float, float>, 8>::Epilogue;

/// Scales each row.
struct ScaleRow {
  float const *scale;
  int rows;

  CUTLASS_DEVICE cutlass::Array<Element, 8> operator()(
      int row, int, cutlass::Array<float, 8> const &accumulators) const {
    float const factor = row < rows ? scale[row] : 0.f;
    cutlass::Array<float, 8> scaled;
    for (int i = 0; i < 8; ++i) {
      scaled[i] = factor * accumulators[i];
    }
    return cutlass::NumericArrayConverter<Element, float, 8>()(scaled);
  }
};
using Epilogue = cutlass_ext::epilogue::threadblock::RowAwareEpilogue<StockEpilogue, ScaleRow>;

struct Problem {
  Element *a;
  Element *b;
  float const *scale;
  Element *d;
  int m;
  int n;
  int k;
};

__global__ void scaled_gemm_kernel(Problem problem) {
  __shared__ union {
    Mma::SharedStorage mma;
    Epilogue::SharedStorage epilogue;
  } shared;
  int const thread = threadIdx.x;
  int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
  int const row = blockIdx.y * Tile::kM;
  int const column = blockIdx.x * Tile::kN;

  Mma mma(shared.mma, thread, warp, thread % 32);
  Mma::Tiles tiles{Mma::IteratorA(Mma::IteratorA::Params(Row(problem.k)), problem.a,
                                  {problem.m, problem.k}, thread, {row, 0}),
                   Mma::IteratorB(Mma::IteratorB::Params(Row(problem.n)), problem.b,
                                  {problem.k, problem.n}, thread, {0, column}),
                   (problem.k + Tile::kK - 1) / Tile::kK};
  Mma::FragmentC accumulators;
  accumulators.clear();
  mma.prologue(tiles);
  mma.mainloop(tiles, accumulators);

  Epilogue epilogue(shared.epilogue, thread, warp, thread % 32);
  Epilogue::OutputTileIterator output(Epilogue::OutputTileIterator::Params(Row(problem.n)),
                                      problem.d, {problem.m, problem.n}, thread, {row, column});
  epilogue(ScaleRow{problem.scale, problem.m}, output, accumulators);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) char const *scaled_gemm(
    void const *a, void const *b, float const *scale, void *d, int m, int n, int k) {
  Problem const problem{static_cast<Element *>(const_cast<void *>(a)),
                        static_cast<Element *>(const_cast<void *>(b)),
                        scale,
                        static_cast<Element *>(d),
                        m,
                        n,
                        k};
  dim3 const grid((n + Tile::kN - 1) / Tile::kN, (m + Tile::kM - 1) / Tile::kM);
  scaled_gemm_kernel<<<grid, 128>>>(problem);
  cudaError_t const status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
