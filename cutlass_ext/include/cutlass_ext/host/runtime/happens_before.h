/// @file
/// The race check: happens-before between the threads of a launch, by vector clocks.
#pragma once

#include <stdint.h>

#include "cutlass_ext/host/options.h"

namespace cutlass_ext::host {

/// Only the instrumented mode sees every access; the others compile the check away.
#if defined(CUTLASS_EXT_HOST_INSTRUMENTED)

class HappensBefore {
 public:
  static constexpr bool kEnabled = true;

  static void begin_launch(int threads_per_block);
  static void end_launch();
  static void begin_block(int slot, uint64_t linear_index);

  static void access(AccessKind kind, AddressSpace space, void const *address,
                     uint32_t shared_offset, int bytes);
  static void complete_copy(void const *destination, int bytes);

  static void arrive_barrier(int id);
  static void complete_barrier(int slot, int id, bool whole_block);
  static void leave_barrier(int id);
  static void synchronize_lanes(unsigned lanes);

  /// A strong load; `ordered`: it acquires by itself, else a later fence does.
  static void acquire(void const *address, bool ordered);
  /// A strong store; `ordered`: it releases by itself, else an earlier fence did.
  static void release(void const *address, bool ordered);
  static void atomic(void const *address);
  static void fence();
};

#else

class HappensBefore {
 public:
  static constexpr bool kEnabled = false;

  static void begin_launch(int) {}
  static void end_launch() {}
  static void begin_block(int, uint64_t) {}

  static void access(AccessKind, AddressSpace, void const *, uint32_t, int) {}
  static void complete_copy(void const *, int) {}

  static void arrive_barrier(int) {}
  static void complete_barrier(int, int, bool) {}
  static void leave_barrier(int) {}
  static void synchronize_lanes(unsigned) {}

  static void acquire(void const *, bool) {}
  static void release(void const *, bool) {}
  static void atomic(void const *) {}
  static void fence() {}
};

#endif

}  // namespace cutlass_ext::host
