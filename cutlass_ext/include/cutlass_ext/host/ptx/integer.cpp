/// Moves, integer arithmetic, bits, comparisons.

#include <algorithm>
#include <map>

#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"

namespace cutlass_ext::host::ptx {

namespace {

uint64_t mask_of(int bits) {
  return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
}

int64_t signed_value(uint64_t value, int bits) {
  return bits >= 64 ? int64_t(value) : int64_t(value << (64 - bits)) >> (64 - bits);
}

// mov.b32 also packs {low, high} into a register twice as wide, and unpacks.
void move(Frame &frame, Instruction const &i) {
  Term const &to = i.operands[0];
  Term const &from = i.operands[1];
  if (from.kind == Term::Kind::kVector) {
    int const bits = i.type.bits / int(from.terms.size());
    uint64_t value = 0;
    for (size_t part = 0; part < from.terms.size(); ++part) {
      value |= (frame.read(from.terms[part]) & mask_of(bits)) << (bits * int(part));
    }
    frame.write(to, value);
  } else if (to.kind == Term::Kind::kVector) {
    int const bits = i.type.bits / int(to.terms.size());
    uint64_t const value = frame.read(from);
    for (size_t part = 0; part < to.terms.size(); ++part) {
      frame.write(to.terms[part], value >> (bits * int(part)) & mask_of(bits));
    }
  } else {
    frame.write(to, frame.read(from));
  }
}

enum Comparison { kEq, kNe, kLt, kLe, kGt, kGe };

template <class T>
bool compare(Comparison comparison, T a, T b) {
  switch (comparison) {
    case kEq:
      return a == b;
    case kNe:
      return a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
  }
  return false;
}

void set_predicate(Frame &frame, Instruction const &i) {
  uint64_t const a = frame.read(i.operands[1]) & mask_of(i.type.bits);
  uint64_t const b = frame.read(i.operands[2]) & mask_of(i.type.bits);
  auto const comparison = Comparison(i.variant);
  bool result = false;
  if (i.type.is_float()) {
    result = i.type.bits == 64 ? compare(comparison, double_of_bits(a), double_of_bits(b))
                               : compare(comparison, element_to_float(i.type, uint32_t(a)),
                                         element_to_float(i.type, uint32_t(b)));
  } else if (i.type.kind == Type::Kind::kSigned) {
    result = compare(comparison, signed_value(a, i.type.bits), signed_value(b, i.type.bits));
  } else {
    result = compare(comparison, a, b);
  }
  frame.write(i.operands[0], result);
}

void select(Frame &frame, Instruction const &i) {
  frame.write(i.operands[0],
              frame.read(frame.read(i.operands[3]) != 0 ? i.operands[1] : i.operands[2]));
}

template <class Operation>
void binary(Frame &frame, Instruction const &i) {
  uint64_t const a = frame.read(i.operands[1]);
  uint64_t const b = frame.read(i.operands[2]);
  frame.write(i.operands[0], Operation()(a, b, i.type) & mask_of(i.type.bits));
}

struct Add {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a + b; }
};
struct Subtract {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a - b; }
};
struct MultiplyLow {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a * b; }
};
struct And {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a & b; }
};
struct Or {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a | b; }
};
struct Xor {
  uint64_t operator()(uint64_t a, uint64_t b, Type) const { return a ^ b; }
};
// Shifts by the width or more give zeros, or the sign.
struct ShiftLeft {
  uint64_t operator()(uint64_t a, uint64_t b, Type type) const {
    uint32_t const count = uint32_t(b);
    return count >= uint32_t(type.bits) ? 0 : a << count;
  }
};
struct ShiftRight {
  uint64_t operator()(uint64_t a, uint64_t b, Type type) const {
    uint32_t const count = std::min(uint32_t(b), uint32_t(type.bits));
    if (type.kind == Type::Kind::kSigned) {
      return uint64_t(signed_value(a, type.bits) >> std::min(count, uint32_t(type.bits - 1)));
    }
    return count >= uint32_t(type.bits) ? 0 : (a & mask_of(type.bits)) >> count;
  }
};
struct Minimum {
  uint64_t operator()(uint64_t a, uint64_t b, Type type) const {
    if (type.kind == Type::Kind::kSigned) {
      return uint64_t(std::min(signed_value(a, type.bits), signed_value(b, type.bits)));
    }
    return std::min(a & mask_of(type.bits), b & mask_of(type.bits));
  }
};
struct Maximum {
  uint64_t operator()(uint64_t a, uint64_t b, Type type) const {
    if (type.kind == Type::Kind::kSigned) {
      return uint64_t(std::max(signed_value(a, type.bits), signed_value(b, type.bits)));
    }
    return std::max(a & mask_of(type.bits), b & mask_of(type.bits));
  }
};

