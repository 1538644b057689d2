/// @file
/// An output tile iterator that can ask for its tiles before it loads them.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/predicated_tile_iterator.h"
#include "cutlass_ext/epilogue/threadblock/output_coordinates.h"
#include "cutlass_ext/epilogue/threadblock/strided_output_iterator.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

/// Where a prefetch brings a line.
enum class PrefetchLevel {
  kL1,
  kL2,
  kL2EvictLast,  ///< the L2 cache, to be kept there longest (as kL2 before Sm80)
};

/// Asks for the line of global memory at `address`; without effect on values, and it may be
/// dropped.
template <PrefetchLevel kLevel>
CUTLASS_DEVICE void prefetch_global(void const *address) {
  if constexpr (kLevel == PrefetchLevel::kL1) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
  } else if constexpr (kLevel == PrefetchLevel::kL2) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(address));
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
  }
}

namespace detail {

/// Calls f(n, address, guard) for each access n that a base's load would make in this step.
template <class Base>
class LoadAddresses {
  static_assert(sizeof(Base) == 0,
                "PrefetchIterator takes cutlass::epilogue::threadblock::PredicatedTileIterator, "
                "without permutation, or StridedOutputIterator");
};

template <class ThreadMap, class Element, class RowMap>
class LoadAddresses<StridedOutputIterator<ThreadMap, Element, RowMap>> {
 public:
  using Base = StridedOutputIterator<ThreadMap, Element, RowMap>;

  CUTLASS_DEVICE LoadAddresses(typename Base::Params const &, Element *, int const *) {}

  CUTLASS_HOST_DEVICE void add_pointer_offset(int64_t) {}

  template <class F>
  CUTLASS_DEVICE void for_each(Base const &base, F const &f) const {
    base.for_each_address(0, f);
  }
};

// The stock iterator keeps its pointer to itself, but says where in the matrix it stands.
template <class ThreadMap, class Element, bool kScatterD, bool kUseCudaStore>
class LoadAddresses<cutlass::epilogue::threadblock::PredicatedTileIterator<
    ThreadMap, Element, kScatterD, cutlass::layout::NoPermute, kUseCudaStore>> {
 public:
  using Base = cutlass::epilogue::threadblock::PredicatedTileIterator<
      ThreadMap, Element, kScatterD, cutlass::layout::NoPermute, kUseCudaStore>;

  static_assert(!kScatterD ||
                    (ThreadMap::Iterations::kGroup == 1 && ThreadMap::Iterations::kCluster == 1),
                "the stock iterator loads wrong rows through indices where its thread map has "
                "several groups or clusters: take StridedOutputIterator with GatheredRows");

  CUTLASS_DEVICE LoadAddresses(typename Base::Params const &params, Element *pointer,
                               int const *indices)
      : pointer_(reinterpret_cast<char const *>(pointer)),
        stride_(params.stride),
        indices_(indices) {}

  CUTLASS_HOST_DEVICE void add_pointer_offset(int64_t elements) {
    pointer_ += elements * int64_t(sizeof(Element));
  }

  template <class F>
  CUTLASS_DEVICE void for_each(Base const &base, F const &f) const {
    typename Base::Mask mask;
    base.get_mask(mask);
    using Coordinates = OutputCoordinates<ThreadMap>;
    CUTLASS_PRAGMA_UNROLL
    for (int r = 0; r < Coordinates::kRows; ++r) {
      int const row = base.thread_start_row() + Coordinates::row_offset(r);
      bool const exists = row < base.extent_row();
      int64_t const place = !kScatterD ? row : exists && indices_ != nullptr ? indices_[row] : 0;
      char const *first =
          pointer_ + place * stride_ + base.thread_start_column() * int64_t(sizeof(Element));
      CUTLASS_PRAGMA_UNROLL
      for (int c = 0; c < Coordinates::kColumns; ++c) {
        f(r * Coordinates::kColumns + c, first + Coordinates::column_offset(c) * sizeof(Element),
          exists && mask.predicates[c]);
      }
    }
  }

 private:
  char const *pointer_;
  int64_t stride_;  ///< bytes
  int const *indices_;
};

}  // namespace detail

/// An output tile iterator with `prefetch()`: asks for what the next load will read.
///
/// Stock output iterators can't; kernels that read their own output again (gradients accumulated
/// over a loop, sources of large matrices) have copied the iterator for it. This derives from the
/// iterator, and stands wherever that stands.
///
/// Contract
///   - A prefetch touches the first address of each access that a load at the same position would
///     make, none else: rows and columns outside, a null pointer and a cleared mask ask for
///     nothing.
///   - It has no effect on values, nor on the position.
///
/// \tparam Base    cutlass::epilogue::threadblock::PredicatedTileIterator (also with ScatterD), or
///                 StridedOutputIterator
/// \tparam kLevel  L2 by default: what the next step reads has a line to itself there, whereas the
///                 L1 cache is mostly shared memory in a GEMM
template <class Base, PrefetchLevel kLevel = PrefetchLevel::kL2>
class PrefetchIterator : public Base {
 public:
  using typename Base::Element;
  using typename Base::LongIndex;
  using typename Base::Params;
  using typename Base::TensorCoord;

  CUTLASS_DEVICE PrefetchIterator(Params const &params, Element *pointer, TensorCoord extent,
                                  int thread, TensorCoord offset = TensorCoord(),
                                  int const *indices = nullptr)
      : Base(params, pointer, extent, thread, offset, indices),
        addresses_(params, pointer, indices) {}

  /// Asks for the tile of this step.
  CUTLASS_DEVICE void prefetch() const {
    addresses_.for_each(static_cast<Base const &>(*this), [](int, void const *address, bool guard) {
      if (guard) {
        prefetch_global<kLevel>(address);
      }
    });
  }

  /// Asks for this step's tile and all further ones of the threadblock's.
  CUTLASS_DEVICE void prefetch_all() const {
    PrefetchIterator ahead(*this);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Base::kIterations; ++i) {
      ahead.prefetch();
      ++ahead;
    }
  }

  CUTLASS_HOST_DEVICE void add_pointer_offset(LongIndex elements) {
    Base::add_pointer_offset(elements);
    addresses_.add_pointer_offset(elements);
  }

  CUTLASS_HOST_DEVICE PrefetchIterator &operator++() {
    Base::operator++();
    return *this;
  }
  CUTLASS_HOST_DEVICE PrefetchIterator &operator+=(int steps) {
    Base::operator+=(steps);
    return *this;
  }

 private:
  detail::LoadAddresses<Base> addresses_;
};

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
