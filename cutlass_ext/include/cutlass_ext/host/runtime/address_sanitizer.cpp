/// Turns a report of AddressSanitizer in a kernel into an error of the launch.

#if defined(__SANITIZE_ADDRESS__)

#include <sanitizer/asan_interface.h>

#include <string>

#include "cutlass_ext/host/runtime/scheduler.h"

namespace {

using namespace cutlass_ext::host;

// With halt_on_error=0 the process goes on after a report, and the launch ends at the next
// barrier; the report itself has been written to standard error.
void report_to_launch(char const *report) {
  if (!scheduler().running()) {
    return;
  }
  std::string const summary(report);
  size_t const begin = summary.find("ERROR: AddressSanitizer");
  size_t const end = summary.find(" thread T", begin);
  scheduler().report(begin == std::string::npos ? summary : summary.substr(begin, end - begin));
}

__attribute__((constructor)) void set_callback() {
  __asan_set_error_report_callback(report_to_launch);
}

}  // namespace

#endif
