#include "cutlass_ext/host/runtime/shared_memory.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "cutlass_ext/host/error.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host {

namespace {

// The window does not begin at 0: a null pointer, converted, is an address that nothing may use.
constexpr uint32_t kWindowBegin = 1024;
// Between two variables, so that an access past the end of one is not inside the next.
constexpr uint32_t kGap = 256;
// What the driver gives at least; a kernel may rely on less only.
constexpr size_t kDynamicAlignment = 1024;

}  // namespace

void SharedMemory::Free::operator()(char *memory) const {
  free(memory);
}

void SharedMemory::reset(size_t dynamic_bytes, size_t limit, int poison) {
  limit_ = limit;
  poison_ = poison;
  used_ = 0;
  bool const reuse = regions_.size() == 1 && regions_[0].bytes == dynamic_bytes;
  if (reuse) {
    used_ = dynamic_bytes;
    memset(regions_[0].memory.get(), poison_, dynamic_bytes);
  } else {
    regions_.clear();
    add(nullptr, dynamic_bytes, kDynamicAlignment);
  }
}

void SharedMemory::add(void const *key, size_t bytes, size_t alignment) {
  used_ += bytes;
  if (used_ > limit_) {
    throw Error(
        text("the block's shared memory, %zu bytes, exceeds the %zu bytes that the "
             "architecture has",
             used_, limit_));
  }
  uint32_t begin = 0;
  if (!regions_.empty()) {
    begin = regions_.back().begin + uint32_t(regions_.back().bytes) + kGap;
    begin = (begin + kGap - 1) / kGap * kGap;
  }
  void *memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void *)), std::max<size_t>(bytes, 1))) {
    throw std::bad_alloc();
  }
  memset(memory, poison_, bytes);
  regions_.push_back(
      Region{key, std::unique_ptr<char, Free>(static_cast<char *>(memory)), bytes, begin});
}

void *SharedMemory::find_static(void const *key, size_t bytes, size_t alignment) {
  for (Region const &region : regions_) {
    if (region.key == key) {
      return region.memory.get();
    }
  }
  add(key, bytes, alignment);
  return regions_.back().memory.get();
}

bool SharedMemory::window_address(void const *pointer, uint32_t &address) const {
  for (Region const &region : regions_) {
    size_t const distance = uintptr_t(pointer) - uintptr_t(region.memory.get());
    if (distance <= region.bytes) {
      address = kWindowBegin + region.begin + uint32_t(distance);
      return true;
    }
  }
  return false;
}

char *SharedMemory::pointer(uint32_t address, size_t bytes) const {
  for (Region const &region : regions_) {
    size_t const distance = size_t(address) - kWindowBegin - region.begin;
    if (distance < region.bytes && distance + bytes <= region.bytes) {
      return region.memory.get() + distance;
    }
  }
  return nullptr;
}

bool SharedMemory::offset(void const *pointer, uint32_t &offset) const {
  for (Region const &region : regions_) {
    size_t const distance = uintptr_t(pointer) - uintptr_t(region.memory.get());
    if (distance < region.bytes) {
      offset = region.begin + uint32_t(distance);
      return true;
    }
  }
  return false;
}

size_t SharedMemory::extent() const {
  return regions_.back().begin + regions_.back().bytes;
}

}  // namespace cutlass_ext::host
