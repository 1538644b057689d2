// One warp executes one instruction on given inputs. record_vectors.py runs this on a GPU and keeps
// what came out; test_vectors.py runs it on the host and compares bit by bit.
//
// Every case reads 16 words a lane and writes 8.

#include <cuda_runtime.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

#include "cutlass_ext/device/export.h"

using cutlass_ext::guarded;
using cutlass_ext::Word;

namespace {

constexpr int kLanes = 32;
constexpr int kInputs = 16;
constexpr int kOutputs = 8;

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(status));
  }
}

template <class Case>
__global__ void run_case(uint32_t const *in, uint32_t *out) {
  __shared__ __align__(128) uint32_t matrices[kLanes * 4];
  int const lane = threadIdx.x;
  uint32_t inputs[kInputs];
  uint32_t outputs[kOutputs] = {};
  for (int i = 0; i < kInputs; ++i) {
    inputs[i] = in[lane * kInputs + i];
  }
  // Row `lane` of four 8x8 matrices of 16-bit elements.
  for (int i = 0; i < 4; ++i) {
    matrices[lane * 4 + i] = inputs[i];
  }
  __syncthreads();
  Case::run(lane, inputs, matrices, outputs);
  for (int i = 0; i < kOutputs; ++i) {
    out[lane * kOutputs + i] = outputs[i];
  }
}

template <class Case>
void launch_case(void const *in, void *out) {
  size_t const in_bytes = kLanes * kInputs * sizeof(uint32_t);
  size_t const out_bytes = kLanes * kOutputs * sizeof(uint32_t);
  uint32_t *device_in, *device_out;
  check(cudaMalloc(reinterpret_cast<void **>(&device_in), in_bytes));
  check(cudaMalloc(reinterpret_cast<void **>(&device_out), out_bytes));
  check(cudaMemcpy(device_in, in, in_bytes, cudaMemcpyHostToDevice));
  cudaGetLastError();  // what an earlier call left behind is not this launch's
  run_case<Case><<<1, kLanes>>>(device_in, device_out);
  check(cudaGetLastError());
  check(cudaMemcpy(out, device_out, out_bytes, cudaMemcpyDeviceToHost));
  cudaFree(device_in);
  cudaFree(device_out);
}

}  // namespace

