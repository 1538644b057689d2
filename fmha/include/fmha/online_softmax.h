/// @file
/// Softmax over key blocks that arrive one after another, on 16x8 tensor-op accumulators.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/platform/platform.h"

namespace fmha {

/// 2^x by the special-function unit; relative error below 2^-22, subnormal results are zero.
CUTLASS_DEVICE float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Running maximum and running sum of the rows that one thread shares in.
///
/// With scores s and c = scale * log2(e), the weights are p = 2^(c s - m), m being the maximum of
/// c s so far, rounded; their sum is kept, and the output accumulated with them has to be
/// multiplied by 2^(m_old - m_new) whenever m changes (Milakov and Gimelshein, "Online normalizer
/// calculation for softmax", 2018). m starts at the lowest finite number, not at -inf: a hidden
/// score, -inf, then has the weight 2^-inf = 0 in a row that has seen no key yet, where -inf - -inf
/// would be a NaN.
///
/// The maximum is lazy: it changes only when some score exceeds it by more than kLazyBits in the
/// exponent. Weights then reach 2^kLazyBits, harmless in float and in half_t, and most key blocks
/// need neither the row reduction nor the multiplication of the output.
///
/// Accumulators of a warp tile of kRowTiles x n instructions of 16 rows and 8 columns: element e of
/// instruction (m, n) is `accumulators[(n * kRowTiles + m) * 4 + e]`; thread `lane` holds
///   row 16 m + 8 (e / 2) + lane / 4, column 8 n + 2 (lane % 4) + e % 2.
/// A row belongs to four neighbouring lanes, and a thread has kRows = 2 kRowTiles rows.
template <int kRowTiles>
class OnlineSoftmax {
 public:
  static constexpr int kRows = 2 * kRowTiles;
  static constexpr float kLazyBits = 8.f;

  CUTLASS_DEVICE explicit OnlineSoftmax(float scale_log2) : scale_log2_(scale_log2) {
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      maximum_[r] = -cutlass::platform::numeric_limits<float>::max();
      sum_[r] = 0.f;
    }
  }

  /// Index of a thread's row `r` in the warp's tile.
  CUTLASS_DEVICE static int row(int lane, int r) { return 16 * (r / 2) + 8 * (r % 2) + lane / 4; }

  /// Index of the accumulator of row `r` in instruction column `n`, first of two neighbours.
  CUTLASS_DEVICE static int pair(int r, int n) { return (n * kRowTiles + r / 2) * 4 + (r % 2) * 2; }

  /// Takes a key block's scores into the maximum and, where it changes, rescales sum and output.
  template <int kKeyTiles, int kOutputTiles>
  CUTLASS_DEVICE void update_maximum(float const (&scores)[kKeyTiles * kRowTiles * 4],
                                     float (&output)[kOutputTiles * kRowTiles * 4]) {
    float block_maximum[kRows];
    bool exceeds = false;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float even = scores[pair(r, 0)], odd = scores[pair(r, 0) + 1];
      CUTLASS_PRAGMA_UNROLL
      for (int n = 1; n < kKeyTiles; ++n) {
        even = fmaxf(even, scores[pair(r, n)]);
        odd = fmaxf(odd, scores[pair(r, n) + 1]);
      }
      block_maximum[r] = fmaxf(even, odd) * scale_log2_;
      exceeds |= block_maximum[r] - maximum_[r] > kLazyBits;
    }
    // Each lane judges its own part of its rows; the vote makes the decision the warp's, so that
    // the common path has no shuffle.
    if (__any_sync(0xffffffffu, exceeds)) {
      CUTLASS_PRAGMA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        rescale<kOutputTiles>(r, block_maximum[r], output);
      }
    }
    __syncwarp();
  }

  /// Replaces the scores of instruction columns n ... n + kTiles - 1 by their weights.
  template <int kTiles, int kScores>
  CUTLASS_DEVICE void exponentiate(float (&scores)[kScores], int n) {
    CUTLASS_PRAGMA_UNROLL
    for (int tile = n; tile < n + kTiles; ++tile) {
      CUTLASS_PRAGMA_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        CUTLASS_PRAGMA_UNROLL
        for (int e = 0; e < 4; ++e) {
          int const r = 2 * m + e / 2;
          float &score = scores[(tile * kRowTiles + m) * 4 + e];
          score = exp2_approximate(fmaf(score, scale_log2_, -maximum_[r]));
          sum_[r] += score;
        }
      }
    }
  }

  /// Sum of the weights of row `r` over the four lanes that share it.
  CUTLASS_DEVICE float total(int r) const {
    float total = sum_[r];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    return total + __shfl_xor_sync(0xffffffffu, total, 2);
  }

  /// Log-sum-exp (natural logarithm) of row `r`, whose `total` is given; -inf if it saw no key.
  CUTLASS_DEVICE float log_sum_exp(int r, float total) const {
    constexpr float kLn2 = 0.6931471805599453f;
    return total == 0.f ? -INFINITY : maximum_[r] * kLn2 + logf(total);
  }

 private:
  template <int kOutputTiles>
  CUTLASS_DEVICE void rescale(int r, float block_maximum,
                              float (&output)[kOutputTiles * kRowTiles * 4]) {
    float row_maximum = fmaxf(block_maximum, __shfl_xor_sync(0xffffffffu, block_maximum, 1));
    row_maximum = fmaxf(row_maximum, __shfl_xor_sync(0xffffffffu, row_maximum, 2));
    row_maximum = fmaxf(row_maximum, maximum_[r]);
    float const factor = exp2_approximate(maximum_[r] - row_maximum);
    maximum_[r] = row_maximum;
    sum_[r] *= factor;
    CUTLASS_PRAGMA_UNROLL
    for (int n = 0; n < kOutputTiles; ++n) {
      output[pair(r, n)] *= factor;
      output[pair(r, n) + 1] *= factor;
    }
  }

  float scale_log2_;
  float maximum_[kRows];
  float sum_[kRows];
};

}  // namespace fmha
