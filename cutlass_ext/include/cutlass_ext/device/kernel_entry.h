/// @file
/// The entry function of a kernel that is a class.
#pragma once

namespace cutlass_ext {

/// Entry point of `Kernel`, a class with
///   kThreads, kMinBlocks     launch bounds: threads a block, blocks a multiprocessor
///   Params                   trivially copyable
///   SharedStorage            the block's shared memory
///   operator()(Params const &, SharedStorage &)
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kMinBlocks)
    kernel_entry(__grid_constant__ typename Kernel::Params const params) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage *>(shared_memory));
}

}  // namespace cutlass_ext
