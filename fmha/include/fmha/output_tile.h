/// @file
/// The output of one warp, from its accumulators to global memory.
#pragma once

#include "cutlass/arch/memory.h"
#include "cutlass/array.h"
#include "cutlass/cutlass.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"
#include "fmha/params.h"

namespace fmha {

using Access = cutlass_ext::transform::threadblock::TileAccess;

/// Rows of one head's output and log-sum-exp that one warp writes.
///
/// \tparam Map      AccumulatorMap of the value product
/// \tparam Element  of the output
/// \tparam kAccess  how rows may be written
template <class Map, class Element, Access kAccess>
class OutputTile {
 public:
  template <class Tile>
  CUTLASS_DEVICE OutputTile(ForwardParams const &params, Tile const &tile, int first_row, int lane)
      : params_(params),
        row_(first_row + Map::origin(lane).row()),
        column_(Map::origin(lane).column()) {
    int64_t const head_of_batch = int64_t(tile.batch) * params.heads + tile.head;
    rows_ = static_cast<Element *>(params.output) + tile.batch * params.output_stride.batch +
            tile.head * params.output_stride.head + row_ * params.output_stride.row + column_;
    log_sum_exp_ = params.log_sum_exp == nullptr || column_ != 0
                       ? nullptr
                       : params.log_sum_exp + head_of_batch * params.queries + row_;
  }

  CUTLASS_DEVICE bool has_row(int r) const { return row_ + Map::row(r) < params_.queries; }

  /// Writes `factor` times the thread's row `r` of `accumulators`, whose column 0 is column
  /// `first_column` of the output. The row exists; columns past Kv are left out.
  CUTLASS_DEVICE void store_row(typename Map::Fragment const &accumulators, int r, float factor,
                                int first_column) const {
    constexpr int kRun = Map::kColumnRun;
    Element *const row_pointer = rows_ + Map::row(r) * params_.output_stride.row + first_column;
    int const columns = params_.value_dim - first_column - column_;
    cutlass::NumericArrayConverter<Element, float, kRun> convert;
    CUTLASS_PRAGMA_UNROLL
    for (int c = 0; c < Map::kColumnsPerThread; c += kRun) {
      cutlass::Array<float, kRun> values;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kRun; ++i) {
        values[i] = accumulators[Map::index(r, c + i)] * factor;
      }
      store_run(row_pointer + Map::column(c), columns - Map::column(c), convert(values));
    }
  }

  /// Writes the log-sum-exp of the thread's row `r`, which exists, where it is wanted.
  CUTLASS_DEVICE void store_log_sum_exp(int r, float value) const {
    if (log_sum_exp_ != nullptr) {
      log_sum_exp_[Map::row(r)] = value;
    }
  }

 private:
  /// Writes neighbours, of which the first `columns` exist.
  template <int kRun>
  CUTLASS_DEVICE static void store_run(Element *destination, int columns,
                                       cutlass::Array<Element, kRun> const &run) {
    if constexpr (kAccess == Access::kElement) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kRun; ++i) {
        if (i < columns) {
          destination[i] = run[i];
        }
      }
    } else {
      using Run = cutlass::Array<Element, kRun>;
      static_assert(sizeof(Run) <= 16, "aligned rows are multiples of 16 bytes");
      cutlass::arch::global_store<Run, sizeof(Run)>(run, destination, columns > 0);
    }
  }

  ForwardParams const &params_;
  int row_;
  int column_;
  Element *rows_;
  float *log_sum_exp_;
};

}  // namespace fmha
