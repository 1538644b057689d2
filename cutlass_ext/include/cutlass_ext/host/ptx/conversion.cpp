/// cvt: conversions between number formats.

#include <math.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"

namespace cutlass_ext::host::ptx {

namespace {

constexpr Type kHalf{Type::Kind::kFloat, 16, 1};
constexpr Type kBfloat{Type::Kind::kBfloat, 16, 1};

uint32_t round_toward_zero(Type type, float value) {
  uint32_t const nearest = float_to_element(type, value);
  float const back = element_to_float(type, nearest);
  // Where the nearest lies farther from zero, the one before it is wanted.
  return fabsf(back) > fabsf(value) ? nearest - 1 : nearest;
}

// cvt.rn.f16x2.f32 d, high, low
template <bool Bfloat, bool TowardZero, bool Relu>
void pack_floats(Frame &frame, Instruction const &i) {
  constexpr Type kType = Bfloat ? kBfloat : kHalf;
  uint32_t result = 0;
  for (int element = 0; element < 2; ++element) {
    float value = frame.read_float(i.operands[size_t(2 - element)]);
    if (Relu && value < 0.0f) {
      value = 0.0f;
    }
    uint32_t const bits =
        TowardZero ? round_toward_zero(kType, value) : float_to_element(kType, value);
    result |= bits << (16 * element);
  }
  frame.write(i.operands[0], result);
}

template <bool Bfloat, bool TowardZero>
void narrow_float(Frame &frame, Instruction const &i) {
  constexpr Type kType = Bfloat ? kBfloat : kHalf;
  float const value = frame.read_float(i.operands[1]);
  frame.write(i.operands[0],
              TowardZero ? round_toward_zero(kType, value) : float_to_element(kType, value));
}

template <bool Bfloat>
void widen_float(Frame &frame, Instruction const &i) {
  frame.write_float(i.operands[0],
                    element_to_float(Bfloat ? kBfloat : kHalf, frame.read32(i.operands[1])));
}

// To ten mantissa bits: ties away from zero (.rna) or to even (.rn).
template <bool TiesAway>
void round_to_tf32(Frame &frame, Instruction const &i) {
  uint32_t bits = frame.read32(i.operands[1]);
  if ((bits & 0x7f800000u) != 0x7f800000u) {
    bits += TiesAway ? 0x1000u : 0x0fffu + (bits >> 13 & 1);
    bits &= 0xffffe000u;
  }
  frame.write(i.operands[0], bits);
}

void copy_integer(Frame &frame, Instruction const &i) {
  frame.write(i.operands[0], frame.read(i.operands[1]));
}

void sign_extend(Frame &frame, Instruction const &i) {
  frame.write(i.operands[0], uint64_t(int64_t(int32_t(frame.read32(i.operands[1])))));
}

// To the nearest integer, NaN to 0, clamped to the range as PTX converts always.
template <class Integer>
void round_to_integer(Frame &frame, Instruction const &i) {
  float const value = frame.read_float(i.operands[1]);
  double const low = double(std::numeric_limits<Integer>::min());
  double const high = double(std::numeric_limits<Integer>::max());
  double const rounded = value != value ? 0.0 : nearbyint(double(value));
  auto const integer = int64_t(std::min(std::max(rounded, low), high));
  frame.write(i.operands[0], uint64_t(integer) & 0xffffffffu);
}

void signed_to_float(Frame &frame, Instruction const &i) {
  frame.write_float(i.operands[0], float(int32_t(frame.read32(i.operands[1]))));
}

void unsigned_to_float(Frame &frame, Instruction const &i) {
  frame.write_float(i.operands[0], float(frame.read32(i.operands[1])));
}

}  // namespace

bool decode_conversion(Instruction &i) {
  static std::map<std::string, Handler> const conversions = {
      {"cvt.rn.f16x2.f32", pack_floats<false, false, false>},
      {"cvt.rz.f16x2.f32", pack_floats<false, true, false>},
      {"cvt.rn.relu.f16x2.f32", pack_floats<false, false, true>},
      {"cvt.rn.bf16x2.f32", pack_floats<true, false, false>},
      {"cvt.rz.bf16x2.f32", pack_floats<true, true, false>},
      {"cvt.rn.relu.bf16x2.f32", pack_floats<true, false, true>},
      {"cvt.rn.f16.f32", narrow_float<false, false>},
      {"cvt.rz.f16.f32", narrow_float<false, true>},
      {"cvt.rn.bf16.f32", narrow_float<true, false>},
      {"cvt.rz.bf16.f32", narrow_float<true, true>},
      {"cvt.f32.f16", widen_float<false>},
      {"cvt.f32.bf16", widen_float<true>},
      {"cvt.rna.tf32.f32", round_to_tf32<true>},
      {"cvt.rn.tf32.f32", round_to_tf32<false>},
      {"cvt.u64.u32", copy_integer},
      {"cvt.u32.u64", copy_integer},
      {"cvt.s64.s32", sign_extend},
      {"cvt.rni.s32.f32", round_to_integer<int32_t>},
      {"cvt.rni.u32.f32", round_to_integer<uint32_t>},
      {"cvt.rni.sat.s8.f32", round_to_integer<int8_t>},
      {"cvt.rni.sat.u8.f32", round_to_integer<uint8_t>},
      {"cvt.rn.f32.s32", signed_to_float},
      {"cvt.rn.f32.u32", unsigned_to_float}};
  if (i.opcode != "cvt") {
    return false;
  }
  auto const found = conversions.find(i.full_name());
  if (found != conversions.end()) {
    i.handler = found->second;
  }
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
