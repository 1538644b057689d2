/// @file
/// Launching a kernel on the host: one fiber a CUDA thread.
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <vector_types.h>

#include <tuple>
#include <utility>

#include "cutlass_ext/host/error.h"

namespace cutlass_ext::host {

/// What stands between `<<<` and `>>>`, and the kernel's address.
struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  size_t dynamic_shared_bytes;
  void const *kernel;
};

/// Runs one CUDA thread.
using ThreadFunction = void (*)(void const *arguments);

/// Runs every thread of every block and returns when the last one has; launches of several host
/// threads run one after another. Throws Error on a fault in the kernel or in the configuration; a
/// launch that failed leaves nothing behind.
void launch(LaunchConfiguration const &configuration, ThreadFunction thread, void const *arguments,
            size_t argument_bytes);

/// The calling block's dynamic shared memory: what `extern __shared__` names.
void *dynamic_shared_memory();

/// The calling block's static shared memory that belongs to `key`; allocated at its first use.
void *static_shared_memory(void const *key, size_t bytes, size_t alignment);

namespace detail {

template <class Holder>
inline char static_shared_memory_key = 0;

}  // namespace detail

/// What `__shared__` names: `Holder` is a class that the translation generates for one declaration.
template <class Holder>
Holder &static_shared_memory() {
  return *static_cast<Holder *>(static_shared_memory(&detail::static_shared_memory_key<Holder>,
                                                     sizeof(Holder), alignof(Holder)));
}

/// A kernel with its configuration; calling it launches.
template <class... Parameters>
class Launcher {
 public:
  Launcher(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes)
      : kernel_(kernel),
        configuration_{grid, block, dynamic_shared_bytes, reinterpret_cast<void const *>(kernel)} {}

  template <class... Arguments>
  void operator()(Arguments &&...arguments) const {
    // The parameters are converted and copied once, at the launch, as on a device.
    Call const call{kernel_, {std::forward<Arguments>(arguments)...}};
    launch(configuration_, &Call::run, &call, sizeof(call));
  }

 private:
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;

    // Not instrumented: reading the parameters is no access of the kernel's.
    __attribute__((no_sanitize("thread"))) static void run(void const *call) {
      auto const &self = *static_cast<Call const *>(call);
      std::apply(self.kernel, self.parameters);
    }
  };

  void (*kernel_)(Parameters...);
  LaunchConfiguration configuration_;
};

/// What the translation makes of `kernel<<<grid, block, dynamic_shared_bytes, stream>>>`.
template <class... Parameters>
Launcher<Parameters...> launcher(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                 size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr) {
  return Launcher<Parameters...>(kernel, grid, block, dynamic_shared_bytes);
}

/// Tells the runtime for which architecture (800 for sm_80) the library around `object` is built.
void register_architecture(void const *object, int architecture);

}  // namespace cutlass_ext::host
