/// @file
/// Attention's arguments from Python: addresses, sizes, strides; no tensor type is known here.
#pragma once

#include <stdint.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <string>

#include "fmha/params.h"

namespace cutlass_ext {

/// batch, heads, kv_heads, queries, keys, head_dim, value_dim
using AttentionSizes = std::array<int64_t, 7>;
/// batch, row, head, in elements
using AttentionStrides = std::array<int64_t, 3>;

/// Throws std::invalid_argument where a size doesn't fit the kernels' 32-bit sizes.
inline int32_t attention_size(int64_t size, char const *name) {
  if (size < 0 || size > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(size) +
                                ": sizes from 0 to 2147483647 are supported");
  }
  return int32_t(size);
}

inline fmha::Strides attention_strides(AttentionStrides const &strides) {
  return {strides[0], strides[1], strides[2]};
}

/// Sets the sizes of `params`; throws as attention_size does.
inline void set_sizes(fmha::ForwardParams &params, AttentionSizes const &sizes) {
  params.batch = attention_size(sizes[0], "batch");
  params.heads = attention_size(sizes[1], "heads");
  params.kv_heads = attention_size(sizes[2], "kv_heads");
  params.queries = attention_size(sizes[3], "queries");
  params.keys = attention_size(sizes[4], "keys");
  params.head_dim = attention_size(sizes[5], "head_dim");
  params.value_dim = attention_size(sizes[6], "value_dim");
}

}  // namespace cutlass_ext
