/// @file
/// A suspended flow of execution on a stack of its own.
#pragma once

#include <stddef.h>

namespace cutlass_ext::host {

/// Switching costs about ten nanoseconds with Boost.Context (context_fcontext.cpp) and, for the
/// system call that saves the signal mask, most of a microsecond with ucontext
/// (context_ucontext.cpp). The build takes one of the two.
class Context {
 public:
  Context() = default;
  Context(Context const &) = delete;
  Context &operator=(Context const &) = delete;
  ~Context();

  /// Makes `entry` what runs on the stack `[stack, stack + bytes)` at the next switch to here;
  /// `entry` never returns.
  void prepare(char *stack, size_t bytes, void (*entry)());

  /// Suspends the running flow in `from` and continues `to`; returns when something switches back.
  static void swap(Context &from, Context &to);

 private:
  void *state_ = nullptr;
};

}  // namespace cutlass_ext::host
