/// Floating-point arithmetic and the special function unit.

#include <math.h>

#include <map>

#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"

namespace cutlass_ext::host::ptx {

namespace {

constexpr int kFlush = 1;     // .ftz
constexpr int kPassNan = 2;   // .NaN of min and max
constexpr int kSaturate = 4;  // .sat
constexpr int kRelu = 8;      // .relu

float prepare(Instruction const &i, float value) {
  return i.variant & kFlush ? flush(value) : value;
}

float finish(Instruction const &i, float value) {
  if (i.variant & kFlush) {
    value = flush(value);
  }
  if (i.variant & kSaturate) {
    value = value > 0.0f ? fminf(value, 1.0f) : 0.0f;
  }
  if (i.variant & kRelu) {
    value = value > 0.0f || value != value ? value : 0.0f;
  }
  return value;
}

// Applies `operation` to each element of the registers' 16- or 32-bit floats.
template <int Sources, class Operation>
void each_element(Frame &frame, Instruction const &i, Operation operation) {
  uint32_t sources[3] = {};
  for (int source = 0; source < Sources; ++source) {
    sources[source] = frame.read32(i.operands[size_t(source) + 1]);
  }
  uint32_t result = 0;
  for (int element = 0; element < i.type.packed; ++element) {
    float values[3] = {};
    for (int source = 0; source < Sources; ++source) {
      uint32_t const bits = sources[source] >> (i.type.bits % 32 * element);
      values[source] = prepare(i, element_to_float(i.type, bits));
    }
    float const value = finish(i, operation(values[0], values[1], values[2]));
    result |= float_to_element(i.type, value) << (i.type.bits % 32 * element);
  }
  frame.write(i.operands[0], result);
}

template <class Operation>
void unary(Frame &frame, Instruction const &i) {
  each_element<1>(frame, i, [](float a, float, float) { return Operation()(a); });
}

template <class Operation>
void binary(Frame &frame, Instruction const &i) {
  if (i.type.bits == 64) {
    double const a = double_of_bits(frame.read(i.operands[1]));
    double const b = double_of_bits(frame.read(i.operands[2]));
    frame.write(i.operands[0], bits_of_double(Operation()(a, b)));
    return;
  }
  each_element<2>(frame, i, [](float a, float b, float) { return Operation()(a, b); });
}

void multiply_add(Frame &frame, Instruction const &i) {
  if (i.type.bits == 64) {
    double const a = double_of_bits(frame.read(i.operands[1]));
    double const b = double_of_bits(frame.read(i.operands[2]));
    double const c = double_of_bits(frame.read(i.operands[3]));
    frame.write(i.operands[0], bits_of_double(fma(a, b, c)));
    return;
  }
  // The product of two 16-bit floats is exact in a double, and so is rounding once from there to
  // within the double rounding that 53 bits leave.
  each_element<3>(frame, i, [&](float a, float b, float c) {
    return i.type.bits == 32 ? fmaf(a, b, c) : float(double(a) * double(b) + double(c));
  });
}

template <bool Max>
void extremum(Frame &frame, Instruction const &i) {
  bool const pass_nan = i.variant & kPassNan;
  each_element<2>(frame, i, [=](float a, float b, float) {
    if (pass_nan && (a != a || b != b)) {
      return float(NAN);
    }
    return Max ? fmaxf(a, b) : fminf(a, b);
  });
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Exp2 {
  float operator()(float a) const { return exp2f(a); }
};
struct Log2 {
  float operator()(float a) const { return log2f(a); }
};
struct Reciprocal {
  float operator()(float a) const { return 1.0f / a; }
};
struct ReciprocalRoot {
  float operator()(float a) const { return 1.0f / sqrtf(a); }
};
struct Root {
  float operator()(float a) const { return sqrtf(a); }
};
struct Tanh {
  float operator()(float a) const { return tanhf(a); }
};
struct Sine {
  float operator()(float a) const { return sinf(a); }
};
struct Cosine {
  float operator()(float a) const { return cosf(a); }
};
struct Negate {
  float operator()(float a) const { return -a; }
};
struct Absolute {
  float operator()(float a) const { return fabsf(a); }
};

}  // namespace

bool decode_floating_point(Instruction &i) {
  struct Entry {
    Handler handler;
    size_t operands;
    bool doubles;  // whether the handler knows f64
  };
  static std::map<std::string, Entry> const entries = {
      {"add", {binary<Add>, 3, true}},        {"sub", {binary<Subtract>, 3, true}},
      {"mul", {binary<Multiply>, 3, true}},   {"fma", {multiply_add, 4, true}},
      {"max", {extremum<true>, 3, false}},    {"min", {extremum<false>, 3, false}},
      {"ex2", {unary<Exp2>, 2, false}},       {"lg2", {unary<Log2>, 2, false}},
      {"rcp", {unary<Reciprocal>, 2, false}}, {"rsqrt", {unary<ReciprocalRoot>, 2, false}},
      {"sqrt", {unary<Root>, 2, false}},      {"tanh", {unary<Tanh>, 2, false}},
      {"sin", {unary<Sine>, 2, false}},       {"cos", {unary<Cosine>, 2, false}},
      {"neg", {unary<Negate>, 2, false}},     {"abs", {unary<Absolute>, 2, false}}};
  auto const found = entries.find(i.opcode);
  if (found == entries.end() || !i.type.is_float() || i.operands.size() != found->second.operands ||
      (i.type.bits == 64 && !found->second.doubles)) {
    return false;
  }
  for (char const *rounding : {"rz", "rm", "rp"}) {
    if (i.has(rounding)) {
      return false;  // only to nearest
    }
  }
  i.variant = (i.has("ftz") ? kFlush : 0) | (i.has("NaN") ? kPassNan : 0) |
              (i.has("sat") ? kSaturate : 0) | (i.has("relu") ? kRelu : 0);
  i.handler = found->second.handler;
  return true;
}

}  // namespace cutlass_ext::host::ptx
