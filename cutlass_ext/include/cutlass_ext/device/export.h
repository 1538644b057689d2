/// @file
/// The C interface of a kernel library: exported functions return null, or a message.
#pragma once

#include <stdint.h>

#include <exception>
#include <string>

/// Marks a function that a kernel library exports; everything else in it has hidden visibility.
#define CUTLASS_EXT_EXPORT extern "C" __attribute__((visibility("default")))

namespace cutlass_ext {

/// An argument of an exported function that is called by position.
union Word {
  int64_t i;
  double d;
  void *p;
};

/// Runs `body`; returns null, or the message of what it threw. The message belongs to the calling
/// thread and lives until that thread's next failure in this library.
template <class Body>
char const *guarded(Body &&body) noexcept {
  static thread_local std::string message;
  try {
    body();
    return nullptr;
  } catch (std::exception const &error) {
    message = error.what();
  } catch (...) {
    message = "an exception that is not a std::exception";
  }
  return message.c_str();
}

}  // namespace cutlass_ext
