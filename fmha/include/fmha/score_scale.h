/// @file
/// The factor between query key^T and the scores.
#pragma once

#include "cutlass/cutlass.h"

namespace fmha {

/// A positive factor is left to the softmax, which folds it into the exponent: the greatest product
/// is then the greatest score. Any other factor (negative, zero, NaN) multiplies the scores before
/// they are masked, and the softmax goes on with 1.
class ScoreScale {
 public:
  CUTLASS_DEVICE explicit ScoreScale(float scale) : scale_(scale) {}

  CUTLASS_DEVICE bool is_positive() const { return scale_ > 0.f; }

  /// The softmax's factor times log2(e).
  CUTLASS_DEVICE float log2_scale() const {
    constexpr float kLog2e = 1.4426950408889634f;
    return (is_positive() ? scale_ : 1.f) * kLog2e;
  }

  template <class Scores>
  CUTLASS_DEVICE void apply(Scores &scores) const {
    if (!is_positive()) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Scores::kElements; ++i) {
        scores[i] *= scale_;
      }
    }
  }

 private:
  float scale_;
};

}  // namespace fmha
