#include "cutlass_ext/host/runtime/observer.h"

#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/scheduler.h"

namespace cutlass_ext::host {

std::vector<Access> &access_log() {
  static std::vector<Access> log;
  return log;
}

void observe(AccessKind kind, void const *address, int bytes) {
  bool const log = options().log;
  if (!log && !HappensBefore::kEnabled) {
    return;
  }
  Scheduler &s = scheduler();
  if (s.is_private(address)) {
    return;
  }
  uint32_t offset = 0;
  bool const shared = s.block().shared.offset(address, offset);
  AddressSpace const space = shared ? AddressSpace::kShared : AddressSpace::kGlobal;
  if (log) {
    std::vector<Access> &entries = access_log();
    entries.push_back(Access{shared ? offset : uint64_t(uintptr_t(address)), entries.size(),
                             uint32_t(s.launch_index()), uint32_t(s.block().linear_index),
                             uint32_t(s.current().index), uint16_t(bytes), kind, space});
  }
  if (kind != AccessKind::kPrefetch) {
    HappensBefore::access(kind, space, address, offset, bytes);
  }
}

}  // namespace cutlass_ext::host
