/// atom and red.

#include <algorithm>
#include <map>

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/ptx/address.h"
#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/happens_before.h"

namespace cutlass_ext::host::ptx {

namespace {

enum Operation { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompareAndSwap };

template <class T>
T combine(Operation operation, T a, T b) {
  return operation == kAdd ? T(a + b) : operation == kMin ? std::min(a, b) : std::max(a, b);
}

uint64_t combine_floats(Operation operation, Type type, uint64_t a, uint64_t b) {
  if (type.bits == 64) {
    return bits_of_double(combine(operation, double_of_bits(a), double_of_bits(b)));
  }
  uint64_t result = 0;
  for (int element = 0; element < type.packed; ++element) {
    int const shift = type.bits % 32 * element;
    float const value = combine(operation, element_to_float(type, uint32_t(a >> shift)),
                                element_to_float(type, uint32_t(b >> shift)));
    result |= uint64_t(float_to_element(type, value)) << shift;
  }
  return result;
}

uint64_t combine_integers(Operation operation, Type type, uint64_t a, uint64_t b) {
  switch (operation) {
    case kAnd:
      return a & b;
    case kOr:
      return a | b;
    case kXor:
      return a ^ b;
    case kExchange:
      return b;
    default:
      break;
  }
  if (type.kind == Type::Kind::kSigned) {
    return type.bits == 64 ? uint64_t(combine(operation, int64_t(a), int64_t(b)))
                           : uint32_t(combine(operation, int32_t(a), int32_t(b)));
  }
  return type.bits == 64 ? combine(operation, a, b) : combine(operation, uint32_t(a), uint32_t(b));
}

// atom d, [a], b {, c};  red [a], b;
void atomic(Frame &frame, Instruction const &i) {
  bool const returns = i.opcode == "atom";
  size_t const first = returns ? 1 : 0;
  int const bytes = i.type.bits * i.type.packed / 8;
  char *pointer = memory_pointer(frame, i, i.operands[first], bytes);
  device::atomic_access(pointer, bytes);
  if (i.has("release") || i.has("acq_rel")) {
    HappensBefore::release(pointer, true);
  }
  if (i.has("acquire") || i.has("acq_rel")) {
    HappensBefore::acquire(pointer, true);
  }
  uint64_t old = 0;
  memcpy(&old, pointer, size_t(bytes));
  uint64_t const operand = frame.read(i.operands[first + 1]);
  uint64_t result = 0;
  if (i.variant == kCompareAndSwap) {
    result = old == operand ? frame.read(i.operands[first + 2]) : old;
  } else if (i.type.is_float()) {
    result = combine_floats(Operation(i.variant), i.type, old, operand);
  } else {
    result = combine_integers(Operation(i.variant), i.type, old, operand);
  }
  memcpy(pointer, &result, size_t(bytes));
  if (returns) {
    frame.write(i.operands[0], old);
  }
}

}  // namespace

bool decode_atomic(Instruction &i) {
  static std::map<std::string, Operation> const operations = {
      {"add", kAdd}, {"min", kMin}, {"max", kMax},       {"and", kAnd},
      {"or", kOr},   {"xor", kXor}, {"exch", kExchange}, {"cas", kCompareAndSwap}};
  if ((i.opcode != "atom" && i.opcode != "red") || i.vector != 1 || i.has("async")) {
    return false;
  }
  for (std::string const &modifier : i.modifiers) {
    auto const found = operations.find(modifier);
    if (found != operations.end()) {
      i.variant = found->second;
      i.handler = atomic;
    }
  }
  i.needs_thread = true;
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
