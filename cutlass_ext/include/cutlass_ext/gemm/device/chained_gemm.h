/// @file
/// Chained products on a device: what a kernel can take, and how it is launched.
#pragma once

#include <cuda_runtime.h>
#include <limits.h>
#include <stdint.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cutlass_ext/device/launch.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_registers.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_shared.h"

namespace cutlass_ext {
namespace gemm {
namespace device {

/// output = alpha * (f(a b0 + bias0) b1) + beta * source in one kernel, for a batch of equal
/// problems or for a list of problems of any sizes.
///
/// The first product is accumulated in float, takes bias and activation in float, and is rounded to
/// the operands' type; the second is accumulated in float, and output rounded once. Without a
/// source beta is 0.
///
/// \tparam Kernel_  kernel::ChainedGemmRegistersKernel or kernel::ChainedGemmSharedKernel
template <class Kernel_>
class ChainedGemm {
 public:
  using Kernel = Kernel_;
  using Element = typename Kernel::Element;
  using ElementOutput = typename Kernel::ElementOutput;
  using Problem = kernel::ChainedGemmProblem;
  using Batch = kernel::ChainedGemmBatch;

  /// What is the same for all problems.
  struct Scaling {
    float alpha = 1.f;
    float beta = 0.f;
    typename Kernel::Activation activation;
    int blocks = 0;  ///< in the grid at most; 0: as many as the device runs at once
  };

  struct Arguments {
    Problem problem;  ///< the first of the batch
    Batch batch;
    Scaling scaling;
  };

  /// A list of problems, in host memory.
  struct GroupedArguments {
    Problem const *problems;
    int count;
    void *workspace;  ///< workspace_size(count) bytes of device memory, aligned to 16
    Scaling scaling;
  };

  /// Why the kernel can't serve, in a sentence; empty where it can.
  static std::string can_implement(Arguments const &arguments) {
    if (arguments.batch.count < 0) {
      return "the batch has " + std::to_string(arguments.batch.count) + " problems";
    }
    std::string const reason =
        problem_obstacle(arguments.problem, arguments.batch, arguments.scaling);
    if (!reason.empty()) {
      return reason;
    }
    return tile_obstacle(Schedule::tiles(arguments.problem) * arguments.batch.count);
  }

  static std::string can_implement(GroupedArguments const &arguments) {
    int64_t tiles = 0;
    for (int i = 0; i < arguments.count; ++i) {
      std::string const reason =
          problem_obstacle(arguments.problems[i], Batch(), arguments.scaling);
      if (!reason.empty()) {
        return "problem " + std::to_string(i) + ": " + reason;
      }
      tiles += Schedule::tiles(arguments.problems[i]);
    }
    return tile_obstacle(tiles);
  }

  /// Bytes of device memory for a list of `count` problems.
  static size_t workspace_size(int count) {
    return count * sizeof(Problem) + (count + 1) * sizeof(int);
  }

  /// Enqueues the kernel. Throws std::invalid_argument with can_implement()'s reason, and
  /// std::runtime_error where CUDA refuses.
  static void run(Arguments const &arguments, cudaStream_t stream) {
    refuse(can_implement(arguments));
    typename Kernel::Params params;
    params.problem = arguments.problem;
    params.batch = arguments.batch;
    params.tiles.groups = arguments.batch.count;
    params.tiles.tiles_per_group = int(Schedule::tiles(arguments.problem));
    params.tiles.tiles = params.tiles.tiles_per_group * arguments.batch.count;
    launch(params, arguments.scaling, stream);
  }

  static void run(GroupedArguments const &arguments, cudaStream_t stream) {
    refuse(can_implement(arguments));
    std::vector<int> first_tiles(arguments.count + 1, 0);
    for (int i = 0; i < arguments.count; ++i) {
      first_tiles[i + 1] = first_tiles[i] + int(Schedule::tiles(arguments.problems[i]));
    }
    auto *problems = static_cast<Problem *>(arguments.workspace);
    auto *tiles = reinterpret_cast<int *>(problems + arguments.count);
    if (arguments.count > 0) {
      // From pageable memory: it has been read when the calls return.
      check(cudaMemcpyAsync(problems, arguments.problems, arguments.count * sizeof(Problem),
                            cudaMemcpyHostToDevice, stream),
            "copying the list of problems");
      check(cudaMemcpyAsync(tiles, first_tiles.data(), first_tiles.size() * sizeof(int),
                            cudaMemcpyHostToDevice, stream),
            "copying the list of tiles");
    }
    typename Kernel::Params params;
    params.problems = problems;
    params.tiles.first_tiles = tiles;
    params.tiles.groups = arguments.count;
    params.tiles.tiles = first_tiles.back();
    launch(params, arguments.scaling, stream);
  }

