/// @file
/// Tile schedulers by what their blocks are given.
#pragma once

#include "arguments.h"
#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/kernel/tile_scheduler.h"

namespace harness {

using cutlass_ext::gemm::kernel::DenseTileScheduler;
using cutlass_ext::gemm::kernel::GroupedTileScheduler;
using cutlass_ext::gemm::kernel::SegmentTileScheduler;
using cutlass_ext::gemm::kernel::TileOrder;
using cutlass_ext::gemm::kernel::TileWork;

/// Each tile that a block is given is written behind the others that anybody was given: group,
/// member, tile, rows, first row, block, and how many the block had before.
template <class Scheduler>
class TileSchedulerProbe {
 public:
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr int kFields = 7;

  struct Params {
    typename Scheduler::Params scheduler;
    int *count;
    int64_t *works;
    int capacity;
  };
  struct SharedStorage {};

  CUTLASS_DEVICE void operator()(Params const &params, SharedStorage &) const {
    Scheduler scheduler(params.scheduler, blockIdx.x, gridDim.x);
    TileWork work;
    for (int nth = 0; scheduler.next(work); ++nth) {
      if (threadIdx.x == 0) {
        int const i = atomicAdd(params.count, 1);
        if (i < params.capacity) {
          int64_t const fields[kFields] = {work.group,     work.member,     work.tile, work.rows,
                                           work.first_row, int(blockIdx.x), nth};
          for (int f = 0; f < kFields; ++f) {
            params.works[i * kFields + f] = fields[f];
          }
        }
      }
    }
  }
};

template <class Scheduler>
void schedule(Arguments &arguments, typename Scheduler::Params const &scheduler) {
  using Probe = TileSchedulerProbe<Scheduler>;
  typename Probe::Params params;
  params.scheduler = scheduler;
  params.count = arguments.pointer<int>();
  params.works = arguments.pointer<int64_t>();
  params.capacity = arguments.integer();
  int const blocks = arguments.integer();
  cutlass_ext::launch<Probe>(params, dim3(blocks > 0 ? blocks : scheduler.grid_size()),
                             arguments.stream());
}

/// groups, members, rows; count, works, capacity, blocks (0: the grid's own size)
template <int kTileRows, TileOrder kOrder>
void dense(Arguments arguments) {
  using Scheduler = DenseTileScheduler<kTileRows, kOrder>;
  int const groups = arguments.integer();
  int const members = arguments.integer();
  int const rows = arguments.integer();
  schedule<Scheduler>(arguments, typename Scheduler::Params(groups, members, rows));
}

/// boundaries, segments, members, rows; as above
template <int kTileRows, TileOrder kOrder>
void segments(Arguments arguments) {
  using Scheduler = SegmentTileScheduler<kTileRows, kOrder>;
  int const *boundaries = arguments.pointer<int const>();
  int const count = arguments.integer();
  int const members = arguments.integer();
  int const rows = arguments.integer();
  schedule<Scheduler>(arguments, typename Scheduler::Params(boundaries, count, members, rows));
}

/// first tiles (or null), groups, tiles a group, tiles; as above
inline void grouped(Arguments arguments) {
  GroupedTileScheduler::Params params;
  params.first_tiles = arguments.pointer<int const>();
  params.groups = arguments.integer();
  params.tiles_per_group = arguments.integer();
  params.tiles = arguments.integer();
  schedule<GroupedTileScheduler>(arguments, params);
}

}  // namespace harness
