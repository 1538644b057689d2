/// @file
/// What the translation makes of an asm statement: a site, its operands, and their execution.
#pragma once

#include <stdint.h>
#include <string.h>

#include <type_traits>

#include "cutlass_ext/host/error.h"

namespace cutlass_ext::host::ptx {

struct Program;

/// An asm statement: its PTX text and its place. Parsed at its first execution.
struct Site {
  char const *text;
  Location where;
  Program const *program;

  constexpr Site(char const *text, char const *file, int line)
      : text(text), where{file, line}, program(nullptr) {}
};

/// An operand (%0, %1, ...) of an asm statement.
struct Operand {
  void *object = nullptr;  ///< the variable that is written; null for an input
  uint64_t value = 0;      ///< the value that is read, zero-extended
  uint32_t bytes = 0;      ///< size of the C++ object; 0 ends the list
};

namespace detail {

template <class T>
uint64_t bits(T const &value) {
  static_assert(sizeof(T) <= 8, "an operand of inline PTX has at most 64 bits");
  uint64_t result = 0;
  memcpy(&result, &value, sizeof(T));
  return result;
}

}  // namespace detail

/// `"=r"(variable)`
template <char Constraint, class T>
Operand output(T &variable) {
  static_assert(sizeof(T) <= 8, "an operand of inline PTX has at most 64 bits");
  return Operand{&variable, 0, sizeof(T)};
}

/// `"+r"(variable)`
template <char Constraint, class T>
Operand inout(T &variable) {
  return Operand{&variable, detail::bits(variable), sizeof(T)};
}

/// `"r"(value)`
template <char Constraint, class T>
Operand input(T const &value) {
  return Operand{nullptr, detail::bits(value), sizeof(T)};
}

/// Executes `site` for the calling CUDA thread. `operands` ends with an empty one. Throws Error
/// with the text and its place where an instruction is not known.
void execute(Site &site, Operand *operands);

}  // namespace cutlass_ext::host::ptx
