/// @file
/// The limits of the architecture that a kernel library was built for.
#pragma once

#include <stddef.h>

namespace cutlass_ext::host {

/// Architecture (800 for sm_80) of the library that holds `object`.
int architecture_of(void const *object);

/// Bytes of shared memory that a block may have.
size_t shared_memory_limit(int architecture);

/// What cudaFuncSetAttribute has allowed `kernel`; 0 where it was not called.
size_t dynamic_shared_bytes_allowed(void const *kernel);

}  // namespace cutlass_ext::host
