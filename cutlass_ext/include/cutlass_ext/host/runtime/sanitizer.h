/// @file
/// AddressSanitizer's annotations of fiber switches; nothing in the other modes.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cutlass_ext::host::sanitizer {

#if defined(__SANITIZE_ADDRESS__)

/// Before a switch to `stack`; `fake_stack` is null where the running flow ends.
inline void start_switch(void **fake_stack, void const *stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}

/// After a switch back; the other two receive the bounds of the stack that was left.
inline void finish_switch(void *fake_stack, void const **left_stack, size_t *left_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, left_stack, left_bytes);
}

/// Frames that were left without returning leave their redzones behind.
inline void unpoison_stack(void *stack, size_t bytes) {
  __asan_unpoison_memory_region(stack, bytes);
}

#else

inline void start_switch(void **, void const *, size_t) {}
inline void finish_switch(void *, void const **, size_t *) {}
inline void unpoison_stack(void *, size_t) {}

#endif

}  // namespace cutlass_ext::host::sanitizer
