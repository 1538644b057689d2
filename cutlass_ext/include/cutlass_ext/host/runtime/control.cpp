/// The runtime's interface for Python (ctypes): options, statistics, the access log.

#include <stdlib.h>
#include <string.h>

#include "cutlass_ext/host/options.h"
#include "cutlass_ext/host/runtime/observer.h"
#include "cutlass_ext/host/runtime/scheduler.h"

namespace cutlass_ext::host {

namespace {

// Options of a runtime that is loaded while a caller's options are in force: their bytes, in
// hexadecimal.
Options initial_options() {
  Options options;
  char const *text = getenv("CUTLASS_EXT_HOST_OPTIONS");
  if (text != nullptr && strlen(text) == 2 * sizeof(options)) {
    auto *bytes = reinterpret_cast<unsigned char *>(&options);
    for (size_t i = 0; i < sizeof(options); ++i) {
      char const digits[3] = {text[2 * i], text[2 * i + 1], 0};
      bytes[i] = static_cast<unsigned char>(strtoul(digits, nullptr, 16));
    }
  }
  return options;
}

Options options_instance = initial_options();

}  // namespace

Options &the_options = options_instance;

}  // namespace cutlass_ext::host

using namespace cutlass_ext::host;

extern "C" {

void cutlass_ext_host_get_options(Options *result) {
  *result = options();
}

void cutlass_ext_host_set_options(Options const *values) {
  options() = *values;
}

void cutlass_ext_host_statistics(Statistics *result) {
  *result = statistics();
}

void cutlass_ext_host_clear() {
  statistics() = Statistics();
  access_log().clear();
}

uint64_t cutlass_ext_host_log_size() {
  return access_log().size();
}

void cutlass_ext_host_read_log(Access *result) {
  memcpy(static_cast<void *>(result), access_log().data(), access_log().size() * sizeof(Access));
}

}  // extern "C"
