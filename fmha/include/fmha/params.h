/// @file
/// Arguments of the attention kernels: trivially copyable, built on the host, free of CUDA headers.
#pragma once

#if defined(__CUDACC_RTC__)
#include <cuda/std/cstdint>
#else
#include <stdint.h>
#endif

namespace fmha {

/// Element strides of a `[B, M, H, K]` tensor whose last dimension is contiguous.
struct Strides {
  int64_t batch;
  int64_t row;
  int64_t head;
};

/// One attention forward call: output = softmax(scale * query key^T) value.
///
/// query `[B, M, H, K]`, key `[B, N, Hkv, K]`, value `[B, N, Hkv, Kv]`, output `[B, M, H, Kv]`;
/// log-sum-exp `[B, H, M]` in float32, contiguous, natural logarithm, or null where it is not
/// wanted. Strides count elements. `heads` is a multiple of `kv_heads`: head h reads key/value head
/// h / (heads / kv_heads).
struct ForwardParams {
  void const *query;
  void const *key;
  void const *value;
  void *output;
  float *log_sum_exp;

  Strides query_stride;
  Strides key_stride;
  Strides value_stride;
  Strides output_stride;

  int32_t batch;
  int32_t heads;
  int32_t kv_heads;
  int32_t queries;
  int32_t keys;
  int32_t head_dim;
  int32_t value_dim;

  float scale;
  /// Row i sees keys 0 ... i (aligned at the top left).
  bool causal;
};

}  // namespace fmha
