/// @file
/// The steps of a persistent chained product that one block takes.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_problem.h"
#include "cutlass_ext/gemm/kernel/tile_scheduler.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// One chunk of the intermediate's columns for one tile of the output.
struct ChainedGemmStep {
  int problem;
  int row;     ///< the output tile's first row
  int column;  ///< and first column
  int chunk;   ///< the intermediate's first column
  bool last;   ///< whether it completes the tile

  /// Whether it reads the same columns of b0 as `other`.
  CUTLASS_DEVICE bool shares_b0(ChainedGemmStep const &other) const {
    return problem == other.problem && chunk == other.chunk;
  }

  /// Whether it reads the same part of b1 as `other`.
  CUTLASS_DEVICE bool shares_b1(ChainedGemmStep const &other) const {
    return shares_b0(other) && column == other.column;
  }
};

/// Walks over a block's steps: a contiguous range of tiles, each of them chunk by chunk. Tiles go
/// along the rows last, so that blocks next to each other in time share weights, and tiles of the
/// same rows are neighbours.
///
/// \tparam kRows, kN1  of an output tile
/// \tparam kN0         of a chunk
/// \tparam kAnyN0      whether there may be more than one: what is known otherwise takes no
/// registers
template <int kRows, int kN0, int kN1, bool kAnyN0>
class ChainedGemmSchedule {
 public:
  using Step = ChainedGemmStep;

  /// Tiles of a problem's output.
  CUTLASS_HOST_DEVICE static int64_t tiles(ChainedGemmProblem const &problem) {
    return int64_t(tiles_along(problem.m, kRows)) * tiles_along(problem.n1, kN1);
  }

  /// \param blocks  in the grid: the range of tiles is divided among them
  CUTLASS_DEVICE ChainedGemmSchedule(ChainedGemmParams const &params, int block, int blocks)
      : params_(params), tiles_(params.tiles, block, blocks) {
    begin_tile();
  }

  CUTLASS_DEVICE bool has_step() const { return tiles_.has_tile(); }

  CUTLASS_DEVICE Step const &step() const { return step_; }

  /// To the next step.
  CUTLASS_DEVICE void advance() {
    if (kAnyN0 && !step_.last) {
      step_.chunk += kN0;
      step_.last = n0_ - step_.chunk <= kN0;
    } else {
      tiles_.advance();
      begin_tile();
    }
  }

 private:
  CUTLASS_DEVICE void begin_tile() {
    if (!has_step()) {
      return;
    }
    bool const listed = params_.problems != nullptr;
    int const n1 = listed ? params_.problems[tiles_.group()].n1 : params_.problem.n1;
    n0_ = listed ? params_.problems[tiles_.group()].n0 : params_.problem.n0;
    int const column_tiles = tiles_along(n1, kN1);
    step_.problem = tiles_.group();
    step_.row = tiles_.tile() / column_tiles * kRows;
    step_.column = tiles_.tile() % column_tiles * kN1;
    step_.chunk = 0;
    step_.last = !kAnyN0 || n0_ <= kN0;
  }

  ChainedGemmParams const &params_;
  GroupedTileScheduler tiles_;
  int n0_ = 0;
  Step step_{};
};

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
