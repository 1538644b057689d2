/// @file
/// What scripts/bench_components times: one GEMM with a source, its epilogue exchanged.
#pragma once

#include <stdexcept>

#include "arguments.h"
#include "cutlass/gemm/device/gemm.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/epilogue/thread/row_agnostic.h"
#include "cutlass_ext/epilogue/threadblock/pipelined_source.h"
#include "cutlass_ext/epilogue/threadblock/prefetch_iterator.h"
#include "cutlass_ext/epilogue/threadblock/rebind_epilogue.h"
#include "cutlass_ext/epilogue/threadblock/strided_output_iterator.h"
#include "stock_epilogue.h"
#include "stock_mma.h"

namespace harness {

namespace epilogue = cutlass_ext::epilogue::threadblock;

using BenchTile = GemmShape<128, 128, 32>;
using BenchWarp = GemmShape<64, 64, 32>;
using BenchInstruction = GemmShape<16, 8, 16>;
using BenchMma = Sm80Mma<half_t, BenchTile, BenchWarp, BenchInstruction, Row, Row, 3>;

/// What both kernels are told: output = a * b + source, all row-major and contiguous.
struct GemmProblem {
  half_t *a, *b;
  void *source, *output;
  int m, n, k;
  int rows_in_group;  ///< of the output, for permuted rows: row r of group g at r * groups + g

  explicit GemmProblem(Arguments &arguments)
      : a(arguments.pointer<half_t>()),
        b(arguments.pointer<half_t>()),
        source(arguments.pointer<void>()),
        output(arguments.pointer<void>()),
        m(arguments.integer()),
        n(arguments.integer()),
        k(arguments.integer()),
        rows_in_group(arguments.integer()) {}
};

/// \tparam kDepth     of PipelinedSource
/// \tparam kPermutes  whether the output's rows are permuted
/// \tparam kPrefetches  whether the source is prefetched before the main loop
template <class Source, int kDepth, bool kPermutes, bool kPrefetches>
class SourceGemm {
 public:
  using Mma = BenchMma;
  using Stock = TensorOpEpilogue<Mma, half_t, 8>;
  using ThreadMap = typename Stock::OutputTileIterator::ThreadMap;
  using Linear = cutlass::epilogue::thread::LinearCombination<
      half_t, 8, float, float, cutlass::epilogue::thread::ScaleType::Default,
      cutlass::FloatRoundStyle::round_to_nearest, Source>;
  using Op = cutlass_ext::epilogue::thread::RowAgnostic<Linear>;
  using Permuted = epilogue::StridedOutputIterator<ThreadMap, half_t, epilogue::TwoLevelRows>;
  using Destination =
      cutlass::platform::conditional_t<kPermutes, Permuted, typename Stock::OutputTileIterator>;
  using Epilogue = epilogue::WithOutputOp<epilogue::WithOutputTileIterator<Stock, Destination>, Op>;
  using SourceIterator = epilogue::PrefetchIterator<
      cutlass::epilogue::threadblock::PredicatedTileIterator<ThreadMap, Source>>;
  using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;
  static constexpr int kThreads = kThreadsOf<Mma>;
  static constexpr int kMinBlocks = 1;

  struct Params {
    GemmProblem problem;
    int log_tile;
    typename Mma::IteratorA::Params a;
    typename Mma::IteratorB::Params b;
    typename SourceIterator::Params source;
    typename Destination::Params output;
  };
  union SharedStorage {
    typename Mma::SharedStorage mma;
    typename Epilogue::Base::SharedStorage epilogue;
  };

  static void run(GemmProblem const &problem, cudaStream_t stream) {
    int const m = problem.m, n = problem.n;
    auto const tiles = Swizzle::get_tiled_shape({m, n, problem.k},
                                                {BenchTile::kM, BenchTile::kN, BenchTile::kK}, 1);
    int const log_tile = Swizzle::get_log_tile(tiles);
    Params params{problem, log_tile, Row(problem.k), Row(n), Row(n), output_params(problem)};
    cutlass_ext::launch<SourceGemm>(params, Swizzle::get_grid_shape(tiles), stream);
  }

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    GemmProblem const &p = params.problem;
    int const thread = threadIdx.x;
    int const warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    int const lane = thread % 32;
    auto const tile = Swizzle::get_tile_offset(params.log_tile);
    int const row = tile.m() * BenchTile::kM, column = tile.n() * BenchTile::kN;
    if (row >= p.m || column >= p.n) {
      return;
    }
    SourceIterator source(params.source, static_cast<Source *>(p.source), {p.m, p.n}, thread,
                          {row, column});
    Destination const destination(params.output, static_cast<half_t *>(p.output), {p.m, p.n},
                                  thread, {row, column});
    if (kPrefetches) {
      source.prefetch_all();
    }
    // With depth 2 the first step's source is on its way during the main loop.
    epilogue::PipelinedSource<Epilogue, SourceIterator, kDepth> const ahead(source, destination);
    typename Mma::IteratorA a(params.a, p.a, {p.m, p.k}, thread, {row, 0});
    typename Mma::IteratorB b(params.b, p.b, {p.k, p.n}, thread, {0, column});
    typename Mma::FragmentC accumulators;
    accumulators.clear();
    Mma mma(shared.mma, thread, warp, lane);
    mma(tiles_of<Mma>(p.k), accumulators, a, b, accumulators);
    Epilogue epilogue(shared.epilogue, thread, warp, lane);
    epilogue({Linear(typename Linear::Params(1.f, 1.f))}, destination, accumulators, ahead);
  }

 private:
  static typename Destination::Params output_params(GemmProblem const &p) {
    if constexpr (kPermutes) {
      int const groups = p.m / p.rows_in_group;
      return epilogue::TwoLevelRows{cutlass::FastDivmod(p.rows_in_group), p.n,
                                    int64_t(groups) * p.n};
    } else {
      return Row(p.n);
    }
  }
};

/// The stock kernel: source and output of one type.
template <class Element>
void stock_gemm(Arguments arguments) {
  using Gemm = cutlass::gemm::device::Gemm<
      half_t, Row, half_t, Row, Element, Row, float, cutlass::arch::OpClassTensorOp,
      cutlass::arch::Sm80, BenchTile, BenchWarp, BenchInstruction,
      cutlass::epilogue::thread::LinearCombination<
          Element, 128 / cutlass::sizeof_bits<Element>::value, float, float>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;
  GemmProblem const p(arguments);
  Gemm gemm;
  cutlass::Status const status = gemm({{p.m, p.n, p.k},
                                       {p.a, p.k},
                                       {p.b, p.n},
                                       {static_cast<Element *>(p.source), p.n},
                                       {static_cast<Element *>(p.output), p.n},
                                       {1.f, 1.f}},
                                      nullptr, arguments.stream());
  if (status != cutlass::Status::kSuccess) {
    throw std::runtime_error(cutlass::cutlassGetStatusString(status));
  }
}

template <class Source, int kDepth, bool kPermutes = false, bool kPrefetches = false>
void source_gemm(Arguments arguments) {
  GemmProblem const problem(arguments);
  SourceGemm<Source, kDepth, kPermutes, kPrefetches>::run(problem, arguments.stream());
}

}  // namespace harness
