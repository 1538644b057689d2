/// @file
/// ResidualLast after a sequence of moves, beside fresh stock iterators built at the same tile.
#pragma once

#include "arguments.h"
#include "cutlass/layout/matrix.h"
#include "cutlass/layout/pitch_linear.h"
#include "cutlass/transform/pitch_linear_thread_map.h"
#include "cutlass/transform/threadblock/predicated_tile_access_iterator.h"
#include "cutlass/transform/threadblock/predicated_tile_iterator.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/transform/threadblock/residual_last_iterator.h"

namespace harness {

/// Moves, as pairs (kind, amount) of integers.
enum class Move : int { kSeek, kRewind, kAlong, kAcross, kClear, kNext };

/// After each move the current tile is read, by ResidualLast and by a stock iterator built there.
///
/// \tparam Iterator  stock iterator over tiles of `kElements` elements
template <class Iterator, bool kOverVectors>
class ResidualLastProbe {
 public:
  using ResidualLast = cutlass_ext::transform::threadblock::ResidualLast<Iterator>;
  using Element = typename Iterator::Element;
  using Layout = typename Iterator::Layout;
  using Coord = typename Iterator::TensorCoord;
  using ThreadMap = typename Iterator::ThreadMap;
  static constexpr int kThreads = ThreadMap::kThreads;
  static constexpr int kMinBlocks = 1;
  static constexpr int kRank = Iterator::kAdvanceRank;
  static constexpr int kVector = int(sizeof(typename Iterator::AccessType) / sizeof(Element));
  static constexpr int kVectors =
      ThreadMap::Iterations::kCount * ThreadMap::kElementsPerAccess / kVector;
  static constexpr int kElements = kVectors * kVector;

  struct Params {
    Element *data;
    int extent[2];
    int offset[2];
    int ld;
    int const *moves;  ///< [count, 2]
    int count;
    Element *residual;   ///< [count + 1, kThreads, kElements], what ResidualLast read
    Element *stock;      ///< likewise, what the stock iterator read
    int64_t *addresses;  ///< [count + 1, kThreads, kVectors] element offsets, -1: no access
    int64_t *expected;   ///< likewise, of the stock iterator (over vectors only)
    int *position;       ///< [count + 1, 2]: tile(), tiles()
  };
  struct SharedStorage {
    int unused;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    int const thread = threadIdx.x;
    Coord const extent(params.extent[0], params.extent[1]);
    Coord const offset(params.offset[0], params.offset[1]);
    ResidualLast iterator(typename ResidualLast::Params(Layout(params.ld)), params.data, extent,
                          thread, offset);
    int across = 0;
    bool cleared = false;
    record(params, 0, iterator, across, cleared);
    for (int i = 0; i < params.count; ++i) {
      int const amount = params.moves[2 * i + 1];
      Coord move(0, 0);
      switch (Move(params.moves[2 * i])) {
        case Move::kSeek:
          iterator.seek(amount);
          cleared = false;
          break;
        case Move::kRewind:
          iterator.rewind(amount);
          cleared = false;
          break;
        case Move::kAlong:
          move[kRank] = amount;
          iterator.add_tile_offset(move);
          break;
        case Move::kAcross:
          move[kRank] = amount % 3;
          move[1 - kRank] = amount;
          across += amount;
          iterator.add_tile_offset(move);
          break;
        case Move::kClear:
          iterator.clear_mask(amount != 0);
          cleared = cleared || amount != 0;
          break;
        case Move::kNext:
          next(iterator);
          break;
      }
      record(params, i + 1, iterator, across, cleared);
    }
  }

 private:
  CUTLASS_DEVICE static void next(ResidualLast &iterator) {
    if constexpr (kOverVectors) {
      Coord move(0, 0);
      move[kRank] = 1;
      iterator.add_tile_offset(move);
    } else {
      ++iterator;
    }
  }

