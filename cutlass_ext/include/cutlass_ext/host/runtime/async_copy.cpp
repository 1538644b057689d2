#include "cutlass_ext/host/runtime/async_copy.h"

#include <string.h>

#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/observer.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host {

void AsyncCopies::issue(char *destination, char const *source, int bytes, int source_bytes) {
  ++statistics().async_copies;
  if (source_bytes > 0) {
    observe(AccessKind::kAsyncCopy, source, source_bytes);
  }
  observe(AccessKind::kAsyncCopy, destination, bytes);
  Copy copy{destination, source, uint8_t(bytes), uint8_t(source_bytes), group_, {}};
  memcpy(copy.snapshot, source, size_t(source_bytes));
  memset(copy.snapshot + source_bytes, 0, size_t(bytes - source_bytes));
  if (options().eager_copies) {
    memcpy(destination, copy.snapshot, size_t(bytes));
  } else {
    memset(destination, options().poison, size_t(bytes));
  }
  copies_.push_back(copy);
}

void AsyncCopies::commit() {
  ++group_;
}

void AsyncCopies::wait_group(int pending) {
  if (group_ > uint32_t(pending)) {
    complete_before(group_ - uint32_t(pending));
  }
}

void AsyncCopies::wait_all() {
  complete_before(group_ + 1);
}

void AsyncCopies::clear() {
  copies_.clear();
  group_ = 0;
}

void AsyncCopies::complete_before(uint32_t group) {
  size_t count = 0;
  while (count < copies_.size() && copies_[count].group < group) {
    complete(copies_[count]);
    ++count;
  }
  copies_.erase(copies_.begin(), copies_.begin() + ptrdiff_t(count));
}

void AsyncCopies::complete(Copy const &copy) {
  if (memcmp(copy.source, copy.snapshot, copy.source_bytes) != 0) {
    scheduler().fail("cp.async: the source changed between the copy's issue and its wait");
  }
  if (!options().eager_copies) {
    memcpy(copy.destination, copy.snapshot, copy.bytes);
  }
  HappensBefore::complete_copy(copy.destination, copy.bytes);
}

}  // namespace cutlass_ext::host
