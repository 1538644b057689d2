/// @file
/// What a translated source sees before its first line (`-include`): CUDA's headers as a host
/// compiler reads them, the device functions that nvcc would bring, and then the macros of the
/// device pass, so that architecture-dependent branches run as on a GPU.
///
/// `CUTLASS_EXT_HOST_EXECUTION` is the architecture to execute: 800 for sm_80.
#pragma once

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/intrinsics.h"
#include "cutlass_ext/host/launch.h"
#include "cutlass_ext/host/ptx.h"

#define __CUDA_ARCH__ CUTLASS_EXT_HOST_EXECUTION
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9
#define __grid_constant__
#if !defined(__launch_bounds__)
#define __launch_bounds__(...)
#endif

// CuTe asks whether the compiler has the intrinsics that it needs.
#define CUTE_CVTA_GENERIC_TO_SHARED_ACTIVATED 1
#define CUTE_ARCH_LDSM_SM75_SUPPORTED 1
#if CUTLASS_EXT_HOST_EXECUTION >= 750
#define CUTE_ARCH_LDSM_SM75_ACTIVATED 1
#endif

// The forms of CUDA's runtime API that only nvcc sees.

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<void const *>(kernel), attribute, value);
}

template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Parameters...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<void const *>(kernel));
}

template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                          void (*kernel)(Parameters...),
                                                          int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<void const *>(kernel), threads, shared_bytes);
}

template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   void (*kernel)(Parameters...),
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, reinterpret_cast<void const *>(kernel), threads, shared_bytes, flags);
}

namespace {

__attribute__((constructor)) void cutlass_ext_register_architecture() {
  static char const anchor = 0;
  ::cutlass_ext::host::register_architecture(&anchor, CUTLASS_EXT_HOST_EXECUTION);
}

}  // namespace
