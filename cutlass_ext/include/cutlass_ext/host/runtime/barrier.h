/// @file
/// The sixteen named barriers of a block.
#pragma once

#include <stdint.h>

#include <vector>

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/error.h"

namespace cutlass_ext::host {

struct Block;
struct Thread;

/// State of one barrier of a block.
struct Barrier {
  int arrived = 0;
  int expected = 0;               ///< threads; 0: every thread of the block that has not returned
  Location first;                 ///< where the first thread arrived
  std::vector<uint32_t> waiting;  ///< a mask of lanes for each warp of the block
  int accumulated = 0;            ///< of __syncthreads_and, _or, _count
  int result = 0;

  void reset(int warps);
};

/// bar.sync `id`, `count`; a count of 0 means the whole block.
void barrier_wait(int id, int count, Location where);

/// bar.arrive `id`, `count`.
void barrier_arrive(int id, int count, Location where);

/// Completes what the return of a thread completes: a barrier counts those that have not returned.
void barriers_after_exit(Block &block);

}  // namespace cutlass_ext::host
