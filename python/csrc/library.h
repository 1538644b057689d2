/// @file
/// A kernel library: a shared object whose exported functions are found and called by name.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace cutlass_ext {

/// Loads a kernel library and finds its functions.
///
/// Its symbols stay its own (RTLD_LOCAL): libraries may hold different versions of one function.
/// It is never unloaded: the CUDA runtime inside it registers work for the end of the process.
class Library {
 public:
  /// Throws std::runtime_error with the dynamic linker's message.
  explicit Library(std::string path) : path_(std::move(path)) {
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) {
      throw std::runtime_error("the kernel library can't be loaded: " + linker_message());
    }
  }

  std::string const &path() const { return path_; }

  bool has(char const *symbol) const { return dlsym(handle_, symbol) != nullptr; }

  /// The function's address; throws std::runtime_error where the library doesn't export it.
  template <class Function>
  Function *function(char const *symbol) const {
    void *address = dlsym(handle_, symbol);
    if (!address) {
      throw std::runtime_error("the kernel library has no such function: " + linker_message());
    }
    return reinterpret_cast<Function *>(address);
  }

 private:
  static std::string linker_message() {
    char const *message = dlerror();
    return message ? message : "unknown reason";
  }

  std::string path_;
  void *handle_ = nullptr;
};

}  // namespace cutlass_ext
