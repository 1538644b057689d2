// Small kernels with faults planted in them. Each is exported under its name and takes one
// argument, the number of the fault: 0 for none. A function that succeeds has found the right
// numbers.

#include <cuda_runtime.h>
#include <stdint.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "cutlass_ext/device/export.h"

using cutlass_ext::guarded;
using cutlass_ext::Word;

namespace {

constexpr int kThreads = 128;

// Device memory of exactly its size, so that AddressSanitizer sees what lies beyond.
template <class T>
class Buffer {
 public:
  explicit Buffer(int count, T first = T(0), T step = T(0)) : count_(count) {
    cudaMalloc(reinterpret_cast<void **>(&data_), sizeof(T) * count);
    for (int i = 0; i < count; ++i) {
      data_[i] = first + T(i) * step;
    }
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(Buffer const &) = delete;

  T *get() const { return data_; }
  T &operator[](int i) const { return data_[i]; }

 private:
  T *data_;
  int count_;
};

void require(bool right) {
  if (!right) {
    throw std::runtime_error("wrong numbers");
  }
}

// ---- barriers around shared memory ----

// 1: no barrier between write and read; 2: none between read and overwrite.
__global__ void shift_kernel(int const *in, int *out, int fault) {
  __shared__ int tile[kThreads];
  int const t = threadIdx.x;
  for (int round = 0; round < 2; ++round) {
    tile[t] = in[t] + round;
    if (fault != 1) {
      __syncthreads();
    }
    out[round * kThreads + t] = tile[(t + 1) % kThreads];
    if (fault != 2) {
      __syncthreads();
    }
  }
}

// 1: no __syncwarp between write and read of neighbours in a warp; 2: of half the warp only.
__global__ void warp_exchange_kernel(int const *in, int *out, int fault) {
  extern __shared__ int dynamic_tile[];
  int const t = threadIdx.x;
  dynamic_tile[t] = in[t];
  if (fault == 0) {
    __syncwarp();
  }
  if (fault == 2) {
    __syncwarp(t % 32 < 16 ? 0x0000ffffu : 0xffff0000u);
  }
  out[t] = dynamic_tile[t ^ 16];
}

// 1: the first half of the block meets another barrier than the rest; 2: a barrier of 128 threads
// that 96 reach; 3: two counts for one barrier; 4: a __syncthreads() on each side of a branch.
// 0: named barriers by pairs of warps, and threads that return early.
__global__ void barrier_kernel(int *out, int fault) {
  int const t = threadIdx.x;
  if (fault == 1) {
    if (t < 64) {
      asm volatile("bar.sync 1;\n");
    } else {
      asm volatile("bar.sync 2;\n");
    }
  } else if (fault == 2) {
    if (t < 96) {
      asm volatile("bar.sync 1, 128;\n");
    }
  } else if (fault == 3) {
    asm volatile("bar.sync 1, %0;\n" : : "r"(t < 64 ? 64 : 128));
  } else if (fault == 4) {
    if (t < 64) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  } else {
    asm volatile("barrier.sync %0, %1;\n" : : "r"(1 + t / 64), "r"(64));
    if (t >= 96) {
      out[t] = t;
      return;
    }
    __syncthreads();
  }
  out[t] = t;
}

// ---- warp collectives ----

// 1: a vote against a shuffle; 2: a shuffle from a lane that is not in the mask; 3: a lane outside
// its own mask; 4: overlapping masks; 5: half a warp executes ldmatrix; 6: a lane never comes.
__global__ void collective_kernel(int *out, int fault) {
  __shared__ __align__(16) uint16_t tile[8 * 8];
  int const t = threadIdx.x;
  if (t < 64) {
    tile[t] = 0;
  }
  __syncthreads();
  int value = t;
  if (fault == 1 && t % 32 < 16) {
    value = int(__ballot_sync(0xffffffffu, 1));
  } else if (fault == 2) {
    value = t % 32 < 16 ? __shfl_sync(0x0000ffffu, t, 20) : 0;
  } else if (fault == 3) {
    value = __shfl_sync(0x0000ffffu, t, 0);
  } else if (fault == 4) {
    value = __shfl_sync(t % 32 < 16 ? 0x0000ffffu : 0xffffffffu, t, 0);
  } else if (fault == 5) {
    if (t % 32 < 16) {
      unsigned address = unsigned(__cvta_generic_to_shared(tile + t % 8 * 8));
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];\n"
                   : "=r"(value)
                   : "r"(address));
    }
  } else if (fault == 6 && t == 7) {
    __syncthreads();
  } else {
    value = __shfl_xor_sync(0xffffffffu, t, 1);
  }
  out[t] = value;
}

