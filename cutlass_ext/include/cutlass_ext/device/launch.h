/// @file
/// Launching a kernel that is a class: its shared memory, its errors.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "cutlass_ext/device/kernel_entry.h"

namespace cutlass_ext {

/// Throws std::runtime_error with CUDA's own name and description of `status`, unless it is
/// success.
inline void check(cudaError_t status, char const *what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(status) + ": " +
                             cudaGetErrorString(status));
  }
}

/// Launches `Kernel` on `stream`; an empty grid launches nothing. Throws std::runtime_error where
/// CUDA refuses: more shared memory than the device has, a stream of another device, a library
/// without code for the device.
template <class Kernel>
void launch(typename Kernel::Params const &params, dim3 grid, cudaStream_t stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
  constexpr int kBytes = int(sizeof(typename Kernel::SharedStorage));
  constexpr int kBytesWithoutOptIn = 48 * 1024;
  if (kBytes > kBytesWithoutOptIn) {
    // Set at every launch: the attribute belongs to the current device, and setting it costs less
    // than remembering for which devices it was set.
    check(cudaFuncSetAttribute(reinterpret_cast<void const *>(&kernel_entry<Kernel>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
          "shared memory of the kernel");
  }
  cudaGetLastError();  // what an earlier call left behind is not this launch's
  kernel_entry<Kernel><<<grid, Kernel::kThreads, kBytes, stream>>>(params);
  check(cudaGetLastError(), "kernel launch");
}

}  // namespace cutlass_ext
