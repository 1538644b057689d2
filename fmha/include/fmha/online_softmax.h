/// @file
/// Softmax over key blocks that arrive one after another, on accumulators in registers.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/functional.h"
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
/// \tparam Map  cutlass_ext::gemm::warp::AccumulatorMap of the scores; a warp holds whole rows
template <class Map>
class OnlineSoftmax {
 public:
  using Scores = typename Map::Fragment;
  static constexpr int kRows = Map::kRowsPerThread;
  static constexpr float kLazyBits = 8.f;

  /// \param scale_log2  c, positive
  CUTLASS_DEVICE explicit OnlineSoftmax(float scale_log2) : scale_log2_(scale_log2) {
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      maximum_[r] = -cutlass::platform::numeric_limits<float>::max();
      sum_[r] = 0.f;
    }
  }

  /// Takes a key block's scores into the maximum. Where it changes, rescales the sums and calls
  /// `rescale(r, factor)`, to do the same to the output, for each of the thread's rows.
  template <class Rescale>
  CUTLASS_DEVICE void update_maximum(Scores const &scores, Rescale rescale) {
    constexpr int kRun = Map::kColumnRun;
    float block_maximum[kRows];
    bool exceeds = false;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      // As many independent chains as there are neighbours.
      float partial[kRun];
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < Map::kColumnsPerThread; ++c) {
        float const score = scores[Map::index(r, c)];
        partial[c % kRun] = c < kRun ? score : fmaxf(partial[c % kRun], score);
      }
      float maximum = partial[0];
      CUTLASS_PRAGMA_UNROLL
      for (int i = 1; i < kRun; ++i) {
        maximum = fmaxf(maximum, partial[i]);
      }
      block_maximum[r] = maximum * scale_log2_;
      exceeds |= block_maximum[r] - maximum_[r] > kLazyBits;
    }
    // Each lane judges its own part of its rows; the vote makes the decision the warp's, so that
    // the common path has no shuffle.
    if (__any_sync(0xffffffffu, exceeds)) {
      CUTLASS_PRAGMA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        float const row_maximum =
            fmaxf(maximum_[r], Map::reduce_lanes(block_maximum[r], cutlass::maximum<float>()));
        float const factor = exp2_approximate(maximum_[r] - row_maximum);
        maximum_[r] = row_maximum;
        sum_[r] *= factor;
        rescale(r, factor);
      }
    }
    __syncwarp();
  }

  /// Replaces the scores in `columns` of the thread's columns, from `first` on, by their weights.
  template <int kColumns>
  CUTLASS_DEVICE void exponentiate(Scores &scores, int first = 0) {
    constexpr int kRun = Map::kColumnRun;
    CUTLASS_PRAGMA_UNROLL
    for (int run = first; run < first + kColumns; run += kRun) {
      CUTLASS_PRAGMA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        CUTLASS_PRAGMA_UNROLL
        for (int c = run; c < run + kRun; ++c) {
          float const weight =
              exp2_approximate(fmaf(scores[Map::index(r, c)], scale_log2_, -maximum_[r]));
          scores[Map::index(r, c)] = weight;
          sum_[r] += weight;
        }
      }
    }
  }

  /// Sum of the weights of row `r`, in all lanes that share it.
  CUTLASS_DEVICE float total(int r) const {
    return Map::reduce_lanes(sum_[r], cutlass::plus<float>());
  }

  /// Log-sum-exp (natural logarithm) of row `r`, whose `total` is given; -inf if it saw no key.
  CUTLASS_DEVICE float log_sum_exp(int r, float total) const {
    constexpr float kLn2 = 0.6931471805599453f;
    return total == 0.f ? -INFINITY : maximum_[r] * kLn2 + logf(total);
  }

 private:
  float scale_log2_;
  float maximum_[kRows];
  float sum_[kRows];
};

}  // namespace fmha