// ---- cp.async ----

__device__ void copy_16(float *shared, float const *global) {
  unsigned const address = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" : : "r"(address), "l"(global));
}

// 1: no wait; 2: a wait for all but one of two groups; 3: no barrier after the wait; 4: the source
// is overwritten while the copy is in flight; 5: a misaligned source; 6: a misaligned destination;
// 7: the destination is written while the copy is in flight.
__global__ void copy_kernel(float *in, float *out, int fault) {
  extern __shared__ __align__(16) float copied[];
  int const t = threadIdx.x;
  copy_16(copied + 4 * t + (fault == 6 ? 1 : 0), in + 4 * t + (fault == 5 ? 1 : 0));
  asm volatile("cp.async.commit_group;\n");
  copy_16(copied + 4 * (kThreads + t), in + 4 * (kThreads + t));
  asm volatile("cp.async.commit_group;\n");
  if (fault == 4) {
    in[4 * t] = -1.0f;
  }
  if (fault == 7) {
    copied[4 * t] = -1.0f;
  }
  if (fault == 2) {
    asm volatile("cp.async.wait_group 1;\n");
  } else if (fault != 1) {
    asm volatile("cp.async.wait_group 0;\n");
  }
  if (fault != 3) {
    __syncthreads();
  }
  int const other = (t + 1) % kThreads;
  for (int i = 0; i < 4; ++i) {
    out[4 * t + i] = copied[4 * other + i] + copied[4 * (kThreads + other) + i];
  }
}

// ---- alignment ----

// 1: a vector load; 2: a row of ldmatrix; 3: an atomic; 4: a vector store to shared memory.
__global__ void alignment_kernel(float const *in, float *out, int fault) {
  extern __shared__ __align__(16) float rows[];
  int const t = threadIdx.x;
  rows[t] = float(t);
  __syncthreads();
  float a, b, c, d;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
               : "l"(in + 4 * t + (fault == 1 ? 2 : 0)));
  unsigned const row =
      unsigned(__cvta_generic_to_shared(rows)) + 16 * (t % 8) + (fault == 2 && t == 3 ? 4 : 0);
  unsigned matrix;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];\n" : "=r"(matrix) : "r"(row));
  char *counter = reinterpret_cast<char *>(out + kThreads) + (fault == 3 ? 2 : 0);
  atomicAdd(reinterpret_cast<float *>(counter), 1.0f);
  out[t] = a + b + c + d;
  if (fault == 4) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %1};\n"
                 :
                 : "r"(unsigned(__cvta_generic_to_shared(rows + 4 * t + 1))), "f"(a));
  }
}

// ---- bounds ----

// 1: a read past global memory; 2: a write past global memory; 3: a write past dynamic shared
// memory; 4: a read past static shared memory; 5: the source of a cp.async; 6: a shared address of
// PTX; 7: a load by PTX past global memory.
__global__ void bounds_kernel(float const *in, float *out, int fault) {
  extern __shared__ __align__(16) float dynamic[];
  __shared__ float fixed[kThreads];
  int const t = threadIdx.x;
  int const past = fault != 0 && t == kThreads - 1 ? 1 : 0;
  dynamic[t + (fault == 3 ? past : 0)] = in[t + (fault == 1 ? past : 0)];
  fixed[t] = 1.0f;
  if (fault == 5) {
    copy_16(dynamic + 4 * (t % (kThreads / 4)), in + 4 * (t % (kThreads / 4) + past));
    asm volatile("cp.async.wait_all;\n");
  }
  if (fault == 6) {
    unsigned const address = unsigned(__cvta_generic_to_shared(dynamic + t)) + 4 * past;
    asm volatile("st.shared.f32 [%0], %1;\n" : : "r"(address), "f"(in[t]));
  }
  float value = dynamic[t];
  if (fault == 7) {
    asm volatile("ld.global.f32 %0, [%1];\n" : "=f"(value) : "l"(in + t + past));
  }
  out[t + (fault == 2 ? past : 0)] = value + fixed[t + (fault == 4 ? past : 0)];
}

// ---- global memory ----

