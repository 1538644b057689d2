/// @file
/// Formatting of messages.
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include <string>

#include "cutlass_ext/host/error.h"

namespace cutlass_ext::host {

/// printf into a string.
__attribute__((format(printf, 1, 2))) inline std::string text(char const *format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof(buffer), format, arguments);
  va_end(arguments);
  return buffer;
}

/// " (file:line)", or nothing where the place is unknown.
inline std::string text(Location where) {
  return where.line > 0 ? text(" (%s:%d)", where.file, where.line) : std::string();
}

}  // namespace cutlass_ext::host
