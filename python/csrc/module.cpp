/// @file
/// The Python module `_C`: loads kernel libraries and calls their functions. It takes addresses,
/// strides and a stream handle, so that it depends on no version of PyTorch.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "attention.h"
#include "cutlass_ext/device/export.h"
#include "library.h"

namespace py = pybind11;

namespace cutlass_ext {
namespace {

using Exported = char const *(Word const *arguments, int count, void *stream);

/// A float becomes `.d`, anything that is an integer (also NumPy's) becomes `.i`.
Word to_word(py::handle value) {
  Word word;
  if (PyFloat_Check(value.ptr())) {
    word.d = PyFloat_AS_DOUBLE(value.ptr());
  } else {
    word.i = py::cast<int64_t>(value);
  }
  return word;
}

/// An exported function's message becomes RuntimeError.
void raise_if_failed(char const *message) {
  if (message) {
    throw std::runtime_error(message);
  }
}

void call(Library const &library, char const *symbol, py::sequence const &arguments,
          uintptr_t stream) {
  auto *function = library.function<Exported>(symbol);
  std::vector<Word> words;
  words.reserve(arguments.size());
  for (py::handle argument : arguments) {
    words.push_back(to_word(argument));
  }
  char const *message;
  {
    py::gil_scoped_release release;
    message = function(words.data(), int(words.size()), reinterpret_cast<void *>(stream));
  }
  raise_if_failed(message);
}

/// One attention forward of which only addresses and stream are open.
class AttentionForward {
 public:
  AttentionForward(Library const &library, char const *symbol, AttentionSizes const &sizes,
                   AttentionStrides const &query, AttentionStrides const &key,
                   AttentionStrides const &value, AttentionStrides const &output, float scale,
                   bool causal)
      : function_(library.function<Exported>(symbol)) {
    params_.query_stride = attention_strides(query);
    params_.key_stride = attention_strides(key);
    params_.value_stride = attention_strides(value);
    params_.output_stride = attention_strides(output);
    set_sizes(params_, sizes);
    params_.scale = scale;
    params_.causal = causal;
  }

  void operator()(uintptr_t query, uintptr_t key, uintptr_t value, uintptr_t output,
                  uintptr_t log_sum_exp, uintptr_t stream) const {
    fmha::ForwardParams params = params_;
    params.query = reinterpret_cast<void const *>(query);
    params.key = reinterpret_cast<void const *>(key);
    params.value = reinterpret_cast<void const *>(value);
    params.output = reinterpret_cast<void *>(output);
    params.log_sum_exp = reinterpret_cast<float *>(log_sum_exp);
    char const *message;
    {
      py::gil_scoped_release release;
      message = function_(&params, reinterpret_cast<void *>(stream));
    }
    raise_if_failed(message);
  }

 private:
  using Exported = char const *(fmha::ForwardParams const *, void *stream);
  Exported *function_;
  fmha::ForwardParams params_{};
};

}  // namespace
}  // namespace cutlass_ext

PYBIND11_MODULE(_C, module) {
  using cutlass_ext::Library;
  module.doc() = "Loads kernel libraries and calls their functions.";

  py::class_<Library>(module, "Library")
      .def(py::init<std::string>(), py::arg("path"),
           "Loads the shared library at `path`; RuntimeError with the dynamic linker's message.")
      .def_property_readonly("path", &Library::path)
      .def("has", &Library::has, py::arg("symbol"), "True where the library exports `symbol`.")
      .def("call", &cutlass_ext::call, py::arg("symbol"), py::arg("words"), py::arg("stream") = 0,
           "Calls an exported function `char const *symbol(cutlass_ext::Word const *, int count, "
           "void *stream)`: ints (addresses too) go to `.i`, floats to `.d`. A message that it "
           "returns is raised as RuntimeError. Other Python threads run meanwhile.");

  using cutlass_ext::AttentionForward;
  using cutlass_ext::AttentionSizes;
  using cutlass_ext::AttentionStrides;
  py::class_<AttentionForward>(module, "AttentionForward")
      .def(py::init<Library const &, char const *, AttentionSizes const &, AttentionStrides const &,
                    AttentionStrides const &, AttentionStrides const &, AttentionStrides const &,
                    float, bool>(),
           py::arg("library"), py::arg("symbol"), py::arg("sizes"), py::arg("query_strides"),
           py::arg("key_strides"), py::arg("value_strides"), py::arg("output_strides"),
           py::arg("scale"), py::arg("causal"),
           "An exported attention forward for `[B, M, H, K]` tensors. `sizes`: batch, heads, "
           "kv_heads, queries, keys, head_dim, value_dim. Strides: batch, row, head, in elements. "
           "ValueError for a size that doesn't fit 32 bits.")
      .def("__call__", &AttentionForward::operator(), py::arg("query"), py::arg("key"),
           py::arg("value"), py::arg("output"), py::arg("log_sum_exp"), py::arg("stream"),
           "Launches it with addresses (`log_sum_exp` may be 0) on a cudaStream_t; RuntimeError "
           "with the kernel's message.");
}
