/// @file
/// Activations between two products: stock functors, chosen by type or at run time.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/activation.h"

namespace cutlass_ext {
namespace epilogue {
namespace thread {

/// Applies a stock functor of one element, in place, to every element of a fragment.
///
/// \tparam Functor_  template of one type: cutlass::epilogue::thread::Identity, ReLu, GELU (by the
///                   error function), SiLu, or any functor of a float
template <template <class> class Functor_>
struct Activation {
  template <class Fragment>
  CUTLASS_DEVICE void operator()(Fragment &values) const {
    Functor_<typename Fragment::Element> functor;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Fragment::kElements; ++i) {
      values[i] = functor(values[i]);
    }
  }
};

/// Which of the activations; the values are part of the binary interface.
enum class ActivationKind { kIdentity = 0, kReLU = 1, kGELU = 2, kSiLU = 3 };

/// One of the four, chosen when a kernel runs: a uniform branch, so that one kernel serves all.
struct SelectedActivation {
  ActivationKind kind = ActivationKind::kIdentity;

  template <class Fragment>
  CUTLASS_DEVICE void operator()(Fragment &values) const {
    switch (kind) {
      case ActivationKind::kIdentity:
        break;
      case ActivationKind::kReLU:
        Activation<cutlass::epilogue::thread::ReLu>()(values);
        break;
      case ActivationKind::kGELU:
        Activation<cutlass::epilogue::thread::GELU>()(values);
        break;
      case ActivationKind::kSiLU:
        Activation<cutlass::epilogue::thread::SiLu>()(values);
        break;
    }
  }
};

}  // namespace thread
}  // namespace epilogue
}  // namespace cutlass_ext
