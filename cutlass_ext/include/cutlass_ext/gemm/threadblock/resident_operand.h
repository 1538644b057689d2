/// @file
/// A stock threadblock-level Mma one of whose operands already lies in shared memory.
#pragma once

#include "cutlass/arch/memory_sm80.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass_ext/gemm/threadblock/rebind_mma.h"
#include "cutlass_ext/transform/threadblock/null_tile_iterator.h"

namespace cutlass_ext {
namespace gemm {
namespace threadblock {

namespace detail {

template <class Path>
using NullPath = OperandPath<transform::threadblock::NullTileIterator<typename Path::Iterator>,
                             transform::threadblock::NullSmemIterator<typename Path::SmemIterator>,
                             transform::threadblock::NullTransform>;

/// The parts of an Mma that belong to one operand.
template <class Mma, cutlass::gemm::Operand kOperand>
struct OperandOf;

template <class Mma>
struct OperandOf<Mma, cutlass::gemm::Operand::kA> {
  using Path = typename MmaParts<Mma>::PathA;
  using Element = typename Mma::Operator::ElementA;
  using Layout = typename Mma::Operator::LayoutA;
  using Shape = typename Mma::Base::SharedStorage::ShapeA;
  using WithNullPath = typename MmaParts<Mma>::template WithPathA<NullPath<Path>>;
  static constexpr auto kCache = MmaParts<Mma>::kCacheOpA;

  CUTLASS_DEVICE static typename Mma::Base::TensorRefA ref(
      typename Mma::Base::SharedStorage &shared_storage) {
    return shared_storage.operand_A_ref();
  }
  CUTLASS_DEVICE static cutlass::MatrixCoord next_tile() { return {0, 1}; }
};

template <class Mma>
struct OperandOf<Mma, cutlass::gemm::Operand::kB> {
  using Path = typename MmaParts<Mma>::PathB;
  using Element = typename Mma::Operator::ElementB;
  using Layout = typename Mma::Operator::LayoutB;
  using Shape = typename Mma::Base::SharedStorage::ShapeB;
  using WithNullPath = typename MmaParts<Mma>::template WithPathB<NullPath<Path>>;
  static constexpr auto kCache = MmaParts<Mma>::kCacheOpB;

  CUTLASS_DEVICE static typename Mma::Base::TensorRefB ref(
      typename Mma::Base::SharedStorage &shared_storage) {
    return shared_storage.operand_B_ref();
  }
  CUTLASS_DEVICE static cutlass::MatrixCoord next_tile() { return {1, 0}; }
};

}  // namespace detail

/// The stock Mma that reads operand `kOperand` from its shared storage and never fetches it.
///
/// `ResidentOperand<Mma, kA>::Mma` is the same class template as `Mma` with iterators for A that
/// visit nothing; its SharedStorage is the same type. Whoever owns the shared storage puts the
/// operand there, in the layout that the warp-level operator reads (`Operator::LayoutA`), from
/// stage 0 on: by fill(), or by a SmemOperandWriter for what another product computed.
///
/// Contract
///   - Equal to the bit to `Mma` on the same data; not one global access for that operand.
///   - The operand has at most kTiles tiles along k, that is kExtent elements.
///   - The Mma object is new for each pass: it starts to read at stage 0, and its stage rotates
///   with
///     the other operand's. The resident data stays valid from pass to pass.
///   - Writes to the operand are published by the first barrier of the main loop.
///
/// \tparam Mma_      cutlass::gemm::threadblock::MmaMultistage or MmaPipelined
/// \tparam kOperand  which operand is resident
template <class Mma_, cutlass::gemm::Operand kOperand>
struct ResidentOperand {
  using StockMma = Mma_;
  using Mma = typename detail::OperandOf<StockMma, kOperand>::WithNullPath;
  using SharedStorage = typename StockMma::Base::SharedStorage;

  static_assert(kOperand == cutlass::gemm::Operand::kA || kOperand == cutlass::gemm::Operand::kB,
                "only operand A or B of a product can be resident");
  static_assert(StockMma::Policy::kPartitionsK == 1,
                "a resident operand needs an Mma whose warps do not divide k");

  /// The stock Mma's iterator over the operand in global memory.
  using StockIterator = typename detail::OperandOf<StockMma, kOperand>::Path::Iterator;

  /// Tiles, and elements, along k that fit.
  static constexpr int kTiles = StockMma::Base::kStages;
  static constexpr int kExtent = kTiles * StockMma::Shape::kK;

  /// Operand iterator for the resident operand, to make an Mma's arguments complete.
  using NullIterator = typename detail::OperandOf<Mma, kOperand>::Path::Iterator;

  /// Copies the operand from global memory to stages 0 ... tiles - 1, with zeros for what the
  /// iterator's predicates exclude. Multistage: asynchronously, as part of the group that is
  /// committed next. Call it when no thread reads the operand any more.
  template <class Iterator>
  CUTLASS_DEVICE static void fill(SharedStorage &shared_storage, Iterator iterator, int tiles,
                                  int thread) {
    using Operand = detail::OperandOf<StockMma, kOperand>;
    typename Operand::Path::SmemIterator destination(Operand::ref(shared_storage), thread);
    CUTLASS_PRAGMA_NO_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      copy_tile(iterator, destination);
      destination.add_tile_offset(Operand::next_tile());
    }
  }

 private:
  template <class Iterator, class SmemIterator>
  CUTLASS_DEVICE static void copy_tile(Iterator &iterator, SmemIterator &destination) {
    using Operand = detail::OperandOf<StockMma, kOperand>;
    if constexpr (MmaParts<StockMma>::kMultistage) {
      using AccessType = typename Iterator::AccessType;
      constexpr int kBytes = int(sizeof(AccessType));
      iterator.set_iteration_index(0);
      destination.set_iteration_index(0);
      CUTLASS_PRAGMA_UNROLL
      for (int access = 0; access < Iterator::ThreadMap::Iterations::kCount; ++access) {
        auto *vector = reinterpret_cast<AccessType *>(destination.get());
        CUTLASS_PRAGMA_UNROLL
        for (int v = 0; v < Iterator::kAccessesPerVector; ++v) {
          cutlass::arch::cp_async_zfill<kBytes, Operand::kCache>(vector + v, iterator.get(),
                                                                 iterator.valid());
          ++iterator;
        }
        ++destination;
      }
      iterator.add_tile_offset(Operand::next_tile());
    } else {
      typename Iterator::Fragment fragment;
      fragment.clear();
      iterator.load(fragment);
      ++iterator;
      typename detail::PathTransform<typename Operand::Path>::Type transform;
      destination.store(transform(fragment));
    }
  }
};

}  // namespace threadblock
}  // namespace gemm
}  // namespace cutlass_ext
