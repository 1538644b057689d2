// Runs the kernel on the CPU and compares with a plain loop: small integers, equal to the bit.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "scaled_gemm.h"

namespace {

/// An integer from -2048 to 2048 as IEEE half.
uint16_t half(int value) {
  float const f = float(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (value == 0) {
    return 0;
  }
  uint32_t const exponent = (bits >> 23 & 0xff) - 127 + 15;
  return uint16_t((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

}  // namespace

int main() {
  int const m = 100, n = 72, k = 40;
  std::vector<int> a(m * k), b(k * n);
  std::vector<uint16_t> half_a, half_b, d(m * n, 0xffff);
  std::vector<float> scale;
  for (int i = 0; i < m * k; ++i) {
    a[i] = i * 7 % 5 - 2;
    half_a.push_back(half(a[i]));
  }
  for (int i = 0; i < k * n; ++i) {
    b[i] = i * 11 % 3 - 1;
    half_b.push_back(half(b[i]));
  }
  for (int i = 0; i < m; ++i) {
    scale.push_back(float(i % 4));
  }
  if (char const *message =
          scaled_gemm(half_a.data(), half_b.data(), scale.data(), d.data(), m, n, k)) {
    std::fprintf(stderr, "%s\n", message);
    return 1;
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += a[i * k + l] * b[l * n + j];
      }
      uint16_t const expected = half(sum * (i % 4));
      uint16_t const found = d[i * n + j];
      // Zero times a negative number is -0.
      if (found != expected && !(expected == 0 && found == 0x8000)) {
        std::fprintf(stderr, "row %d, column %d: %04x, not %04x\n", i, j, found, expected);
        return 1;
      }
    }
  }
  std::puts("equal");
  return 0;
}
