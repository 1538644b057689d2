/// @file
/// A stock threadblock-level Mma with one of its parts exchanged.
#pragma once

#include "cutlass/arch/arch.h"
#include "cutlass/arch/mma.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass/gemm/threadblock/mma_multistage.h"
#include "cutlass/gemm/threadblock/mma_pipelined.h"

namespace cutlass_ext {
namespace gemm {
namespace threadblock {

/// One operand's way from global to shared memory in a threadblock-level Mma.
///
/// \tparam Iterator_      iterator over tiles in global memory
/// \tparam SmemIterator_  iterator that writes them to shared memory
/// \tparam Transform_     what two-stage Mmas apply in between; void takes the stock conversion
template <class Iterator_, class SmemIterator_, class Transform_ = void>
struct OperandPath {
  using Iterator = Iterator_;
  using SmemIterator = SmemIterator_;
  using Transform = Transform_;
};

namespace detail {

/// The stock default of MmaPipelined's transformations, or the one that was asked for.
template <class Path, class Transform = typename Path::Transform>
struct PathTransform {
  using Type = Transform;
};

template <class Path>
struct PathTransform<Path, void> {
  using Type = cutlass::NumericArrayConverter<typename Path::SmemIterator::Element,
                                              typename Path::Iterator::Element,
                                              Path::Iterator::Fragment::kElements>;
};

}  // namespace detail

/// The template arguments of a stock Mma, and stock Mmas that differ in one of them.
///
/// CUTLASS's factories (DefaultMma, DefaultMmaCore) fix every part of an Mma together. Taking the
/// finished type apart again reaches combinations that they have no specialisation for, without
/// repeating their argument lists.
///
/// Defined for cutlass::gemm::threadblock::MmaMultistage and MmaPipelined:
///   PathA, PathB       OperandPath of each operand
///   kMultistage        whether copies are asynchronous (MmaMultistage)
///   kCacheOpA, kCacheOpB   cache operation of asynchronous copies
///   kZeroFill          whether elements that a predicate excludes arrive as zeros in every tile
///   WithPathA<P>, WithPathB<P>, WithPolicy<P>, WithZeroFill   the Mma with that part exchanged
template <class Mma>
struct MmaParts {
  static_assert(sizeof(Mma) == 0,
                "this component takes cutlass::gemm::threadblock::MmaMultistage or MmaPipelined; "
                "choose a number of stages for which DefaultMma gives one of them");
};

template <class Shape, class IteratorA, class SmemIteratorA,
          cutlass::arch::CacheOperation::Kind kCacheA, class IteratorB, class SmemIteratorB,
          cutlass::arch::CacheOperation::Kind kCacheB, class ElementC, class LayoutC, class Policy,
          int kStages, cutlass::gemm::SharedMemoryClearOption kClear>
struct MmaParts<cutlass::gemm::threadblock::MmaMultistage<
    Shape, IteratorA, SmemIteratorA, kCacheA, IteratorB, SmemIteratorB, kCacheB, ElementC, LayoutC,
    Policy, kStages, kClear>> {
  using PathA = OperandPath<IteratorA, SmemIteratorA>;
  using PathB = OperandPath<IteratorB, SmemIteratorB>;
  static constexpr bool kMultistage = true;
  static constexpr auto kCacheOpA = kCacheA;
  static constexpr auto kCacheOpB = kCacheB;
  static constexpr bool kZeroFill = kClear == cutlass::gemm::SharedMemoryClearOption::kZfill;

  template <class A, class B, class NewPolicy, cutlass::gemm::SharedMemoryClearOption kNewClear>
  using With = cutlass::gemm::threadblock::MmaMultistage<
      Shape, typename A::Iterator, typename A::SmemIterator, kCacheA, typename B::Iterator,
      typename B::SmemIterator, kCacheB, ElementC, LayoutC, NewPolicy, kStages, kNewClear>;
  template <class A>
  using WithPathA = With<A, PathB, Policy, kClear>;
  template <class B>
  using WithPathB = With<PathA, B, Policy, kClear>;
  template <class NewPolicy>
  using WithPolicy = With<PathA, PathB, NewPolicy, kClear>;
  using WithZeroFill = With<PathA, PathB, Policy, cutlass::gemm::SharedMemoryClearOption::kZfill>;
};

template <class Shape, class IteratorA, class SmemIteratorA, class IteratorB, class SmemIteratorB,
          class ElementC, class LayoutC, class Policy, class TransformA, class TransformB>
struct MmaParts<cutlass::gemm::threadblock::MmaPipelined<Shape, IteratorA, SmemIteratorA, IteratorB,
                                                         SmemIteratorB, ElementC, LayoutC, Policy,
                                                         TransformA, TransformB>> {
  using PathA = OperandPath<IteratorA, SmemIteratorA, TransformA>;
  using PathB = OperandPath<IteratorB, SmemIteratorB, TransformB>;
  static constexpr bool kMultistage = false;
  static constexpr auto kCacheOpA = cutlass::arch::CacheOperation::Always;
  static constexpr auto kCacheOpB = cutlass::arch::CacheOperation::Always;
  /// MmaPipelined clears its fragments before each load.
  static constexpr bool kZeroFill = true;

  template <class A, class B, class NewPolicy>
  using With = cutlass::gemm::threadblock::MmaPipelined<
      Shape, typename A::Iterator, typename A::SmemIterator, typename B::Iterator,
      typename B::SmemIterator, ElementC, LayoutC, NewPolicy,
      typename detail::PathTransform<A>::Type, typename detail::PathTransform<B>::Type>;
  template <class A>
  using WithPathA = With<A, PathB, Policy>;
  template <class B>
  using WithPathB = With<PathA, B, Policy>;
  template <class NewPolicy>
  using WithPolicy = With<PathA, PathB, NewPolicy>;
  using WithZeroFill = With<PathA, PathB, Policy>;
};

/// `Mma` with another iterator over operand A (B) in global memory; its fragments keep their
/// number of elements.
template <class Mma, class Iterator>
using WithIteratorA = typename MmaParts<Mma>::template WithPathA<
    OperandPath<Iterator, typename MmaParts<Mma>::PathA::SmemIterator,
                typename MmaParts<Mma>::PathA::Transform>>;
template <class Mma, class Iterator>
using WithIteratorB = typename MmaParts<Mma>::template WithPathB<
    OperandPath<Iterator, typename MmaParts<Mma>::PathB::SmemIterator,
                typename MmaParts<Mma>::PathB::Transform>>;

/// `Mma` that writes zeros for whatever a predicate excludes, in every tile. Stock multistage Mmas
/// do so in their prologue only: right when the partial tile comes first, not when it comes last.
template <class Mma>
using WithZeroFill = typename MmaParts<Mma>::WithZeroFill;

/// `Mma` whose operands in shared memory have other paddings (concept: cutlass::MatrixShape). The
/// layouts have to be plain ones: the padding becomes part of the leading dimension.
template <class Mma, class PaddingA, class PaddingB>
using WithPadding =
    typename MmaParts<Mma>::template WithPolicy<cutlass::gemm::threadblock::MmaPolicy<
        typename Mma::Policy::Operator, PaddingA, PaddingB, Mma::Policy::kPartitionsK>>;

}  // namespace threadblock
}  // namespace gemm
}  // namespace cutlass_ext
