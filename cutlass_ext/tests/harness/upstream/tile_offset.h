/// @file
/// A step of a stock iterator across its advance dimension, in its two states.
#pragma once

#include "arguments.h"
#include "cutlass/layout/pitch_linear.h"
#include "cutlass/transform/pitch_linear_thread_map.h"
#include "cutlass/transform/threadblock/predicated_tile_access_iterator.h"
#include "cutlass_ext/device/launch.h"

namespace harness {

/// Tiles of 32 elements by 8 lines; one warp, a vector of 8 elements a thread and access.
template <class Element, int kAdvanceRank>
class TileOffsetProbe {
 public:
  using Shape = cutlass::layout::PitchLinearShape<32, 8>;
  using Layout = cutlass::layout::PitchLinear;
  using Iterator = cutlass::transform::threadblock::PredicatedTileAccessIterator<
      Shape, Element, Layout, kAdvanceRank,
      cutlass::transform::PitchLinearStripminedThreadMap<Shape, 32, 8>,
      cutlass::AlignedArray<Element, 8>>;
  using Coord = typename Iterator::TensorCoord;
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;

  struct Params {
    Element *data;
    int ld;
    int before;        ///< tiles to go along the advance dimension first
    int64_t *offsets;  ///< [2, kThreads]: element offsets after the step, and of a new iterator
  };
  struct SharedStorage {
    int unused;
  };

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    int const thread = threadIdx.x;
    typename Iterator::Params const stock{Layout(params.ld)};
    Coord const extent(64, 64);  // whole tiles
    Coord along(0, 0), across(0, 0);
    along[kAdvanceRank] = params.before;
    across[1 - kAdvanceRank] = 1;
    Iterator iterator(stock, params.data, extent, thread);
    if (params.before > 0) {
      iterator.add_tile_offset(along);
      iterator.add_tile_offset(across);
    } else {
      // The first step leaves the residue, which is a whole tile here; it has to go along, too.
      across[kAdvanceRank] = 1;
      along[kAdvanceRank] = 1;
      iterator.add_tile_offset(across);
      across[kAdvanceRank] = 0;
    }
    Coord const target((along.contiguous() + across.contiguous()) * Shape::kContiguous,
                       (along.strided() + across.strided()) * Shape::kStrided);
    Iterator fresh(stock, params.data, extent, thread, target);
    params.offsets[thread] = offset(params, iterator);
    params.offsets[kThreads + thread] = offset(params, fresh);
  }

 private:
  /// In bytes, so that a step that splits an element shows.
  CUTLASS_DEVICE static int64_t offset(Params const &params, Iterator &iterator) {
    return reinterpret_cast<char const *>(iterator.get()) -
           reinterpret_cast<char const *>(params.data);
  }
};

/// data, ld, before, offsets
template <class Element, int kAdvanceRank>
void tile_offset(Arguments arguments) {
  using Probe = TileOffsetProbe<Element, kAdvanceRank>;
  typename Probe::Params params;
  params.data = arguments.pointer<Element>();
  params.ld = arguments.integer();
  params.before = arguments.integer();
  params.offsets = arguments.pointer<int64_t>();
  cutlass_ext::launch<Probe>(params, dim3(1), arguments.stream());
}

}  // namespace harness
