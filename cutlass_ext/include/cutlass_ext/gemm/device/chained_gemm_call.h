/// @file
/// Chained products as exported functions of a kernel library, called by position.
#pragma once

#include <stdexcept>

#include "cutlass_ext/device/export.h"
#include "cutlass_ext/gemm/device/chained_gemm.h"

namespace cutlass_ext {
namespace gemm {
namespace device {

namespace detail {

/// Words, read one after another.
class WordReader {
 public:
  WordReader(Word const *words, int count, int expected) : next_(words) {
    if (count != expected) {
      throw std::invalid_argument("chained GEMM takes " + std::to_string(expected) +
                                  " arguments and was given " + std::to_string(count));
    }
  }

  template <class T>
  void operator()(T *&value) {
    value = static_cast<T *>((next_++)->p);
  }
  void operator()(int64_t &value) { value = (next_++)->i; }
  void operator()(int &value) {
    int64_t const word = (next_++)->i;
    if (word != int(word)) {
      throw std::invalid_argument("chained GEMM: an extent does not fit in 32 bits");
    }
    value = int(word);
  }
  void operator()(float &value) { value = float((next_++)->d); }

 private:
  Word const *next_;
};

template <class Scaling>
void read_scaling(WordReader &read, Scaling &scaling) {
  int activation;
  read(scaling.alpha);
  read(scaling.beta);
  read(activation);
  read(scaling.blocks);
  scaling.activation.kind = static_cast<epilogue::thread::ActivationKind>(activation);
}

}  // namespace detail

/// A batch: a, b0, b1, bias0, source, output; their row strides without bias0's; m, n0, k0, n1; the
/// batch's count and strides in the order of the addresses; alpha, beta, activation, blocks.
template <class Kernel>
char const *chained_gemm(Word const *words, int count, void *stream) {
  return guarded([&] {
    typename ChainedGemm<Kernel>::Arguments arguments;
    detail::WordReader read(words, count, 26);
    auto &p = arguments.problem;
    for (void const **pointer : {&p.a, &p.b0, &p.b1, &p.bias0, &p.source}) {
      read(*pointer);
    }
    read(p.output);
    for (int64_t *stride :
         {&p.stride_a, &p.stride_b0, &p.stride_b1, &p.stride_source, &p.stride_output}) {
      read(*stride);
    }
    for (int *extent : {&p.m, &p.n0, &p.k0, &p.n1, &arguments.batch.count}) {
      read(*extent);
    }
    auto &batch = arguments.batch;
    for (int64_t *stride :
         {&batch.a, &batch.b0, &batch.b1, &batch.bias0, &batch.source, &batch.output}) {
      read(*stride);
    }
    detail::read_scaling(read, arguments.scaling);
    ChainedGemm<Kernel>::run(arguments, static_cast<cudaStream_t>(stream));
  });
}

/// A list: address of an array of kernel::ChainedGemmProblem in host memory, its length, device
/// memory for ChainedGemm::workspace_size() bytes; alpha, beta, activation, blocks.
template <class Kernel>
char const *grouped_chained_gemm(Word const *words, int count, void *stream) {
  return guarded([&] {
    typename ChainedGemm<Kernel>::GroupedArguments arguments;
    detail::WordReader read(words, count, 7);
    read(arguments.problems);
    read(arguments.count);
    read(arguments.workspace);
    detail::read_scaling(read, arguments.scaling);
    ChainedGemm<Kernel>::run(arguments, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace device
}  // namespace gemm
}  // namespace cutlass_ext
