/// @file
/// SmemOperandWriter beside the stock iterators that copy the same matrix to shared memory.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/threadblock/smem_operand_writer.h"
#include "stock_mma.h"

namespace harness {

/// Dumps the shared storage of `Consumer` after its operand was written over a canary: by the
/// accumulators of `Producer` (a threadblock-level Mma as large as the operand, or a part of it),
/// or by ResidentOperand::fill.
template <class Producer, class Consumer, Operand kOperand, bool kTransposed>
class SmemOperandWriterProbe {
 public:
  using Map = cutlass_ext::gemm::warp::AccumulatorMap<typename Producer::Operator>;
  using Writer =
      cutlass_ext::gemm::threadblock::SmemOperandWriter<Consumer, kOperand, Map, kTransposed>;
  using Resident = cutlass_ext::gemm::threadblock::ResidentOperand<Consumer, kOperand>;
  using Iterator = typename Resident::StockIterator;
  using Element = typename Iterator::Element;
  static constexpr int kThreads = kThreadsOf<Consumer>;
  static constexpr int kMinBlocks = 1;
  static_assert(kThreads == kThreadsOf<Producer>, "the same threads compute and consume");

  struct Params {
    int stock;
    int row;  ///< offset of the accumulators in the operand (before transposition)
    int column;
    AccumulatorOf<Producer> const *source;  ///< [Producer::Shape::kM, Producer::Shape::kN]
    Element *operand;  ///< the whole operand, in the layout of the iterator, converted
    int ld;
    int rows;  ///< of the operand
    int columns;
    uint64_t *dump;  ///< [kWords]
    int *marker;     ///< [kThreads], 1 before, 2 after the writes
  };
  struct SharedStorage {
    typename Consumer::Base::SharedStorage storage;
  };
  static constexpr int kWords = int(sizeof(SharedStorage) / sizeof(uint64_t));

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &shared) const {
    int const thread = threadIdx.x;
    auto *words = reinterpret_cast<uint64_t *>(&shared);
    for (int i = thread; i < kWords; i += kThreads) {
      words[i] = 0xc5c5c5c5c5c5c5c5;
    }
    __syncthreads();
    if (params.stock) {
      int const extent = kOperand == Operand::kA ? params.columns : params.rows;
      Resident::fill(shared.storage,
                     iterate<Iterator>(params.operand, params.ld, params.rows, params.columns),
                     tiles_of<Consumer>(extent), thread);
      cutlass::arch::cp_async_wait<0>();
    } else {
      using Tile = AccumulatorTile<Producer>;
      typename Map::Fragment accumulators;
      Tile::load(accumulators, params.source);
      Writer writer(shared.storage, params.row + Tile::first_row(),
                    params.column + Tile::first_column(), thread % 32);
      params.marker[thread] = 1;
      writer(accumulators);
      params.marker[thread] = 2;
    }
    __syncthreads();
    for (int i = thread; i < kWords; i += kThreads) {
      params.dump[i] = words[i];
    }
  }
};

/// stock, row, column, source, operand, ld, rows, columns, dump, marker
template <class Producer, class Consumer, Operand kOperand, bool kTransposed>
void smem_operand_writer(Arguments arguments) {
  using Probe = SmemOperandWriterProbe<Producer, Consumer, kOperand, kTransposed>;
  typename Probe::Params params;
  params.stock = arguments.integer();
  params.row = arguments.integer();
  params.column = arguments.integer();
  params.source = arguments.pointer<AccumulatorOf<Producer>>();
  params.operand = arguments.pointer<typename Probe::Element>();
  params.ld = arguments.integer();
  params.rows = arguments.integer();
  params.columns = arguments.integer();
  params.dump = arguments.pointer<uint64_t>();
  params.marker = arguments.pointer<int>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

/// sizes (int32): bytes of the dump, threads
template <class Producer, class Consumer, Operand kOperand, bool kTransposed>
void smem_operand_writer_sizes(Arguments arguments) {
  using Probe = SmemOperandWriterProbe<Producer, Consumer, kOperand, kTransposed>;
  int *sizes = arguments.pointer<int>();
  sizes[0] = int(sizeof(typename Probe::SharedStorage));
  sizes[1] = Probe::kThreads;
  sizes[2] = Probe::Writer::kVector;
}

}  // namespace harness
