// Stock device-level GEMMs for tensor cores before Ampere, all layouts of their operands. The
// architecture that the library is built for chooses the instruction: 70 m8n8k4, 75 m16n8k8.

#include <cuda_runtime.h>

#include <stdexcept>

#include "cutlass/gemm/device/gemm.h"
#include "cutlass_ext/device/export.h"

using cutlass_ext::guarded;
using cutlass_ext::Word;

namespace {

using cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
template <int M, int N, int K>
using Shape = cutlass::gemm::GemmShape<M, N, K>;

#if __CUDA_ARCH__ == 700
using Arch = cutlass::arch::Sm70;
using Instruction = Shape<8, 8, 4>;
#else
using Arch = cutlass::arch::Sm75;
using Instruction = Shape<16, 8, 8>;
#endif

template <class LayoutA, class LayoutB, class Output, class Accumulator, int kAlignment>
using Gemm = cutlass::gemm::device::Gemm<
    half_t, LayoutA, half_t, LayoutB, Output, Row, Accumulator, cutlass::arch::OpClassTensorOp,
    Arch, Shape<64, 64, 32>, Shape<32, 32, 32>, Instruction,
    cutlass::epilogue::thread::LinearCombination<Output, 1, Accumulator, Accumulator>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 2, kAlignment, kAlignment>;

// D = A B + C; C and D are packed.
template <class Gemm>
void run(Word const *words) {
  int const m = int(words[0].i);
  int const n = int(words[1].i);
  int const k = int(words[2].i);
  using Accumulator = typename Gemm::EpilogueOutputOp::ElementCompute;
  typename Gemm::Arguments arguments(
      {m, n, k}, {static_cast<half_t *>(words[3].p), int(words[4].i)},
      {static_cast<half_t *>(words[5].p), int(words[6].i)},
      {static_cast<typename Gemm::ElementC *>(words[7].p), n},
      {static_cast<typename Gemm::ElementC *>(words[8].p), n}, {Accumulator(1), Accumulator(1)});
  cudaGetLastError();  // what an earlier call left behind is not this launch's
  cutlass::Status const status = Gemm()(arguments);
  if (status != cutlass::Status::kSuccess) {
    throw std::runtime_error(cutlassGetStatusString(status));
  }
}

}  // namespace

// Arguments: m, n, k, A, lda, B, ldb, C, D.
#define CUTLASS_EXT_GEMM(name, ...)                                         \
  CUTLASS_EXT_EXPORT char const *name(Word const *arguments, int, void *) { \
    return guarded([&] { run<Gemm<__VA_ARGS__>>(arguments); });             \
  }

CUTLASS_EXT_GEMM(row_row, Row, Row, float, float, 8)
CUTLASS_EXT_GEMM(row_column, Row, Column, half_t, float, 8)
CUTLASS_EXT_GEMM(column_row, Column, Row, float, float, 8)
CUTLASS_EXT_GEMM(column_column, Column, Column, half_t, float, 8)
CUTLASS_EXT_GEMM(row_row_f16, Row, Row, half_t, half_t, 2)
CUTLASS_EXT_GEMM(row_column_f16, Row, Column, half_t, half_t, 1)
CUTLASS_EXT_GEMM(column_row_f16, Column, Row, half_t, half_t, 4)
CUTLASS_EXT_GEMM(column_column_f16, Column, Column, half_t, half_t, 8)