// Defines a case and exports it; arguments: host addresses of the inputs and the outputs.
#define CUTLASS_EXT_CASE(name)                                                             \
  struct name##_case {                                                                     \
    static __device__ void run(int lane, uint32_t const *in, uint32_t const *matrices,     \
                               uint32_t *out);                                             \
  };                                                                                       \
  CUTLASS_EXT_EXPORT char const *name(Word const *arguments, int, void *) {                \
    return guarded([&] { launch_case<name##_case>(arguments[0].p, arguments[1].p); });     \
  }                                                                                        \
  __device__ void name##_case::run(int lane, uint32_t const *in, uint32_t const *matrices, \
                                   uint32_t *out)

// ---- shuffles and votes ----

CUTLASS_EXT_CASE(int_shuffle_index) {
  out[0] = __shfl_sync(0xffffffffu, in[0], 5);
  out[1] = __shfl_sync(0xffffffffu, in[1], lane * 7);
  out[2] = __shfl_sync(0xffffffffu, in[2], lane + 3, 16);
  out[3] = __shfl_sync(0xffffffffu, in[3], lane * 3, 8);
  out[4] = __shfl_sync(0xffffffffu, in[4], lane ^ 1, 2);
}

CUTLASS_EXT_CASE(int_shuffle_xor) {
  out[0] = __shfl_xor_sync(0xffffffffu, in[0], 1);
  out[1] = __shfl_xor_sync(0xffffffffu, in[1], 16);
  out[2] = __shfl_xor_sync(0xffffffffu, in[2], 8, 8);
  out[3] = __shfl_xor_sync(0xffffffffu, in[3], 5, 4);
  out[4] = __shfl_xor_sync(0xffffffffu, in[4], 31);
}

CUTLASS_EXT_CASE(int_shuffle_up) {
  out[0] = __shfl_up_sync(0xffffffffu, in[0], 1);
  out[1] = __shfl_up_sync(0xffffffffu, in[1], 5, 8);
  out[2] = __shfl_up_sync(0xffffffffu, in[2], 16);
  out[3] = __shfl_up_sync(0xffffffffu, in[3], 3, 4);
}

CUTLASS_EXT_CASE(int_shuffle_down) {
  out[0] = __shfl_down_sync(0xffffffffu, in[0], 1);
  out[1] = __shfl_down_sync(0xffffffffu, in[1], 5, 8);
  out[2] = __shfl_down_sync(0xffffffffu, in[2], 16);
  out[3] = __shfl_down_sync(0xffffffffu, in[3], 3, 4);
}

CUTLASS_EXT_CASE(int_shuffle_half_warp) {
  unsigned const mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  out[0] = __shfl_xor_sync(mask, in[0], 4);
  out[1] = __ballot_sync(mask, in[1] & 1);
}

#define CUTLASS_EXT_SHUFFLE(mode, word, distance, control)    \
  asm volatile("{\n .reg .pred p;\n shfl.sync." mode          \
               ".b32 %0|p, %2, %3, %4, -1;\n"                 \
               " selp.u32 %1, 1, 0, p;\n}\n"                  \
               : "=r"(out[2 * word]), "=r"(out[2 * word + 1]) \
               : "r"(in[word]), "r"(distance), "r"(control))

CUTLASS_EXT_CASE(int_shuffle_instructions) {
  CUTLASS_EXT_SHUFFLE("up", 0, 3, 0x1800);    // segments of 8
  CUTLASS_EXT_SHUFFLE("down", 1, 3, 0x181f);  // segments of 8
  CUTLASS_EXT_SHUFFLE("bfly", 2, 9, 0x101f);  // segments of 16
  CUTLASS_EXT_SHUFFLE("idx", 3, lane + 5, 0x181f);
}

CUTLASS_EXT_CASE(int_vote) {
  out[0] = __ballot_sync(0xffffffffu, in[0] & 1);
  out[1] = __any_sync(0xffffffffu, in[0] == 0);
  out[2] = __all_sync(0xffffffffu, in[0] != 0);
  out[3] = __ballot_sync(0xffffffffu, lane < int(in[1] % 32));
}

// ---- matrices ----

static __device__ unsigned row_address(uint32_t const *matrices, int row) {
  return unsigned(__cvta_generic_to_shared(matrices + 4 * row));
}

#define CUTLASS_EXT_LDMATRIX(suffix, modifier)                                                    \
  CUTLASS_EXT_CASE(int_ldmatrix_x1##suffix) {                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" modifier ".shared.b16 {%0}, [%1];\n"             \
                 : "=r"(out[0])                                                                   \
                 : "r"(row_address(matrices, lane)));                                             \
  }                                                                                               \
  CUTLASS_EXT_CASE(int_ldmatrix_x2##suffix) {                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" modifier ".shared.b16 {%0, %1}, [%2];\n"         \
                 : "=r"(out[0]), "=r"(out[1])                                                     \
                 : "r"(row_address(matrices, lane ^ 1)));                                         \
  }                                                                                               \
  CUTLASS_EXT_CASE(int_ldmatrix_x4##suffix) {                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" modifier ".shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                         \
                 : "r"(row_address(matrices, (lane + 3) % 32)));                                  \
  }

CUTLASS_EXT_LDMATRIX(, "")
CUTLASS_EXT_LDMATRIX(_trans, ".trans")

CUTLASS_EXT_CASE(int_movmatrix) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out[0]) : "r"(in[0]));
}

// A from words 0-3, B from 4-5, C from 8-11 (of m8n8k4: from 8-15). The prefix of a name is the
// format of A and B; C is read in the same words' meaning as integers by the recorder.

#define CUTLASS_EXT_MMA_F32(name, shape, type)                                                \
  CUTLASS_EXT_CASE(name) {                                                                    \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                      \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n" \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                     \
                 : "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(in[4]), "r"(in[5]),    \
                   "r"(in[8]), "r"(in[9]), "r"(in[10]), "r"(in[11]));                         \
  }

