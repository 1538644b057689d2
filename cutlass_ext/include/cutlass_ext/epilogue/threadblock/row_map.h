/// @file
/// Where the rows of a matrix lie in memory: strided, in two levels, gathered.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass/fast_math.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace epilogue {
namespace threadblock {

// Concept RowMap: trivially copyable, with `int64_t operator()(int row) const`, the elements from
// the matrix's pointer to the beginning of the row. Asked of rows in [0, extent) only.

/// Rows one stride apart, of either sign.
struct StridedRows {
  int64_t stride = 0;  ///< elements

  CUTLASS_HOST_DEVICE int64_t operator()(int row) const { return row * stride; }
};

/// Rows in groups of equally many: row r is row r % n of group r / n. It permutes an output as
/// PyTorch's `permute` does a view: of rows (b, m), or of rows and heads (m, h), in either order.
struct TwoLevelRows {
  cutlass::FastDivmod rows_in_group;  ///< n > 0
  int64_t group_stride = 0;           ///< elements from one group to the next
  int64_t row_stride = 0;             ///< elements from one row of a group to the next

  CUTLASS_HOST_DEVICE int64_t operator()(int row) const {
    int group, row_in_group;
    rows_in_group(group, row_in_group, row);
    return group * group_stride + row_in_group * row_stride;
  }
};

/// Row r is row indices[r] of a strided matrix. An epilogue that stores needs different indices.
struct GatheredRows {
  int const *indices = nullptr;
  int64_t stride = 0;  ///< elements

  CUTLASS_HOST_DEVICE int64_t operator()(int row) const { return indices[row] * stride; }
};

}  // namespace threadblock
}  // namespace epilogue
}  // namespace cutlass_ext
