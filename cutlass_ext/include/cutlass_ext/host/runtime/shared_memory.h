/// @file
/// The shared memory of one block.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

namespace cutlass_ext::host {

/// Dynamic shared memory and any number of static variables. Each is an allocation of exactly its
/// size, so that AddressSanitizer sees an access past its end; together they form the window of
/// 32-bit addresses that PTX uses.
class SharedMemory {
 public:
  /// Starts a block: `dynamic_bytes` filled with `poison`, no static variables yet.
  void reset(size_t dynamic_bytes, size_t limit, int poison);

  void *dynamic() const { return regions_[0].memory.get(); }

  /// The variable that belongs to `key`; allocated and poisoned when first asked for.
  void *find_static(void const *key, size_t bytes, size_t alignment);

  /// Window address of `pointer`; false where it does not point into shared memory. One past the
  /// end of a variable is an address of it.
  bool window_address(void const *pointer, uint32_t &address) const;

  /// Pointer to `bytes` bytes at a window address; null where they are not inside one variable.
  char *pointer(uint32_t address, size_t bytes) const;

  /// Offset of `pointer` from the window's beginning; false where it is not in shared memory.
  bool offset(void const *pointer, uint32_t &offset) const;

  /// Bytes from the window's beginning to the end of the last variable.
  size_t extent() const;

 private:
  struct Free {
    void operator()(char *memory) const;
  };
  struct Region {
    void const *key;
    std::unique_ptr<char, Free> memory;
    size_t bytes;
    uint32_t begin;  ///< offset from the window's beginning
  };

  void add(void const *key, size_t bytes, size_t alignment);

  std::vector<Region> regions_;
  size_t limit_ = 0;
  size_t used_ = 0;
  int poison_ = 0;
};

}  // namespace cutlass_ext::host
