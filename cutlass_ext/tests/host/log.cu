// A kernel that makes each kind of access once for each thread, for the access log.

#include <cuda_runtime.h>
#include <stdint.h>

#include "cutlass_ext/device/export.h"

using cutlass_ext::guarded;
using cutlass_ext::Word;

namespace {

__global__ void access_kernel(float const *in, float *out, float *sum) {
  extern __shared__ __align__(16) float tile[];
  int const t = int(threadIdx.x);
  unsigned const place = unsigned(__cvta_generic_to_shared(tile + 4 * t));
  asm volatile("prefetch.global.L2 [%0];\n" : : "l"(in + 4 * (blockIdx.x * blockDim.x + t)));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n"
               :
               : "r"(place), "l"(in + 4 * (blockIdx.x * blockDim.x + t)));
  asm volatile("cp.async.wait_all;\n");
  __syncthreads();
  float value;
  asm volatile("ld.shared.f32 %0, [%1 + 4];\n" : "=f"(value) : "r"(place));
  asm volatile("st.global.f32 [%0], %1;\n" : : "l"(out + blockIdx.x * blockDim.x + t), "f"(value));
  atomicAdd(sum, value);
}

__global__ void plain_kernel(float const *in, float *out) {
  __shared__ float tile[64];
  int const t = int(threadIdx.x);
  tile[t] = in[t];
  __syncthreads();
  out[t] = tile[63 - t];
}

}  // namespace

// Arguments: addresses of in, out, sum; blocks; threads.
CUTLASS_EXT_EXPORT char const *by_instruction(Word const *arguments, int, void *) {
  return guarded([&] {
    int const threads = int(arguments[4].i);
    access_kernel<<<int(arguments[3].i), threads, 16 * threads>>>(
        static_cast<float const *>(arguments[0].p), static_cast<float *>(arguments[1].p),
        static_cast<float *>(arguments[2].p));
  });
}

// Arguments: addresses of in and out, 64 floats each.
CUTLASS_EXT_EXPORT char const *by_expression(Word const *arguments, int, void *) {
  return guarded([&] {
    plain_kernel<<<1, 64>>>(static_cast<float const *>(arguments[0].p),
                            static_cast<float *>(arguments[1].p));
  });
}
