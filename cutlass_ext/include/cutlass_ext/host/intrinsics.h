/// @file
/// CUDA's arithmetic functions that a host compiler lacks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>

// ---- minimum and maximum in the global namespace ----

inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline unsigned min(unsigned a, unsigned b) {
  return a < b ? a : b;
}
inline unsigned max(unsigned a, unsigned b) {
  return a > b ? a : b;
}
inline long min(long a, long b) {
  return a < b ? a : b;
}
inline long max(long a, long b) {
  return a > b ? a : b;
}
inline unsigned long min(unsigned long a, unsigned long b) {
  return a < b ? a : b;
}
inline unsigned long max(unsigned long a, unsigned long b) {
  return a > b ? a : b;
}
inline long long min(long long a, long long b) {
  return a < b ? a : b;
}
inline long long max(long long a, long long b) {
  return a > b ? a : b;
}
inline float min(float a, float b) {
  return std::fmin(a, b);
}
inline float max(float a, float b) {
  return std::fmax(a, b);
}
inline double min(double a, double b) {
  return std::fmin(a, b);
}
inline double max(double a, double b) {
  return std::fmax(a, b);
}

// ---- bits ----

namespace cutlass_ext::host::device {

template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace cutlass_ext::host::device

inline float __uint_as_float(unsigned x) {
  return cutlass_ext::host::device::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return cutlass_ext::host::device::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return cutlass_ext::host::device::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return cutlass_ext::host::device::bit_cast<int>(x);
}
inline double __longlong_as_double(long long x) {
  return cutlass_ext::host::device::bit_cast<double>(x);
}
inline long long __double_as_longlong(double x) {
  return cutlass_ext::host::device::bit_cast<long long>(x);
}

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline int __clz(int x) {
  return x ? __builtin_clz(unsigned(x)) : 32;
}
inline int __clzll(long long x) {
  return x ? __builtin_clzll((unsigned long long)x) : 64;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned(uint64_t(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t const bytes = (uint64_t(y) << 32) | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    // Three bits: the intrinsic, unlike prmt, has no sign replication.
    unsigned const select = selector >> (4 * i) & 7;
    result |= unsigned(bytes >> (8 * select) & 255) << (8 * i);
  }
  return result;
}

inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
  }
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) {
    c += (a >> 8 * i & 255u) * (b >> 8 * i & 255u);
  }
  return c;
}

// ---- floating point; the fast functions are computed exactly rounded or better than on a GPU ----

inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float a) {
  return std::exp(a);
}
inline float __exp10f(float a) {
  return std::pow(10.0f, a);
}
inline float __logf(float a) {
  return std::log(a);
}
inline float __log2f(float a) {
  return std::log2(a);
}
inline float __log10f(float a) {
  return std::log10(a);
}
inline float __sinf(float a) {
  return std::sin(a);
}
inline float __cosf(float a) {
  return std::cos(a);
}
inline float __powf(float a, float b) {
  return std::pow(a, b);
}
inline float __saturatef(float a) {
  return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f;
}
inline float rsqrtf(float a) {
  return 1.0f / std::sqrt(a);
}
inline double rsqrt(double a) {
  return 1.0 / std::sqrt(a);
}
inline float __frsqrt_rn(float a) {
  return float(1.0 / std::sqrt(double(a)));
}
inline float __frcp_rn(float a) {
  return 1.0f / a;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}

inline int __float2int_rn(float a) {
  return int(std::nearbyint(a));
}
inline int __float2int_rz(float a) {
  return int(a);
}
inline int __float2int_rd(float a) {
  return int(std::floor(a));
}
inline int __float2int_ru(float a) {
  return int(std::ceil(a));
}
inline unsigned __float2uint_rn(float a) {
  return unsigned(std::nearbyint(a));
}
inline unsigned __float2uint_rz(float a) {
  return unsigned(a);
}
inline float __int2float_rn(int a) {
  return float(a);
}
inline float __uint2float_rn(unsigned a) {
  return float(a);
}
inline int __half2int_rn(__half a) {
  return int(std::nearbyint(__half2float(a)));
}
inline unsigned __half2uint_rn(__half a) {
  return unsigned(std::nearbyint(__half2float(a)));
}

// One rounding: a double holds the product exactly, and leaves the sum enough bits.
inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(double(__half2float(a)) * double(__half2float(b)) + __half2float(c));
}
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __double2bfloat16(double(__bfloat162float(a)) * double(__bfloat162float(b)) +
                           __bfloat162float(c));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                        __hfma(__high2half(a), __high2half(b), __high2half(c)));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __halves2bfloat162(__hfma(__low2bfloat16(a), __low2bfloat16(b), __low2bfloat16(c)),
                            __hfma(__high2bfloat16(a), __high2bfloat16(b), __high2bfloat16(c)));
}
inline __half hrsqrt(__half a) {
  return __float2half(1.0f / std::sqrt(__half2float(a)));
}
inline __half hsqrt(__half a) {
  return __float2half(std::sqrt(__half2float(a)));
}
inline __half hexp(__half a) {
  return __float2half(std::exp(__half2float(a)));
}
inline __half hexp2(__half a) {
  return __float2half(std::exp2(__half2float(a)));
}
inline __half hlog(__half a) {
  return __float2half(std::log(__half2float(a)));
}
inline __half2 h2exp(__half2 a) {
  float2 const x = __half22float2(a);
  return __floats2half2_rn(std::exp(x.x), std::exp(x.y));
}
inline __half2 h2exp2(__half2 a) {
  float2 const x = __half22float2(a);
  return __floats2half2_rn(std::exp2(x.x), std::exp2(x.y));
}
