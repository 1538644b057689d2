/// @file
/// Addresses of PTX memory operands.
#pragma once

#include <stdint.h>

#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host::ptx {

/// Ends the launch with a message about `instruction`, its place included.
[[noreturn]] inline void fail(Frame const &frame, Instruction const &instruction,
                              std::string const &what) {
  scheduler().fail(instruction.full_name() + ": " + what + text(frame.program.where));
}

inline void check_alignment(Frame const &frame, Instruction const &instruction, uint64_t address,
                            int bytes) {
  if (address % uint64_t(bytes) != 0) {
    fail(frame, instruction,
         text("misaligned: the address 0x%llx is not a multiple of %d",
              static_cast<unsigned long long>(address), bytes));
  }
}

/// Pointer to `bytes` bytes at a shared window address.
inline char *shared_pointer(Frame const &frame, Instruction const &instruction, uint32_t address,
                            int bytes) {
  char *pointer = scheduler().block().shared.pointer(address, size_t(bytes));
  if (pointer == nullptr) {
    fail(frame, instruction,
         text("the shared address 0x%x, %d bytes, is outside the block's shared memory", address,
              bytes));
  }
  return pointer;
}

inline bool is_shared(Instruction const &instruction) {
  return instruction.has("shared") || instruction.has("shared::cta");
}

/// Pointer to the `bytes` bytes that `term` names, in the space that `instruction` names; checks
/// the alignment.
inline char *memory_pointer(Frame const &frame, Instruction const &instruction, Term const &term,
                            int bytes) {
  uint64_t const address = frame.read(term);
  check_alignment(frame, instruction, address, bytes);
  if (is_shared(instruction)) {
    return shared_pointer(frame, instruction, uint32_t(address), bytes);
  }
  return reinterpret_cast<char *>(address);
}

}  // namespace cutlass_ext::host::ptx
