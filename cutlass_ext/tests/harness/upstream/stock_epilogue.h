/// @file
/// A stock epilogue that stores one whole tile.
#pragma once

#include "arguments.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass_ext/device/launch.h"
#include "stock_mma.h"

namespace harness {

template <class Mma, class Output, int kVector>
class StockEpilogueProbe {
 public:
  using Op = cutlass::epilogue::thread::LinearCombination<Output, kVector, float, float>;
  using Epilogue = typename cutlass::epilogue::threadblock::DefaultEpilogueTensorOp<
      typename Mma::Shape, typename Mma::Operator, 1, Op, kVector>::Epilogue;
  using OutputIterator = typename Epilogue::OutputTileIterator;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    float const *accumulators;  ///< [Mma::Shape::kM, Mma::Shape::kN]
    Output *output;             ///< likewise
  };
  struct SharedStorage {
    typename Epilogue::Base::SharedStorage epilogue;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    typename Mma::FragmentC accumulators;
    AccumulatorTile<Mma>::load(accumulators, params.accumulators);
    Epilogue epilogue(shared.epilogue, thread, __shfl_sync(0xffffffffu, thread / 32, 0),
                      thread % 32);
    OutputIterator destination(typename OutputIterator::Params(Row(Mma::Shape::kN)), params.output,
                               {Mma::Shape::kM, Mma::Shape::kN}, thread);
    epilogue(Op(typename Op::Params(1.f, 0.f)), destination, accumulators);
  }
};

/// accumulators, output
template <class Mma, class Output, int kVector>
void stock_epilogue(Arguments arguments) {
  using Probe = StockEpilogueProbe<Mma, Output, kVector>;
  typename Probe::Params params;
  params.accumulators = arguments.pointer<float const>();
  params.output = arguments.pointer<Output>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