 private:
  using Schedule = typename Kernel::Schedule;

  static std::string misaligned(std::string const &what, int alignment) {
    return what + " is not a multiple of " + std::to_string(alignment) +
           " elements: take an instance with a smaller kAlignment";
  }

  /// Of one matrix, or a batch of them; an empty one is never accessed.
  template <class T>
  static std::string matrix_obstacle(char const *name, void const *pointer, int rows, int columns,
                                     int64_t stride, int64_t batch_stride, int alignment) {
    if (rows == 0 || columns == 0) {
      return {};
    }
    if (columns % alignment != 0) {
      return misaligned(std::string("the number of columns of ") + name, alignment);
    }
    if (rows > 1 && stride % alignment != 0) {
      return misaligned(std::string("the row stride of ") + name, alignment);
    }
    if (batch_stride % alignment != 0) {
      return misaligned(std::string("the batch stride of ") + name, alignment);
    }
    if (reinterpret_cast<uintptr_t>(pointer) % (sizeof(T) * alignment) != 0) {
      return misaligned(std::string("the address of ") + name, alignment);
    }
    return {};
  }

  static std::string problem_obstacle(Problem const &p, Batch const &batch,
                                      Scaling const &scaling) {
    if (p.m < 0 || p.n0 < 0 || p.k0 < 0 || p.n1 < 0) {
      return "an extent is negative";
    }
    if (Kernel::kMaxN0 != 0 && p.n0 > Kernel::kMaxN0) {
      return "the intermediate has " + std::to_string(p.n0) + " columns and the tile " +
             std::to_string(Kernel::kMaxN0) + ": take an instance for any N0";
    }
    if (Kernel::kMaxK0 != 0 && p.k0 > Kernel::kMaxK0) {
      return "k0 is " + std::to_string(p.k0) + " and a resident b0 has at most " +
             std::to_string(Kernel::kMaxK0) + " rows: take an instance that streams it";
    }
    if (scaling.beta != 0.f && p.source == nullptr && p.m > 0 && p.n1 > 0) {
      return "beta is not zero and there is no source";
    }
    constexpr int kOperands = Kernel::kAlignment;
    constexpr int kOutputs = Kernel::kOutputAlignment;
    for (std::string const &reason :
         {matrix_obstacle<Element>("a", p.a, p.m, p.k0, p.stride_a, batch.a, kOperands),
          matrix_obstacle<Element>("b0", p.b0, p.k0, p.n0, p.stride_b0, batch.b0, kOperands),
          matrix_obstacle<Element>("b1", p.b1, p.n0, p.n1, p.stride_b1, batch.b1, kOperands),
          matrix_obstacle<ElementOutput>("source", p.source, p.source == nullptr ? 0 : p.m, p.n1,
                                         p.stride_source, batch.source, kOutputs),
          matrix_obstacle<ElementOutput>("output", p.output, p.m, p.n1, p.stride_output,
                                         batch.output, kOutputs)}) {
      if (!reason.empty()) {
        return reason;
      }
    }
    return {};
  }

  static std::string tile_obstacle(int64_t tiles) {
    return tiles > INT_MAX ? "the output has more than 2^31 - 1 tiles: divide the problem" : "";
  }

  static void refuse(std::string const &reason) {
    if (!reason.empty()) {
      throw std::invalid_argument("chained GEMM: " + reason);
    }
  }

  static void launch(typename Kernel::Params &params, Scaling const &scaling, cudaStream_t stream) {
    params.alpha = scaling.alpha;
    params.beta = scaling.beta;
    params.activation = scaling.activation;
    int blocks = scaling.blocks;
    if (blocks <= 0) {
      int device = 0;
      int multiprocessors = 0;
      check(cudaGetDevice(&device), "the current device");
      check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "the device's number of multiprocessors");
      blocks = multiprocessors * Kernel::kMinBlocks;
    }
    blocks = blocks < params.tiles.tiles ? blocks : params.tiles.tiles;
    cutlass_ext::launch<Kernel>(params, dim3(unsigned(blocks)), stream);
  }
};

}  // namespace device
}  // namespace gemm
}  // namespace cutlass_ext