#define CUTLASS_EXT_MMA_NARROW_F32(name, shape, type)                                       \
  CUTLASS_EXT_CASE(name) {                                                                  \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                    \
                 ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};\n"              \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                   \
                 : "r"(in[0]), "r"(in[1]), "r"(in[4]), "r"(in[8]), "r"(in[9]), "r"(in[10]), \
                   "r"(in[11]));                                                            \
  }

CUTLASS_EXT_MMA_F32(half_mma_m16n8k16_f32, "m16n8k16", "f16")
CUTLASS_EXT_MMA_F32(bfloat_mma_m16n8k16_f32, "m16n8k16", "bf16")
CUTLASS_EXT_MMA_F32(tf32_mma_m16n8k8_f32, "m16n8k8", "tf32")
CUTLASS_EXT_MMA_NARROW_F32(half_mma_m16n8k8_f32, "m16n8k8", "f16")
CUTLASS_EXT_MMA_NARROW_F32(bfloat_mma_m16n8k8_f32, "m16n8k8", "bf16")
CUTLASS_EXT_MMA_NARROW_F32(tf32_mma_m16n8k4_f32, "m16n8k4", "tf32")

CUTLASS_EXT_CASE(half_mma_m16n8k16_f16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
      "{%8, %9};\n"
      : "=r"(out[0]), "=r"(out[1])
      : "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(in[4]), "r"(in[5]), "r"(in[12]),
        "r"(in[13]));
}

CUTLASS_EXT_CASE(half_mma_m16n8k8_f16) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};\n"
      : "=r"(out[0]), "=r"(out[1])
      : "r"(in[0]), "r"(in[1]), "r"(in[4]), "r"(in[12]), "r"(in[13]));
}

// Volta's instruction, in the layouts of operands that CUTLASS uses it with.
#define CUTLASS_EXT_MMA_QUAD_PAIR_F32(name, layouts)                                              \
  CUTLASS_EXT_CASE(name) {                                                                        \
    asm volatile("mma.sync.aligned.m8n8k4." layouts                                               \
                 ".f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "      \
                 "{%12, %13, %14, %15, %16, %17, %18, %19};\n"                                    \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]), "=r"(out[4]),          \
                   "=r"(out[5]), "=r"(out[6]), "=r"(out[7])                                       \
                 : "r"(in[0]), "r"(in[1]), "r"(in[4]), "r"(in[5]), "r"(in[8]), "r"(in[9]),        \
                   "r"(in[10]), "r"(in[11]), "r"(in[12]), "r"(in[13]), "r"(in[14]), "r"(in[15])); \
  }
#define CUTLASS_EXT_MMA_QUAD_PAIR_F16(name, layouts)                                            \
  CUTLASS_EXT_CASE(name) {                                                                      \
    asm volatile("mma.sync.aligned.m8n8k4." layouts                                             \
                 ".f16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11};\n" \
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                       \
                 : "r"(in[0]), "r"(in[1]), "r"(in[4]), "r"(in[5]), "r"(in[12]), "r"(in[13]),    \
                   "r"(in[14]), "r"(in[15]));                                                   \
  }

CUTLASS_EXT_MMA_QUAD_PAIR_F32(half_mma_m8n8k4_row_row_f32, "row.row")
CUTLASS_EXT_MMA_QUAD_PAIR_F32(half_mma_m8n8k4_row_col_f32, "row.col")
CUTLASS_EXT_MMA_QUAD_PAIR_F32(half_mma_m8n8k4_col_row_f32, "col.row")
CUTLASS_EXT_MMA_QUAD_PAIR_F32(half_mma_m8n8k4_col_col_f32, "col.col")
CUTLASS_EXT_MMA_QUAD_PAIR_F16(half_mma_m8n8k4_row_row_f16, "row.row")
CUTLASS_EXT_MMA_QUAD_PAIR_F16(half_mma_m8n8k4_row_col_f16, "row.col")
CUTLASS_EXT_MMA_QUAD_PAIR_F16(half_mma_m8n8k4_col_row_f16, "col.row")
CUTLASS_EXT_MMA_QUAD_PAIR_F16(half_mma_m8n8k4_col_col_f16, "col.col")