  CUTLASS_DEVICE static void record(Params const &params, int step, ResidualLast &iterator,
                                    int across, bool cleared) {
    int const thread = threadIdx.x;
    if (thread == 0) {
      params.position[2 * step] = iterator.tile();
      params.position[2 * step + 1] = iterator.tiles();
    }
    int const slot = step * kThreads + thread;
    // A fresh stock iterator at the same tile, for an extent that ends with the tile: elsewhere it
    // would take the tile for a partial first one.
    using Extent =
        cutlass_ext::transform::threadblock::detail::TileExtent<typename Iterator::Shape, Layout>;
    int const tile = iterator.tile();
    Coord offset(params.offset[0], params.offset[1]);
    offset[kRank] += tile * Extent::of(kRank);
    offset[1 - kRank] += across * Extent::of(1 - kRank);
    Coord extent(params.extent[0], params.extent[1]);
    int const end = offset[kRank] + Extent::of(kRank);
    extent[kRank] = extent[kRank] < end ? extent[kRank] : end;
    Iterator stock(typename Iterator::Params(Layout(params.ld)), params.data, extent, thread,
                   offset);
    stock.clear_mask(cleared || tile < 0 || tile >= iterator.tiles());
    read(params, iterator, params.residual + slot * kElements, params.addresses + slot * kVectors);
    read(params, stock, params.stock + slot * kElements, params.expected + slot * kVectors);
  }

  template <class AnyIterator>
  CUTLASS_DEVICE static void read(Params const &params, AnyIterator &iterator, Element *values,
                                  int64_t *addresses) {
    if constexpr (kOverVectors) {
      iterator.set_iteration_index(0);
      for (int i = 0; i < kVectors; ++i) {
        auto const *vector = reinterpret_cast<Element const *>(iterator.get());
        addresses[i] = iterator.valid() ? vector - params.data : -1;
        for (int e = 0; e < kVector; ++e) {
          values[i * kVector + e] = iterator.valid() ? vector[e] : Element(0);
        }
        ++iterator;
      }
    } else {
      typename Iterator::Fragment fragment;
      fragment.clear();
      iterator.load(fragment);
      for (int i = 0; i < kElements; ++i) {
        values[i] = fragment[i];
      }
    }
  }
};

/// data, extent 0, extent 1, offset 0, offset 1, ld, moves, count, residual, stock, addresses,
/// expected, position
template <class Iterator, bool kOverVectors>
void residual_last(Arguments arguments) {
  using Probe = ResidualLastProbe<Iterator, kOverVectors>;
  typename Probe::Params params;
  params.data = arguments.pointer<typename Probe::Element>();
  params.extent[0] = arguments.integer();
  params.extent[1] = arguments.integer();
  params.offset[0] = arguments.integer();
  params.offset[1] = arguments.integer();
  params.ld = arguments.integer();
  params.moves = arguments.pointer<int const>();
  params.count = arguments.integer();
  params.residual = arguments.pointer<typename Probe::Element>();
  params.stock = arguments.pointer<typename Probe::Element>();
  params.addresses = arguments.pointer<int64_t>();
  params.expected = arguments.pointer<int64_t>();
  params.position = arguments.pointer<int>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

template <int kContiguous, int kStrided, int kVector>
using StripminedMap = cutlass::transform::PitchLinearStripminedThreadMap<
    cutlass::layout::PitchLinearShape<kContiguous, kStrided>, 32, kVector>;

/// Over vectors of kAccess elements, 32 threads.
template <class Shape, class Element, class Layout, int kRank, class ThreadMap, int kAccess>
using AccessIterator = cutlass::transform::threadblock::PredicatedTileAccessIterator<
    Shape, Element, Layout, kRank, ThreadMap, cutlass::AlignedArray<Element, kAccess>>;
/// Over fragments.
template <class Shape, class Element, class Layout, int kRank, class ThreadMap, int kAccess>
using FragmentIterator =
    cutlass::transform::threadblock::PredicatedTileIterator<Shape, Element, Layout, kRank,
                                                            ThreadMap, kAccess>;

}  // namespace harness
