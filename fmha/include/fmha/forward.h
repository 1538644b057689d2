/// @file
/// Attention forward: the instances and how one is launched.
#pragma once

#include <limits.h>

#include <stdexcept>

#include "cutlass_ext/device/export.h"
#include "cutlass_ext/device/launch.h"
#include "fmha/forward_shared_weights.h"
#include "fmha/forward_sm80.h"
#include "fmha/params.h"

namespace fmha {

/// 16-bit operands on mma.sync. Element: cutlass::half_t or cutlass::bfloat16_t; kHeadDim: 32, 64,
/// 96 or 128, at least the problem's K and Kv.
template <class Element, int kHeadDim, Access kAccess>
using ForwardSm80 = ForwardSm80Kernel<ForwardSm80Config<Element, kHeadDim, kAccess>>;

/// float operands, exact arithmetic on CUDA cores. Rows are read and written element by element.
template <int kHeadDim>
using ForwardSimt =
    ForwardSharedWeightsKernel<ForwardSharedWeightsConfig<SimtFloat, kHeadDim, Access::kElement>>;

/// float operands, each product from three TF32 products on tensor cores (Sm80).
template <int kHeadDim, Access kAccess>
using ForwardTf32x3 =
    ForwardSharedWeightsKernel<ForwardSharedWeightsConfig<Tf32x3, kHeadDim, kAccess>>;

/// Launches `Kernel` on `stream`, a cudaStream_t. Returns null, or why the launch failed.
template <class Kernel>
char const *forward(ForwardParams const &params, void *stream) {
  return cutlass_ext::guarded([&] {
    int64_t const blocks = Kernel::Tile::grid_size(params);
    if (blocks > INT_MAX) {
      throw std::invalid_argument("attention of more than 2^31 - 1 query tiles in one launch");
    }
    cutlass_ext::launch<Kernel>(typename Kernel::Params(params), dim3(unsigned(blocks)),
                                static_cast<cudaStream_t>(stream));
  });
}

}  // namespace fmha
