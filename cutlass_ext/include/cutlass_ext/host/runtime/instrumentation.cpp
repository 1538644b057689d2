/// The callbacks of the compiler's -fsanitize=thread: every load and store of a kernel, as the
/// instrumented mode sees them. They replace libtsan, which knows nothing of barriers and warps.

#if defined(CUTLASS_EXT_HOST_INSTRUMENTED)

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/observer.h"
#include "cutlass_ext/host/runtime/scheduler.h"

namespace {

using namespace cutlass_ext::host;

void access(AccessKind kind, void const *address, size_t bytes) {
  if (!scheduler().running()) {
    return;
  }
  constexpr size_t kChunk = 4096;
  for (size_t first = 0; first < bytes; first += kChunk) {
    observe(kind, static_cast<char const *>(address) + first, int(std::min(kChunk, bytes - first)));
  }
}

// A volatile access is a relaxed atomic one.
void volatile_access(void const *address, size_t bytes, bool load) {
  if (!scheduler().running() || scheduler().is_private(address)) {
    return;
  }
  access(AccessKind::kAtomic, address, bytes);
  if (load) {
    HappensBefore::acquire(address, false);
  } else {
    HappensBefore::release(address, false);
    scheduler().progress();
  }
}

template <class T>
void atomic_access(T volatile *address) {
  access(AccessKind::kAtomic, const_cast<T *>(address), sizeof(T));
  if (scheduler().running()) {
    HappensBefore::acquire(const_cast<T *>(address), true);
    HappensBefore::release(const_cast<T *>(address), true);
  }
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

#define CUTLASS_EXT_TSAN_ACCESS(bytes)                         \
  void __tsan_read##bytes(void *address) {                     \
    access(AccessKind::kLoad, address, bytes);                 \
  }                                                            \
  void __tsan_write##bytes(void *address) {                    \
    access(AccessKind::kStore, address, bytes);                \
  }                                                            \
  void __tsan_unaligned_read##bytes(void *address) {           \
    access(AccessKind::kLoad, address, bytes);                 \
  }                                                            \
  void __tsan_unaligned_write##bytes(void *address) {          \
    access(AccessKind::kStore, address, bytes);                \
  }                                                            \
  void __tsan_volatile_read##bytes(void *address) {            \
    volatile_access(address, bytes, true);                     \
  }                                                            \
  void __tsan_volatile_write##bytes(void *address) {           \
    volatile_access(address, bytes, false);                    \
  }                                                            \
  void __tsan_unaligned_volatile_read##bytes(void *address) {  \
    volatile_access(address, bytes, true);                     \
  }                                                            \
  void __tsan_unaligned_volatile_write##bytes(void *address) { \
    volatile_access(address, bytes, false);                    \
  }

CUTLASS_EXT_TSAN_ACCESS(1)
CUTLASS_EXT_TSAN_ACCESS(2)
CUTLASS_EXT_TSAN_ACCESS(4)
CUTLASS_EXT_TSAN_ACCESS(8)
CUTLASS_EXT_TSAN_ACCESS(16)

void __tsan_read_range(void *address, size_t bytes) {
  access(AccessKind::kLoad, address, bytes);
}
void __tsan_write_range(void *address, size_t bytes) {
  access(AccessKind::kStore, address, bytes);
}

// std::atomic and the compiler's __atomic functions.
#define CUTLASS_EXT_TSAN_ATOMIC(bits, T)                                                          \
  T __tsan_atomic##bits##_load(T const volatile *address, int) {                                  \
    atomic_access(const_cast<T volatile *>(address));                                             \
    return *address;                                                                              \
  }                                                                                               \
  void __tsan_atomic##bits##_store(T volatile *address, T value, int) {                           \
    atomic_access(address);                                                                       \
    *address = value;                                                                             \
  }                                                                                               \
  T __tsan_atomic##bits##_exchange(T volatile *address, T value, int) {                           \
    atomic_access(address);                                                                       \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                 \
  }                                                                                               \
  T __tsan_atomic##bits##_fetch_add(T volatile *address, T value, int) {                          \
    atomic_access(address);                                                                       \
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                               \
  T __tsan_atomic##bits##_fetch_sub(T volatile *address, T value, int) {                          \
    atomic_access(address);                                                                       \
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(T volatile *address, T *expected, T value,    \
                                                    int, int) {                                   \
    atomic_access(address);                                                                       \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,         \
                                       __ATOMIC_SEQ_CST);                                         \
  }                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_weak(T volatile *address, T *expected, T value, int, \
                                                  int) {                                          \
    atomic_access(address);                                                                       \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,         \
                                       __ATOMIC_SEQ_CST);                                         \
  }

CUTLASS_EXT_TSAN_ATOMIC(8, uint8_t)
CUTLASS_EXT_TSAN_ATOMIC(16, uint16_t)
CUTLASS_EXT_TSAN_ATOMIC(32, uint32_t)
CUTLASS_EXT_TSAN_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int) {
  if (scheduler().running()) {
    HappensBefore::fence();
  }
}
void __tsan_atomic_signal_fence(int) {}

// The compiler leaves calls of these to libtsan's interceptors; kernels are linked with --wrap.
void *__wrap_memcpy(void *destination, void const *source, size_t bytes) {
  access(AccessKind::kLoad, source, bytes);
  access(AccessKind::kStore, destination, bytes);
  return memcpy(destination, source, bytes);
}

void *__wrap_memmove(void *destination, void const *source, size_t bytes) {
  access(AccessKind::kLoad, source, bytes);
  access(AccessKind::kStore, destination, bytes);
  return memmove(destination, source, bytes);
}

void *__wrap_memset(void *destination, int value, size_t bytes) {
  access(AccessKind::kStore, destination, bytes);
  return memset(destination, value, bytes);
}

}  // extern "C"

#endif