// 1: two blocks write one place; 2: a thread reads what another wrote, without a barrier; 3: an
// atomic addition and a plain one; 0: sums by atomics, each block's own range, a barrier.
__global__ void global_kernel(float *sum, float *own, int fault) {
  int const t = threadIdx.x;
  float *mine = own + (fault == 1 ? 0 : blockIdx.x * kThreads);
  mine[t] = float(t);
  if (fault != 2) {
    __syncthreads();
  }
  float const neighbour = mine[t ^ 32];
  if (fault == 3 && t == 0 && blockIdx.x == 1) {
    *sum += neighbour;
  } else {
    atomicAdd(sum, neighbour);
  }
}

// A block waits for its predecessor's flag and reads what that wrote. 1: a plain flag; 2: a relaxed
// store with no fence before it; 3: relaxed accesses with fences around, as it should be.
__global__ void chain_kernel(int *flags, int *values, int fault) {
  int const block = blockIdx.x;
  int seen = 0;
  if (threadIdx.x == 0 && block > 0) {
    while (seen == 0) {
      if (fault == 0) {
        asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(seen) : "l"(flags + block - 1));
      } else if (fault == 1) {
        asm volatile("ld.global.b32 %0, [%1];\n" : "=r"(seen) : "l"(flags + block - 1));
      } else {
        asm volatile("ld.global.relaxed.gpu.b32 %0, [%1];\n" : "=r"(seen) : "l"(flags + block - 1));
      }
    }
    __threadfence();
  }
  __syncthreads();
  int const t = threadIdx.x;
  values[block * kThreads + t] = block > 0 ? values[(block - 1) * kThreads + (t ^ 1)] + 1 : 1;
  __syncthreads();
  if (t == 0) {
    if (fault == 3) {
      __threadfence();
    }
    if (fault == 0) {
      asm volatile("st.global.release.gpu.b32 [%0], %1;\n" : : "l"(flags + block), "r"(1));
    } else if (fault == 1) {
      asm volatile("st.global.b32 [%0], %1;\n" : : "l"(flags + block), "r"(1));
    } else {
      asm volatile("st.global.relaxed.gpu.b32 [%0], %1;\n" : : "l"(flags + block), "r"(1));
    }
  }
}

// ---- what has no value yet ----

// 1: half of the shared memory that is read has not been written.
__global__ void uninitialized_kernel(int *out, int fault) {
  __shared__ int tile[kThreads];
  int const t = threadIdx.x;
  if (fault == 0 || t < kThreads / 2) {
    tile[t] = t;
  }
  __syncthreads();
  out[t] = tile[kThreads - 1 - t];
}

// 1: an instruction that the interpreter does not know; 2: __trap(); 3: an assembly trap.
__global__ void instruction_kernel(int *out, int fault) {
  int value = int(threadIdx.x);
  if (fault == 1) {
    asm volatile("bfind.u32 %0, %1;\n" : "=r"(value) : "r"(value));
  } else if (fault == 2) {
    __trap();
  } else if (fault == 3) {
    asm volatile("trap;\n");
  }
  out[threadIdx.x] = value;
}

// A block that waits for one that is not resident.
__global__ void livelock_kernel(int *flag) {
  int seen = 0;
  while (blockIdx.x == 0 && seen == 0) {
    asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(seen) : "l"(flag));
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    asm volatile("st.global.release.gpu.b32 [%0], %1;\n" : : "l"(flag), "r"(1));
  }
}

}  // namespace

#define CUTLASS_EXT_TEST(name)                                              \
  void name(int fault);                                                     \
  CUTLASS_EXT_EXPORT char const *name(Word const *arguments, int, void *) { \
    return guarded([&] { name(int(arguments[0].i)); });                     \
  }                                                                         \
  void name(int fault)

CUTLASS_EXT_TEST(shift) {
  Buffer<int> in(kThreads, 0, 10), out(2 * kThreads);
  shift_kernel<<<1, kThreads>>>(in.get(), out.get(), fault);
  for (int i = 0; i < 2 * kThreads; ++i) {
    require(out[i] == (i % kThreads + 1) % kThreads * 10 + i / kThreads);
  }
}

CUTLASS_EXT_TEST(warp_exchange) {
  Buffer<int> in(kThreads, 0, 10), out(kThreads);
  warp_exchange_kernel<<<1, kThreads, kThreads * sizeof(int)>>>(in.get(), out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(out[i] == (i ^ 16) * 10);
  }
}

