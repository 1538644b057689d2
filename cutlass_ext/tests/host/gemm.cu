// Stock CUTLASS GEMMs on small integers, whose products and sums every format here holds exactly.

#include <cuda_runtime.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

#include "cutlass/device_kernel.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/kernel/default_gemm.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"
#include "cutlass_ext/device/export.h"
#include "cutlass_ext/device/launch.h"

using cutlass_ext::guarded;
using cutlass_ext::Word;

namespace {

using cutlass::bfloat16_t;
using cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
template <int M, int N, int K>
using Shape = cutlass::gemm::GemmShape<M, N, K>;

template <class Element_, class LayoutA_, class LayoutB_, int kAlignment, class OperatorClass,
          class Arch, class Threadblock, class Warp, class Instruction, int kStages,
          class Output_ = Element_, int kOutputAlignment = 1>
struct Configuration {
  using Element = Element_;
  using LayoutA = LayoutA_;
  using LayoutB = LayoutB_;
  using Output = Output_;
  using Kernel = typename cutlass::gemm::kernel::DefaultGemm<
      Element, LayoutA, kAlignment, Element, LayoutB, kAlignment, Output, Row, float, OperatorClass,
      Arch, Threadblock, Warp, Instruction,
      cutlass::epilogue::thread::LinearCombination<Output, kOutputAlignment, float, float>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, kStages, true,
      cutlass::arch::OpMultiplyAdd>::GemmKernel;
};

template <class T>
T *allocate(int64_t count) {
  T *pointer = nullptr;
  cutlass_ext::check(cudaMalloc(reinterpret_cast<void **>(&pointer), sizeof(T) * count), "malloc");
  return pointer;
}

template <class Layout>
int64_t offset(int row, int column, int leading) {
  return std::is_same<Layout, Row>::value ? int64_t(row) * leading + column
                                          : int64_t(column) * leading + row;
}

int value(int row, int column, int salt) {
  return (row * 7 + column * 13 + salt) % 5 - 2;
}

// D = A B + C with `slices` slices of k, one after another by a semaphore.
template <class C>
void run(int m, int n, int k, int slices) {
  using Kernel = typename C::Kernel;
  using Element = typename C::Element;
  using Output = typename C::Output;
  int const lda = std::is_same<typename C::LayoutA, Row>::value ? k : m;
  int const ldb = std::is_same<typename C::LayoutB, Row>::value ? n : k;
  auto *a = allocate<Element>(int64_t(m) * k);
  auto *b = allocate<Element>(int64_t(k) * n);
  auto *c = allocate<Output>(int64_t(m) * n);
  auto *d = allocate<Output>(int64_t(m) * n);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < k; ++j) {
      a[offset<typename C::LayoutA>(i, j, lda)] = Element(float(value(i, j, 1)));
    }
    for (int j = 0; j < n; ++j) {
      c[i * n + j] = Output(float(value(i, j, 3)));
      d[i * n + j] = Output(-100.0f);
    }
  }
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < n; ++j) {
      b[offset<typename C::LayoutB>(i, j, ldb)] = Element(float(value(i, j, 2)));
    }
  }
  cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<> swizzle;
  cutlass::gemm::GemmCoord const problem(m, n, k);
  using Tile = typename Kernel::Mma::Shape;
  auto const tiles = swizzle.get_tiled_shape(problem, {Tile::kM, Tile::kN, Tile::kK}, slices);
  auto *semaphores = allocate<int>(int64_t(tiles.m()) * tiles.n());
  memset(semaphores, 0, sizeof(int) * tiles.m() * tiles.n());
  typename Kernel::Params params(problem, tiles, {a, lda}, {b, ldb}, {c, n}, {d, n}, {1.0f, 1.0f},
                                 semaphores);
  cutlass::Kernel<Kernel><<<swizzle.get_grid_shape(tiles), Kernel::kThreadCount,
                            sizeof(typename Kernel::SharedStorage)>>>(params);
  std::string wrong;
  for (int i = 0; i < m && wrong.empty(); ++i) {
    for (int j = 0; j < n && wrong.empty(); ++j) {
      int sum = value(i, j, 3);
      for (int l = 0; l < k; ++l) {
        sum += value(i, l, 1) * value(l, j, 2);
      }
      if (float(d[i * n + j]) != float(sum)) {
        wrong = "D(" + std::to_string(i) + ", " + std::to_string(j) + ") is " +
                std::to_string(float(d[i * n + j])) + ", not " + std::to_string(sum);
      }
    }
  }
  for (void *pointer : {static_cast<void *>(a), static_cast<void *>(b), static_cast<void *>(c),
                        static_cast<void *>(d), static_cast<void *>(semaphores)}) {
    cudaFree(pointer);
  }
  if (!wrong.empty()) {
    throw std::runtime_error(wrong);
  }
}

namespace arch = cutlass::arch;

using Simt = Configuration<float, Row, Row, 1, arch::OpClassSimt, arch::Sm50, Shape<64, 64, 8>,
                           Shape<32, 32, 8>, Shape<1, 1, 1>, 2>;
using SimtMultistage = Configuration<float, Column, Row, 1, arch::OpClassSimt, arch::Sm80,
                                     Shape<64, 64, 8>, Shape<32, 32, 8>, Shape<1, 1, 1>, 4>;
using Half = Configuration<half_t, Row, Column, 8, arch::OpClassTensorOp, arch::Sm80,
                           Shape<64, 64, 32>, Shape<32, 32, 32>, Shape<16, 8, 16>, 3>;
using HalfTransposed =
    Configuration<half_t, Column, Row, 2, arch::OpClassTensorOp, arch::Sm80, Shape<64, 64, 32>,
                  Shape<32, 32, 32>, Shape<16, 8, 16>, 4, float>;
using Bfloat = Configuration<bfloat16_t, Row, Column, 8, arch::OpClassTensorOp, arch::Sm80,
                             Shape<64, 64, 32>, Shape<32, 32, 32>, Shape<16, 8, 16>, 3, float>;
using Tf32 = Configuration<float, Row, Row, 4, arch::OpClassTensorOp, arch::Sm80, Shape<64, 64, 16>,
                           Shape<32, 32, 16>, Shape<16, 8, 8>, 3>;

}  // namespace

// Arguments: m, n, k, slices of k.
#define CUTLASS_EXT_TEST(name, Configuration)                                           \
  CUTLASS_EXT_EXPORT char const *name(Word const *arguments, int, void *) {             \
    return guarded([&] {                                                                \
      run<Configuration>(int(arguments[0].i), int(arguments[1].i), int(arguments[2].i), \
                         int(arguments[3].i));                                          \
    });                                                                                 \
  }

CUTLASS_EXT_TEST(gemm_simt, Simt)
CUTLASS_EXT_TEST(gemm_simt_multistage, SimtMultistage)
CUTLASS_EXT_TEST(gemm_half, Half)
CUTLASS_EXT_TEST(gemm_half_transposed, HalfTransposed)
CUTLASS_EXT_TEST(gemm_bfloat, Bfloat)
CUTLASS_EXT_TEST(gemm_tf32, Tf32)
