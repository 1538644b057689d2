/// @file
/// A CUDA thread and the block that it belongs to.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <vector_types.h>

#include <vector>

#include "cutlass_ext/host/error.h"
#include "cutlass_ext/host/runtime/async_copy.h"
#include "cutlass_ext/host/runtime/barrier.h"
#include "cutlass_ext/host/runtime/context.h"
#include "cutlass_ext/host/runtime/shared_memory.h"

namespace cutlass_ext::host {

/// What a thread that cannot run waits for.
struct Wait {
  char const *what = "";
  Location where;
};

/// One CUDA thread: a fiber with its indices.
struct Thread {
  Context context;
  char *stack = nullptr;
  size_t stack_bytes = 0;
  void *fake_stack = nullptr;  ///< AddressSanitizer's

  int slot = 0;   ///< which of the resident blocks
  int index = 0;  ///< linear, in the block
  int warp = 0;   ///< over all resident blocks
  int lane = 0;
  uint3 thread_index{};
  bool done = true;
  Wait wait;
  AsyncCopies copies;
  uint64_t spins = 0;  ///< fruitless reads of a flag since `spin_epoch`
  uint64_t spin_epoch = 0;

  Thread() = default;
  Thread(Thread const &) = delete;
  Thread &operator=(Thread const &) = delete;
  ~Thread();

  /// Allocates the stack, with a page below it that faults.
  void allocate_stack(size_t bytes);
};

/// One block in flight.
struct Block {
  static constexpr int kBarriers = 16;

  uint64_t linear_index = 0;
  uint3 index{};
  int alive = 0;  ///< threads that have not returned
  SharedMemory shared;
  Barrier barriers[kBarriers];
};

}  // namespace cutlass_ext::host
