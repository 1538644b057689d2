/// @file
/// What a caller may choose about host execution, and what it can read afterwards.
#pragma once

#include <stdint.h>

namespace cutlass_ext::host {

/// Which of the threads that can run runs next.
enum class Order : int32_t {
  kForward = 0,       ///< lowest thread index first
  kReverse = 1,       ///< highest thread index first
  kRandom = 2,        ///< any thread
  kWarpPriority = 3,  ///< the warp of highest priority; priorities are drawn anew for every block
};

/// Options of all launches of the process; plain data, shared with Python.
struct Options {
  Order order = Order::kForward;
  /// A cp.async writes shared memory when it is issued (1), or no sooner than its wait (0).
  int32_t eager_copies = 0;
  /// Byte that fills shared memory before a block starts, and a copy's destination until the wait.
  int32_t poison = 0xff;
  /// 1: record every access; read with the functions in control.h.
  int32_t log = 0;
  /// Blocks that are in flight together, interleaved as `order` says.
  int32_t resident_blocks = 1;
  /// 1: blocks start in a random order instead of by index.
  int32_t shuffle_blocks = 0;
  /// 1, instrumented mode: reading shared memory that nothing has written is an error.
  int32_t report_uninitialized = 0;
  int32_t reserved = 0;
  /// Seed of all random choices.
  uint64_t seed = 0;
};

/// Counters since they were last reset.
struct Statistics {
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t switches = 0;
  uint64_t barriers = 0;
  uint64_t collectives = 0;
  uint64_t async_copies = 0;
};

enum class AccessKind : uint8_t {
  kLoad = 0,
  kStore = 1,
  kAsyncCopy = 2,
  kPrefetch = 3,
  kAtomic = 4
};
enum class AddressSpace : uint8_t { kGlobal = 0, kShared = 1 };

/// One access of the log. A cp.async appears twice: its source in global memory, its destination
/// in shared memory.
struct Access {
  uint64_t address;   ///< global: the address; shared: the offset in the block's shared memory
  uint64_t sequence;  ///< position in the order of execution, from 0
  uint32_t launch;    ///< launches counted since the log was last cleared, from 0
  uint32_t block;     ///< linear block index
  uint32_t thread;    ///< linear thread index in the block
  uint16_t bytes;
  AccessKind kind;
  AddressSpace space;
};

}  // namespace cutlass_ext::host
