/// @file
/// d = diag(scale) a b
#pragma once

/// f16, row-major and contiguous: a [m, k], b [k, n], d [m, n]; scale [m] in f32. k and n are
/// multiples of 8. Returns null, or what went wrong.
extern "C" char const *scaled_gemm(void const *a, void const *b, float const *scale, void *d, int m,
                                   int n, int k);
