/// @file
/// Stock threadblock-level epilogues, by the parameters that tests vary, and their iterators.
#pragma once

#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/epilogue/threadblock/default_epilogue_simt.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass/epilogue/threadblock/default_epilogue_volta_tensor_op.h"
#include "stock_mma.h"

namespace harness {

template <class Output, int kVector, class Accumulator = float>
using StockOp =
    cutlass::epilogue::thread::LinearCombination<Output, kVector, Accumulator, Accumulator>;
/// Of CUDA cores: one element an access, whatever the output.
template <class Mma, class Output = AccumulatorOf<Mma>>
using SimtEpilogue = typename cutlass::epilogue::threadblock::DefaultEpilogueSimt<
    typename Mma::Shape, typename Mma::Operator, StockOp<Output, 1, AccumulatorOf<Mma>>,
    1>::Epilogue;
template <class Mma, class Output, int kVector>
using TensorOpEpilogue = typename cutlass::epilogue::threadblock::DefaultEpilogueTensorOp<
    typename Mma::Shape, typename Mma::Operator, 1, StockOp<Output, kVector>, kVector>::Epilogue;
template <class Mma, class Output, int kVector>
using VoltaEpilogue = typename cutlass::epilogue::threadblock::DefaultEpilogueVoltaTensorOp<
    typename Mma::Shape, typename Mma::Operator, 1, StockOp<Output, kVector>, kVector>::Epilogue;

/// Output tile iterator over the matrix at `data`, from its start.
template <class Iterator>
CUTLASS_DEVICE Iterator iterate_output(typename Iterator::Element *data, int ld, int rows,
                                       int columns) {
  return Iterator(typename Iterator::Params(Row(ld)), data, {rows, columns}, threadIdx.x);
}

}  // namespace harness
