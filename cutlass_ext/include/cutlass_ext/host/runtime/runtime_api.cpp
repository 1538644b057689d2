/// CUDA's runtime API, as far as CUTLASS's host code and ours call it. Device memory is host
/// memory and a stream executes at once. Kernel libraries are linked with --wrap for these names,
/// so that they never bind to a libcudart that the process has loaded as well.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <string>

#include "cutlass_ext/host/launch.h"
#include "cutlass_ext/host/runtime/architecture.h"

namespace cutlass_ext::host {

namespace {

std::mutex mutex;

std::map<void const *, int> &architectures() {
  static std::map<void const *, int> instance;
  return instance;
}

std::map<void const *, size_t> &allowed_shared_bytes() {
  static std::map<void const *, size_t> instance;
  return instance;
}

void const *library_of(void const *object) {
  Dl_info info;
  return dladdr(object, &info) ? info.dli_fbase : nullptr;
}

constexpr int kDefaultArchitecture = 800;
constexpr int kMultiprocessors = 4;

cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  return last_error = error;
}

}  // namespace

void register_architecture(void const *object, int architecture) {
  std::lock_guard<std::mutex> const lock(mutex);
  architectures()[library_of(object)] = architecture;
}

int architecture_of(void const *object) {
  std::lock_guard<std::mutex> const lock(mutex);
  auto const found = architectures().find(library_of(object));
  return found == architectures().end() ? kDefaultArchitecture : found->second;
}

size_t shared_memory_limit(int architecture) {
  if (architecture >= 900) {
    return 227 * 1024;
  }
  if (architecture == 860 || architecture == 890) {
    return 99 * 1024;
  }
  if (architecture >= 800) {
    return 163 * 1024;
  }
  if (architecture >= 750) {
    return 64 * 1024;
  }
  return architecture >= 700 ? 96 * 1024 : 48 * 1024;
}

size_t dynamic_shared_bytes_allowed(void const *kernel) {
  std::lock_guard<std::mutex> const lock(mutex);
  auto const found = allowed_shared_bytes().find(kernel);
  return found == allowed_shared_bytes().end() ? 0 : found->second;
}

}  // namespace cutlass_ext::host

using namespace cutlass_ext::host;

#define CUTLASS_EXT_WRAP(name) __wrap_##name

extern "C" {

// ---- errors ----

cudaError_t CUTLASS_EXT_WRAP(cudaGetLastError)() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t CUTLASS_EXT_WRAP(cudaPeekAtLastError)() {
  return last_error;
}

char const *CUTLASS_EXT_WRAP(cudaGetErrorName)(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    default:
      return "cudaErrorUnknown";
  }
}

char const *CUTLASS_EXT_WRAP(cudaGetErrorString)(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "a value is outside what the architecture that host execution imitates allows";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "unknown error";
  }
}

// ---- memory ----

cudaError_t CUTLASS_EXT_WRAP(cudaMalloc)(void **pointer, size_t bytes) {
  constexpr size_t kAlignment = 256;
  *pointer = nullptr;
  if (posix_memalign(pointer, kAlignment, bytes ? bytes : 1)) {
    return failed(cudaErrorMemoryAllocation);
  }
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaFree)(void *pointer) {
  free(pointer);
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaMemset)(void *pointer, int value, size_t bytes) {
  memset(pointer, value, bytes);
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaMemsetAsync)(void *pointer, int value, size_t bytes,
                                              cudaStream_t) {
  memset(pointer, value, bytes);
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaMemcpy)(void *destination, void const *source, size_t bytes,
                                         cudaMemcpyKind) {
  memmove(destination, source, bytes);
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaMemcpyAsync)(void *destination, void const *source, size_t bytes,
                                              cudaMemcpyKind, cudaStream_t) {
  memmove(destination, source, bytes);
  return cudaSuccess;
}

// ---- devices, streams ----

cudaError_t CUTLASS_EXT_WRAP(cudaGetDevice)(int *device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaSetDevice)(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t CUTLASS_EXT_WRAP(cudaDeviceSynchronize)() {
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaStreamSynchronize)(cudaStream_t) {
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaDeviceGetAttribute)(int *value, cudaDeviceAttr attribute, int) {
  int const architecture = architecture_of(__builtin_return_address(0));
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = architecture / 100;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = architecture / 10 % 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(shared_memory_limit(architecture));
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(shared_memory_limit(architecture)) + 1024;
      break;
    default:
      return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaGetDeviceProperties)(cudaDeviceProp *properties, int) {
  int const architecture = architecture_of(__builtin_return_address(0));
  memset(static_cast<void *>(properties), 0, sizeof(*properties));
  properties->major = architecture / 100;
  properties->minor = architecture / 10 % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = shared_memory_limit(architecture);
  properties->sharedMemPerMultiprocessor = shared_memory_limit(architecture) + 1024;
  return cudaSuccess;
}

// ---- kernels ----

cudaError_t CUTLASS_EXT_WRAP(cudaFuncSetAttribute)(void const *kernel, cudaFuncAttribute attribute,
                                                   int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || size_t(value) > shared_memory_limit(architecture_of(kernel))) {
      return failed(cudaErrorInvalidValue);
    }
    std::lock_guard<std::mutex> const lock(mutex);
    allowed_shared_bytes()[kernel] = size_t(value);
  }
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaFuncGetAttributes)(cudaFuncAttributes *attributes,
                                                    void const *kernel) {
  memset(static_cast<void *>(attributes), 0, sizeof(*attributes));
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_bytes_allowed(kernel));
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(int *blocks,
                                                                            void const *, int,
                                                                            size_t) {
  *blocks = 1;
  return cudaSuccess;
}

cudaError_t CUTLASS_EXT_WRAP(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int *blocks,
                                                                                     void const *,
                                                                                     int, size_t,
                                                                                     unsigned) {
  *blocks = 1;
  return cudaSuccess;
}

}  // extern "C"
