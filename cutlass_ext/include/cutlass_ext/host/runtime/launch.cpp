#include "cutlass_ext/host/launch.h"

#include <mutex>

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/runtime/architecture.h"
#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/observer.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host {

namespace {

constexpr uint64_t kMaxThreads = 1024;
constexpr unsigned kMaxGridX = 0x7fffffffu;
constexpr unsigned kMaxGridYZ = 65535;
constexpr size_t kSharedBytesWithoutOptIn = 48 * 1024;

void check(LaunchConfiguration const &c, int architecture) {
  auto refuse = [&](std::string const &reason) {
    throw Error(text("launch of <<<(%u,%u,%u), (%u,%u,%u), %zu>>>: ", c.grid.x, c.grid.y, c.grid.z,
                     c.block.x, c.block.y, c.block.z, c.dynamic_shared_bytes) +
                reason);
  };
  uint64_t const threads = uint64_t(c.block.x) * c.block.y * c.block.z;
  if (threads == 0 || threads > kMaxThreads || c.block.z > 64) {
    refuse(text("a block has 1 to %d threads, at most 64 of them in z", int(kMaxThreads)));
  }
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0) {
    refuse("the grid is empty");
  }
  if (c.grid.x > kMaxGridX || c.grid.y > kMaxGridYZ || c.grid.z > kMaxGridYZ) {
    refuse("a grid has at most 65535 blocks in y and in z");
  }
  size_t const limit = shared_memory_limit(architecture);
  if (c.dynamic_shared_bytes > limit) {
    refuse(text("sm_%d has %zu bytes of shared memory for a block", architecture / 10, limit));
  }
  size_t const allowed = dynamic_shared_bytes_allowed(c.kernel);
  if (c.dynamic_shared_bytes > kSharedBytesWithoutOptIn && c.dynamic_shared_bytes > allowed) {
    refuse(
        text("more than %zu bytes of shared memory need cudaFuncSetAttribute(kernel, "
             "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) first",
             kSharedBytesWithoutOptIn));
  }
}

}  // namespace

void launch(LaunchConfiguration const &configuration, ThreadFunction thread, void const *arguments,
            size_t argument_bytes) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> const lock(mutex);
  int const architecture = architecture_of(configuration.kernel);
  check(configuration, architecture);
  scheduler().run(configuration, shared_memory_limit(architecture), thread, arguments,
                  argument_bytes);
}

void *dynamic_shared_memory() {
  return scheduler().block().shared.dynamic();
}

void *static_shared_memory(void const *key, size_t bytes, size_t alignment) {
  return scheduler().block().shared.find_static(key, bytes, alignment);
}

namespace device {

uint32_t shared_window_address(void const *pointer) {
  uint32_t address = 0;
  // Null is legal to convert (CUTLASS forms views of absent tensors); any use of it fails.
  if (pointer != nullptr && !scheduler().block().shared.window_address(pointer, address)) {
    scheduler().fail(
        text("conversion to a shared address: %p is not in the block's shared memory", pointer));
  }
  return address;
}

void atomic_access(void *address, int bytes) {
  if (uintptr_t(address) % uintptr_t(bytes) != 0) {
    scheduler().fail(text("atomic: the address %p is not a multiple of %d", address, bytes));
  }
  scheduler().progress();
  observe(AccessKind::kAtomic, address, bytes);
  HappensBefore::atomic(address);
}

void fence() {
  HappensBefore::fence();
}

void trap(char const *what) {
  scheduler().fail(text("%s", what));
}

}  // namespace device

}  // namespace cutlass_ext::host
