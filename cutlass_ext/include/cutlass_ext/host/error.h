/// @file
/// The error that host execution reports, and places in sources.
#pragma once

#include <stdexcept>

namespace cutlass_ext::host {

/// A fault found while a kernel runs on the host: a barrier that cannot complete, a misaligned
/// access, a data race, ... The message names the block and the thread.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A place in a source file. As a default argument, `Location::current()` is the caller's place.
struct Location {
  char const *file = "";
  int line = 0;

  static constexpr Location current(char const *file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
    return Location{file, line};
  }
};

}  // namespace cutlass_ext::host