void complement(Frame &frame, Instruction const &i) {
  uint64_t const value = frame.read(i.operands[1]);
  frame.write(i.operands[0],
              i.type.kind == Type::Kind::kPredicate ? !value : ~value & mask_of(i.type.bits));
}

// A selector nibble: three bits choose a byte of b:a, the fourth replicates its sign.
void permute(Frame &frame, Instruction const &i) {
  uint64_t const bytes = uint64_t(frame.read32(i.operands[2])) << 32 | frame.read32(i.operands[1]);
  uint32_t const selector = frame.read32(i.operands[3]);
  uint32_t result = 0;
  for (int byte = 0; byte < 4; ++byte) {
    uint32_t const select = selector >> (4 * byte) & 15;
    uint32_t value = uint32_t(bytes >> (8 * (select & 7))) & 255;
    if (select & 8) {
      value = value & 128 ? 255 : 0;
    }
    result |= value << (8 * byte);
  }
  frame.write(i.operands[0], result);
}

void lookup3(Frame &frame, Instruction const &i) {
  uint32_t const a = frame.read32(i.operands[1]);
  uint32_t const b = frame.read32(i.operands[2]);
  uint32_t const c = frame.read32(i.operands[3]);
  uint32_t const table = frame.read32(i.operands[4]);
  uint32_t result = 0;
  for (int entry = 0; entry < 8; ++entry) {
    if (table >> entry & 1) {
      result |= (entry & 4 ? a : ~a) & (entry & 2 ? b : ~b) & (entry & 1 ? c : ~c);
    }
  }
  frame.write(i.operands[0], result);
}

bool decode_comparison(Instruction &i) {
  static std::map<std::string, Comparison> const comparisons = {
      {"eq", kEq}, {"ne", kNe}, {"lt", kLt}, {"le", kLe}, {"gt", kGt},
      {"ge", kGe}, {"lo", kLt}, {"ls", kLe}, {"hi", kGt}, {"hs", kGe}};
  if (i.modifiers.empty() || i.operands.size() != 3) {
    return false;  // the forms with a second predicate are not known
  }
  auto const found = comparisons.find(i.modifiers[0]);
  if (found == comparisons.end()) {
    return false;
  }
  i.variant = found->second;
  i.handler = set_predicate;
  return true;
}

}  // namespace

bool decode_integer(Instruction &i) {
  static std::map<std::string, Handler> const any_type = {{"mov", move},
                                                          {"selp", select},
                                                          {"and", binary<And>},
                                                          {"or", binary<Or>},
                                                          {"xor", binary<Xor>},
                                                          {"not", complement},
                                                          {"shl", binary<ShiftLeft>},
                                                          {"shr", binary<ShiftRight>}};
  static std::map<std::string, Handler> const integer_type = {{"add", binary<Add>},
                                                              {"sub", binary<Subtract>},
                                                              {"min", binary<Minimum>},
                                                              {"max", binary<Maximum>}};
  if (i.opcode == "setp") {
    return decode_comparison(i);
  }
  if (auto const found = any_type.find(i.opcode); found != any_type.end()) {
    i.handler = found->second;
    for (Term const &term : i.operands) {
      i.needs_thread |= term.kind == Term::Kind::kSpecial;
    }
    return true;
  }
  if (i.type.is_float()) {
    return false;
  }
  if (auto const found = integer_type.find(i.opcode);
      found != integer_type.end() && i.modifiers.size() == 1) {
    i.handler = found->second;
  } else if (i.opcode == "mul" && i.has("lo")) {
    i.handler = binary<MultiplyLow>;
  } else if (i.opcode == "prmt" && i.modifiers.size() == 1) {
    i.handler = permute;
  } else if (i.opcode == "lop3" && i.operands.size() == 5) {
    i.handler = lookup3;
  }
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
