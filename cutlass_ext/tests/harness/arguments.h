/// @file
/// Arguments of exported test functions, read one after another.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>

#include "cutlass_ext/device/export.h"

namespace harness {

class Arguments {
 public:
  Arguments(cutlass_ext::Word const *words, int count, void *stream)
      : words_(words), count_(count), stream_(static_cast<cudaStream_t>(stream)) {}

  template <class T>
  T *pointer() {
    return static_cast<T *>(next().p);
  }
  int integer() { return int(next().i); }
  int64_t long_integer() { return next().i; }
  cudaStream_t stream() const { return stream_; }

 private:
  cutlass_ext::Word next() {
    if (position_ == count_) {
      throw std::invalid_argument("too few arguments");
    }
    return words_[position_++];
  }

  cutlass_ext::Word const *words_;
  int count_;
  int position_ = 0;
  cudaStream_t stream_;
};

}  // namespace harness
