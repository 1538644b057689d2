/// @file
/// A stock threadblock-level Mma in three steps: prologue, main loop, recycle.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/threadblock/rebind_mma.h"

#include CUDA_STD_HEADER(cassert)

namespace cutlass_ext {
namespace gemm {
namespace threadblock {

namespace detail {

/// Whether an iterator visits a partial tile after whole ones (it has kResidualLast = true).
template <class Iterator, class = void>
struct VisitsResidualLast {
  static constexpr bool value = false;
};

template <class Iterator>
struct VisitsResidualLast<Iterator, decltype(void(Iterator::kResidualLast))> {
  static constexpr bool value = Iterator::kResidualLast;
};

}  // namespace detail

/// Splits the product that a stock Mma computes in one call, so that its first loads can be
/// requested while something else is computed.
///
///     StagedMma<Mma> mma(shared_storage, thread, warp, lane);
///     typename StagedMma<Mma>::Tiles tiles{iterator_a, iterator_b, k_iterations};
///     mma.prologue(tiles);               // the first tiles are on their way
///     ...                                // anything that leaves shared_storage alone
///     mma.mainloop(tiles, accumulators);
///     mma.recycle();                     // only where the same object goes on with new Tiles
///
/// Contract
///   - `accumulators` end equal to the bit to those of Mma::operator() called with the same
///     iterators and `accumulators` as source.
///   - After prologue() exactly min(k, kStages - 1) tiles of each operand have been requested from
///     global memory (by a two-stage Mma: 1); mainloop() requests the rest, each once.
///   - k <= 0: no access to global or shared memory, accumulators unchanged. (Stock MmaMultistage
///     loads without predicates then.)
///   - All threads of the block take part in every call; mainloop() has barriers, the first of them
///     before anything is read from shared memory, prologue() and recycle() have none.
///   - Between prologue() and the end of mainloop() the shared storage belongs to the Mma.
///   - A two-stage Mma's threads may still read its shared storage when mainloop() returns: where
///     kNeedsBarrierAfter, put a barrier before anything else is written there. A multistage Mma
///     ends with a barrier, and has waited for all asynchronous copies, foreign ones included.
///   - mainloop() leaves the iterators kOvershoot tiles past the last one used.
///
/// \tparam Mma_  cutlass::gemm::threadblock::MmaMultistage or MmaPipelined, also with parts
///               exchanged (rebind_mma.h, resident_operand.h)
///
/// Source: the public parts of the two stock classes, cutlass/gemm/threadblock/mma_multistage.h and
/// mma_pipelined.h.
template <class Mma_>
class StagedMma {
 public:
  using Mma = Mma_;
  using Parts = MmaParts<Mma>;
  using SharedStorage = typename Mma::Base::SharedStorage;
  using FragmentC = typename Mma::FragmentC;
  using IteratorA = typename Mma::IteratorA;
  using IteratorB = typename Mma::IteratorB;

  static constexpr int kStages = Mma::Base::kStages;
  static constexpr int kOvershoot = kStages - 1;
  static constexpr bool kNeedsBarrierAfter = !Parts::kMultistage;

  static_assert(Parts::kZeroFill || !(detail::VisitsResidualLast<IteratorA>::value ||
                                      detail::VisitsResidualLast<IteratorB>::value),
                "an iterator whose partial tile comes last needs zeros where that tile ends: take "
                "WithZeroFill<Mma>");

  /// Where a product's operands come from; belongs to one pass of prologue() and mainloop().
  struct Tiles {
    IteratorA a;
    IteratorB b;
    int k;  ///< tiles along k
  };

  CUTLASS_DEVICE StagedMma(SharedStorage &shared_storage, int thread, int warp, int lane)
      : mma_(shared_storage, thread, warp, lane) {}

  /// Requests the first tiles.
  CUTLASS_DEVICE void prologue(Tiles &tiles) {
    assert(phase_ == Phase::kIdle && "prologue() twice, or recycle() is missing");
    phase_ = Phase::kPrimed;
    empty_ = tiles.k <= 0;
    if (!empty_) {
      mma_.prologue(tiles.a, tiles.b, tiles.k);
    }
  }

  /// Adds the product to `accumulators`; `tiles` are those that prologue() was given.
  CUTLASS_DEVICE void mainloop(Tiles &tiles, FragmentC &accumulators) {
    assert(phase_ == Phase::kPrimed && "mainloop() without prologue()");
    phase_ = Phase::kDone;
    if (empty_) {
      __syncthreads();
      return;
    }
    mma_.gmem_wait();
    mma_.gemm_iters(tiles.k, accumulators, tiles.a, tiles.b);
  }

  /// Both steps at once.
  CUTLASS_DEVICE void operator()(Tiles &tiles, FragmentC &accumulators) {
    prologue(tiles);
    mainloop(tiles, accumulators);
  }

  /// Makes the object ready for another prologue(), which goes on at another stage of the shared
  /// storage. (An operand that lies resident from stage 0 on needs a new object instead.)
  CUTLASS_DEVICE void recycle() {
    assert(phase_ == Phase::kDone && "recycle() before mainloop()");
    phase_ = Phase::kIdle;
    if (!empty_) {
      mma_.wind_down();
    }
  }

 private:
  enum class Phase { kIdle, kPrimed, kDone };

  Mma mma_;
  bool empty_ = true;
  /// Read by assertions only: it costs nothing where NDEBUG is defined.
  Phase phase_ = Phase::kIdle;
};

}  // namespace threadblock
}  // namespace gemm
}  // namespace cutlass_ext
