/// @file
/// Where every access that the runtime knows of passes: the log and the race check.
#pragma once

#include <stdint.h>

#include <vector>

#include "cutlass_ext/host/options.h"

namespace cutlass_ext::host {

/// An access by the calling thread that starts at `address`, in whichever space that lies.
void observe(AccessKind kind, void const *address, int bytes);

/// The accesses since the log was last cleared.
std::vector<Access> &access_log();

}  // namespace cutlass_ext::host
