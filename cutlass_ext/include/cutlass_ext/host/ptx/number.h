/// @file
/// The number formats that PTX computes with, as conversions to and from float.
#pragma once

#include <stdint.h>
#include <string.h>

#include "cutlass_ext/host/ptx/program.h"

namespace cutlass_ext::host::ptx {

inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// binary16 to float; exact. Free of branches, so that loops over it are vectorised.
inline float half_to_float(uint16_t half) {
  uint32_t const magnitude = uint32_t(half & 0x7fff) << 13;
  // Scaling by 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals.
  uint32_t bits = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
  bits |= magnitude >= (0x7c00u << 13) ? 0x7f800000u : 0u;  // infinity, NaN
  return float_of_bits(bits | uint32_t(half & 0x8000) << 16);
}

/// float to binary16, to nearest even.
inline uint16_t float_to_half(float value) {
  uint32_t const bits = bits_of_float(value);
  uint32_t const sign = bits >> 16 & 0x8000;
  uint32_t const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return uint16_t(sign | 0x7fff);
  }
  if (magnitude >= 0x477ff000) {  // rounds to 2^16 or more
    return uint16_t(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {  // below 2^-14: a multiple of 2^-24, by the float adder's rounding
    float const shifted = float_of_bits(magnitude) + 0.5f;
    return uint16_t(sign | (bits_of_float(shifted) - bits_of_float(0.5f)));
  }
  uint32_t const rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return uint16_t(sign | (rounded - (112u << 23)) >> 13);
}

inline float bfloat_to_float(uint16_t value) {
  return float_of_bits(uint32_t(value) << 16);
}

/// float to bfloat16, to nearest even.
inline uint16_t float_to_bfloat(float value) {
  uint32_t const bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;
  }
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Value of a float, half or bfloat element of `type`, given its bits.
inline float element_to_float(Type type, uint32_t bits) {
  if (type.bits == 32) {
    return float_of_bits(bits);
  }
  return type.kind == Type::Kind::kBfloat ? bfloat_to_float(uint16_t(bits))
                                          : half_to_float(uint16_t(bits));
}

inline uint32_t float_to_element(Type type, float value) {
  if (type.bits == 32) {
    return bits_of_float(value);
  }
  return type.kind == Type::Kind::kBfloat ? float_to_bfloat(value) : float_to_half(value);
}

/// A subnormal becomes zero of the same sign (.ftz).
inline float flush(float value) {
  uint32_t const bits = bits_of_float(value);
  return (bits & 0x7f800000) ? value : float_of_bits(bits & 0x80000000u);
}

}  // namespace cutlass_ext::host::ptx