// ---- conversions; `float` inputs are integers, halves of them and values between formats ----

#define CUTLASS_EXT_CONVERT(word, conversion) \
  asm volatile(conversion " %0, %1;\n" : "=r"(out[word]) : "r"(in[word]))
#define CUTLASS_EXT_PACK(word, conversion) \
  asm volatile(conversion " %0, %1, %2;\n" : "=r"(out[word]) : "r"(in[word]), "r"(in[word + 1]))

CUTLASS_EXT_CASE(float_convert) {
  CUTLASS_EXT_CONVERT(0, "cvt.rna.tf32.f32");
  CUTLASS_EXT_PACK(1, "cvt.rn.f16x2.f32");
  CUTLASS_EXT_PACK(2, "cvt.rz.f16x2.f32");
  CUTLASS_EXT_PACK(3, "cvt.rn.relu.f16x2.f32");
  CUTLASS_EXT_PACK(4, "cvt.rn.bf16x2.f32");
  CUTLASS_EXT_PACK(5, "cvt.rz.bf16x2.f32");
  CUTLASS_EXT_PACK(6, "cvt.rn.relu.bf16x2.f32");
  CUTLASS_EXT_CONVERT(7, "cvt.rni.s32.f32");
}

CUTLASS_EXT_CASE(half_convert) {
  uint16_t const half = uint16_t(in[0]);
  asm volatile("cvt.f32.f16 %0, %1;\n" : "=r"(out[0]) : "h"(half));
  uint16_t back;
  asm volatile("cvt.rn.f16.f32 %0, %1;\n" : "=h"(back) : "r"(out[0]));
  out[1] = back;
}

// ---- arithmetic that is exact or correctly rounded ----

CUTLASS_EXT_CASE(float_exp2_of_integers) {
  // Integers in -126 ... 127, and beyond where the result is zero or infinite.
  float const exponent = float(int(in[0] % 400) - 200);
  float result;
  asm volatile("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(exponent));
  out[0] = __float_as_uint(result);
}

#define CUTLASS_EXT_PAIRS(prefix, type)                                                 \
  CUTLASS_EXT_CASE(prefix##_pairs) {                                                    \
    asm volatile("fma.rn." type " %0, %1, %2, %3;\n"                                    \
                 : "=r"(out[0])                                                         \
                 : "r"(in[0]), "r"(in[1]), "r"(in[2]));                                 \
    asm volatile("max." type " %0, %1, %2;\n" : "=r"(out[1]) : "r"(in[0]), "r"(in[1])); \
    asm volatile("min." type " %0, %1, %2;\n" : "=r"(out[2]) : "r"(in[0]), "r"(in[1])); \
  }

CUTLASS_EXT_PAIRS(half, "f16x2")
CUTLASS_EXT_PAIRS(bfloat, "bf16x2")

CUTLASS_EXT_CASE(int_bits) {
  asm volatile("prmt.b32 %0, %1, %2, %3;\n" : "=r"(out[0]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
  asm volatile("lop3.b32 %0, %1, %2, %3, 0xe4;\n"
               : "=r"(out[1])
               : "r"(in[0]), "r"(in[1]), "r"(in[2]));
  asm volatile("shl.b32 %0, %1, %2;\n" : "=r"(out[2]) : "r"(in[0]), "r"(in[3] % 40));
  asm volatile("shr.u32 %0, %1, %2;\n" : "=r"(out[3]) : "r"(in[0]), "r"(in[3] % 40));
  asm volatile("shr.s32 %0, %1, %2;\n" : "=r"(out[4]) : "r"(in[0]), "r"(in[3] % 40));
  out[5] = __byte_perm(in[0], in[1], in[2]);
  out[6] = unsigned(__clz(int(in[4] >> lane))) | unsigned(__popc(in[5])) << 8 |
           unsigned(__ffs(int(in[6] << lane))) << 16;
  out[7] = __umulhi(in[7], in[8]);
}
