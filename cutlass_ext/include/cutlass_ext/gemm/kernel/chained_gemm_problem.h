/// @file
/// What a chained product is given: one problem, a batch of equal ones, or a list.
#pragma once

#include "cutlass/cutlass.h"
#include "cutlass_ext/gemm/kernel/tile_scheduler.h"

#include CUDA_STD_HEADER(cstdint)

namespace cutlass_ext {
namespace gemm {
namespace kernel {

/// output = alpha * (f(a b0 + bias0) b1) + beta * source. All matrices are row-major; strides count
/// elements from row to row. Part of the binary interface of kernel libraries.
struct ChainedGemmProblem {
  void const *a;       ///< [m, k0]
  void const *b0;      ///< [k0, n0]
  void const *b1;      ///< [n0, n1]
  void const *bias0;   ///< [n0], of the operands' type; null where there is none
  void const *source;  ///< [m, n1], of the output's type; null where there is none
  void *output;        ///< [m, n1]; may be `source`
  int64_t stride_a;
  int64_t stride_b0;
  int64_t stride_b1;
  int64_t stride_source;
  int64_t stride_output;
  int m;
  int n0;
  int k0;
  int n1;
};

/// How far apart, in elements, the tensors of a batch's neighbouring problems are; 0 where all
/// share one.
struct ChainedGemmBatch {
  int count = 1;
  int64_t a = 0;
  int64_t b0 = 0;
  int64_t b1 = 0;
  int64_t bias0 = 0;
  int64_t source = 0;
  int64_t output = 0;
};

/// Tiles of the output, all problems' together, numbered problem by problem.
struct ChainedGemmParams {
  ChainedGemmProblem problem;  ///< the first of a batch
  ChainedGemmBatch batch;
  /// In device memory, for a list of problems; null for a batch.
  ChainedGemmProblem const *problems = nullptr;
  GroupedTileScheduler::Params tiles;
  float alpha = 1.f;
  float beta = 0.f;
};

/// Problem `index` of the batch or list; what a caller does not use of it costs nothing.
template <class Element, class ElementOutput>
CUTLASS_DEVICE ChainedGemmProblem chained_gemm_problem(ChainedGemmParams const &params, int index) {
  if (params.problems != nullptr) {
    return params.problems[index];
  }
  ChainedGemmProblem problem = params.problem;
  problem.a = static_cast<Element const *>(problem.a) + index * params.batch.a;
  problem.b0 = static_cast<Element const *>(problem.b0) + index * params.batch.b0;
  problem.b1 = static_cast<Element const *>(problem.b1) + index * params.batch.b1;
  if (problem.bias0 != nullptr) {
    problem.bias0 = static_cast<Element const *>(problem.bias0) + index * params.batch.bias0;
  }
  if (problem.source != nullptr) {
    problem.source =
        static_cast<ElementOutput const *>(problem.source) + index * params.batch.source;
  }
  problem.output = static_cast<ElementOutput *>(problem.output) + index * params.batch.output;
  return problem;
}

}  // namespace kernel
}  // namespace gemm
}  // namespace cutlass_ext
