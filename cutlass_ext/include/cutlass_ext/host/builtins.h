/// @file
/// CUDA's built-in variables and its functions for synchronisation, voting, shuffles and atomics.
#pragma once

#include <stdint.h>
#include <string.h>
#include <vector_types.h>

#include "cutlass_ext/host/error.h"

// The scheduler rewrites these whenever it switches fibers; to one thread they are constant.
#if defined(CUTLASS_EXT_HOST_RUNTIME)
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
#else
extern uint3 const threadIdx;
extern uint3 const blockIdx;
extern dim3 const blockDim;
extern dim3 const gridDim;
#endif
static constexpr int warpSize = 32;

namespace cutlass_ext::host::device {

enum class Reduction { kAnd, kOr, kCount };

/// Linear index of the calling thread in its block, modulo 32.
int lane();
void synchronize_block(Location where);
int synchronize_block(int predicate, Reduction reduction, Location where);
void synchronize_warp(unsigned mask, Location where);
unsigned ballot(unsigned mask, int predicate, Location where);
uint64_t shuffle(unsigned mask, uint64_t value, int source_lane, Location where);
/// Tells the checks and the log of an atomic operation that is about to happen.
void atomic_access(void *address, int bytes);
void fence();
uint32_t shared_window_address(void const *pointer);
[[noreturn]] void trap(char const *what);

/// Lane that `__shfl_*_sync` reads: `source` where it lies in the segment of `lane`, else `lane`.
inline int lane_in_segment(int lane, int source, int width) {
  return (source & ~(width - 1)) == (lane & ~(width - 1)) ? source : lane;
}

template <class T>
T shuffle_value(unsigned mask, T value, int source_lane, Location where) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 64 bits");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, source_lane, where);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

/// Read, modify, write. Fibers switch only where a thread waits, so nothing comes between. Not
/// instrumented: the checks have been told that this is an atomic access, not a race.
template <class T, class Operation>
__attribute__((no_sanitize("thread"))) T atomic(T *address, Operation operation) {
  atomic_access(address, sizeof(T));
  T const old = *address;
  *address = operation(old);
  return old;
}

}  // namespace cutlass_ext::host::device

inline void __syncthreads(
    cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  cutlass_ext::host::device::synchronize_block(where);
}

inline int __syncthreads_and(
    int predicate, cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  return synchronize_block(predicate, Reduction::kAnd, where);
}

inline int __syncthreads_or(
    int predicate, cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  return synchronize_block(predicate, Reduction::kOr, where);
}

inline int __syncthreads_count(
    int predicate, cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  return synchronize_block(predicate, Reduction::kCount, where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  cutlass_ext::host::device::synchronize_warp(mask, where);
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  return cutlass_ext::host::device::ballot(mask, predicate, where);
}

inline int __any_sync(unsigned mask, int predicate,
                      cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  return cutlass_ext::host::device::ballot(mask, predicate, where) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  return cutlass_ext::host::device::ballot(mask, !predicate, where) == 0;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  int const segment = lane() & ~(width - 1);
  return shuffle_value(mask, value, segment | (source & (width - 1)), where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  int const self = lane();
  int const source = self ^ lane_mask;
  // Earlier segments may be read, later ones not.
  bool const later = (source & ~(width - 1)) > (self & ~(width - 1));
  return shuffle_value(mask, value, later ? self : source, where);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  int const self = lane();
  return shuffle_value(mask, value, lane_in_segment(self, self + int(delta), width), where);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 cutlass_ext::host::Location where = cutlass_ext::host::Location::current()) {
  using namespace cutlass_ext::host::device;
  int const self = lane();
  return shuffle_value(mask, value, lane_in_segment(self, self - int(delta), width), where);
}

inline unsigned __activemask() {
  return cutlass_ext::host::device::ballot(0, 1, {});
}

inline void __threadfence() {
  cutlass_ext::host::device::fence();
}
inline void __threadfence_block() {
  cutlass_ext::host::device::fence();
}
inline void __threadfence_system() {
  cutlass_ext::host::device::fence();
}

template <class T>
T atomicAdd(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T old) { return T(old + value); });
}

template <class T>
T atomicSub(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T old) { return T(old - value); });
}

template <class T>
T atomicMax(T *address, T value) {
  return cutlass_ext::host::device::atomic(address,
                                           [=](T old) { return old < value ? value : old; });
}

template <class T>
T atomicMin(T *address, T value) {
  return cutlass_ext::host::device::atomic(address,
                                           [=](T old) { return value < old ? value : old; });
}

template <class T>
T atomicAnd(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T old) { return T(old & value); });
}

template <class T>
T atomicOr(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T old) { return T(old | value); });
}

template <class T>
T atomicXor(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T old) { return T(old ^ value); });
}

template <class T>
T atomicExch(T *address, T value) {
  return cutlass_ext::host::device::atomic(address, [=](T) { return value; });
}

template <class T>
T atomicCAS(T *address, T compare, T value) {
  return cutlass_ext::host::device::atomic(
      address, [=](T old) { return memcmp(&old, &compare, sizeof(T)) == 0 ? value : old; });
}

template <class T>
T __ldg(T const *address) {
  return *address;
}

inline size_t __cvta_generic_to_shared(void const *pointer) {
  return cutlass_ext::host::device::shared_window_address(pointer);
}

[[noreturn]] inline void __trap() {
  cutlass_ext::host::device::trap("__trap()");
}
[[noreturn]] inline void __brkpt() {
  cutlass_ext::host::device::trap("__brkpt()");
}
inline void __nanosleep(unsigned) {}