CUTLASS_EXT_TEST(barrier) {
  Buffer<int> out(kThreads);
  barrier_kernel<<<1, kThreads>>>(out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(out[i] == i);
  }
}

CUTLASS_EXT_TEST(collective) {
  Buffer<int> out(kThreads);
  collective_kernel<<<1, kThreads>>>(out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(out[i] == (i ^ 1));
  }
}

CUTLASS_EXT_TEST(copy) {
  Buffer<float> in(8 * kThreads, 0.0f, 1.0f), out(4 * kThreads);
  copy_kernel<<<1, kThreads, 8 * kThreads * sizeof(float)>>>(in.get(), out.get(), fault);
  for (int i = 0; i < 4 * kThreads; ++i) {
    float const first = float((i + 4) % (4 * kThreads));
    require(out[i] == first + first + 4 * kThreads);
  }
}

CUTLASS_EXT_TEST(alignment) {
  Buffer<float> in(4 * kThreads + 4, 1.0f), out(kThreads + 2);
  alignment_kernel<<<1, kThreads, 5 * kThreads * sizeof(float)>>>(in.get(), out.get(), fault);
  require(out[kThreads] == kThreads);
}

CUTLASS_EXT_TEST(bounds) {
  Buffer<float> in(kThreads, 0.0f, 1.0f), out(kThreads);
  bounds_kernel<<<1, kThreads, kThreads * sizeof(float)>>>(in.get(), out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(fault != 0 || out[i] == float(i + 1));
  }
}

CUTLASS_EXT_TEST(global) {
  Buffer<float> sum(1), own(4 * kThreads);
  global_kernel<<<4, kThreads>>>(sum.get(), own.get(), fault);
  require(sum[0] == 4 * (kThreads * (kThreads - 1) / 2));
}

CUTLASS_EXT_TEST(chain) {
  constexpr int kBlocks = 4;
  Buffer<int> flags(kBlocks), values(kBlocks * kThreads);
  chain_kernel<<<kBlocks, kThreads>>>(flags.get(), values.get(), fault);
  for (int i = 0; i < kBlocks * kThreads; ++i) {
    require(values[i] == i / kThreads + 1);
  }
}

CUTLASS_EXT_TEST(uninitialized) {
  Buffer<int> out(kThreads);
  uninitialized_kernel<<<1, kThreads>>>(out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(out[i] == kThreads - 1 - i);
  }
}

CUTLASS_EXT_TEST(instruction) {
  Buffer<int> out(kThreads);
  instruction_kernel<<<1, kThreads>>>(out.get(), fault);
  for (int i = 0; i < kThreads; ++i) {
    require(out[i] == i);
  }
}

CUTLASS_EXT_TEST(livelock) {
  Buffer<int> flag(1);
  livelock_kernel<<<2, 32>>>(flag.get());
}

// Sums what the last kernel left of its shared memory: tells one poison from another.
CUTLASS_EXT_EXPORT char const *uninitialized_sum(Word const *arguments, int, void *) {
  return guarded([&] {
    Buffer<int> out(kThreads);
    uninitialized_kernel<<<1, kThreads>>>(out.get(), int(arguments[0].i));
    int64_t sum = 0;
    for (int i = 0; i < kThreads; ++i) {
      sum += out[i];
    }
    *static_cast<int64_t *>(arguments[1].p) = sum;
  });
}

// ---- the launch itself ----

__global__ void empty_kernel(int *out) {
  if (out != nullptr && threadIdx.x == 0) {
    atomicAdd(out, 1);
  }
}

// Launches with `arguments`: threads, blocks, dynamic shared bytes, bytes to opt in for (0: none).
CUTLASS_EXT_EXPORT char const *launch_empty(Word const *arguments, int, void *) {
  return guarded([&] {
    if (arguments[3].i > 0) {
      cudaError_t const status = cudaFuncSetAttribute(
          empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(arguments[3].i));
      if (status != cudaSuccess) {
        throw std::runtime_error(std::string("cudaFuncSetAttribute: ") +
                                 cudaGetErrorString(status));
      }
    }
    Buffer<int> count(1);
    empty_kernel<<<unsigned(arguments[1].i), unsigned(arguments[0].i), size_t(arguments[2].i)>>>(
        count.get());
    require(count[0] == arguments[1].i);
  });
}
