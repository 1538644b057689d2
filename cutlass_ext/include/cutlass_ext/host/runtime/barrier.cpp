#include "cutlass_ext/host/runtime/barrier.h"

#include <string.h>

#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host {

namespace {

char const *barrier_name(int id) {
  static char const *const names[Block::kBarriers] = {
      "bar.sync 0",  "bar.sync 1",  "bar.sync 2",  "bar.sync 3", "bar.sync 4",  "bar.sync 5",
      "bar.sync 6",  "bar.sync 7",  "bar.sync 8",  "bar.sync 9", "bar.sync 10", "bar.sync 11",
      "bar.sync 12", "bar.sync 13", "bar.sync 14", "bar.sync 15"};
  return names[id];
}

bool same_place(Location a, Location b) {
  return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void complete_if_full(Block &block, int slot, int id) {
  Barrier &barrier = block.barriers[id];
  int const needed = barrier.expected > 0 ? barrier.expected : block.alive;
  if (barrier.arrived == 0 || barrier.arrived < needed) {
    return;
  }
  ++statistics().barriers;
  HappensBefore::complete_barrier(slot, id, barrier.expected == 0);
  barrier.result = barrier.accumulated;
  barrier.accumulated = 0;
  barrier.arrived = 0;
  barrier.expected = 0;
  int const first_warp = slot * scheduler().warps_per_block();
  for (size_t warp = 0; warp < barrier.waiting.size(); ++warp) {
    scheduler().wake(first_warp + int(warp), barrier.waiting[warp]);
    barrier.waiting[warp] = 0;
  }
}

void arrive(int id, int count, Location where) {
  if (id < 0 || id >= Block::kBarriers) {
    scheduler().fail(text("barrier %d: there are %d", id, Block::kBarriers) + text(where));
  }
  if (count % 32 != 0 || count < 0) {
    scheduler().fail(text("barrier %d: the thread count %d is not a multiple of 32", id, count) +
                     text(where));
  }
  Barrier &barrier = scheduler().block().barriers[id];
  if (barrier.arrived == 0) {
    barrier.first = where;
    barrier.expected = count;
  } else if (barrier.expected != count) {
    scheduler().fail(text("barrier %d: this thread expects %d threads", id, count) + text(where) +
                     text(", another %d", barrier.expected) + text(barrier.first));
  }
  ++barrier.arrived;
  HappensBefore::arrive_barrier(id);
}

}  // namespace

void Barrier::reset(int warps) {
  *this = Barrier();
  waiting.assign(size_t(warps), 0);
}

void barrier_wait(int id, int count, Location where) {
  arrive(id, count, where);
  Scheduler &s = scheduler();
  Thread &self = s.current();
  s.block().barriers[id].waiting[size_t(self.index / 32)] |= 1u << self.lane;
  complete_if_full(s.block(), self.slot, id);
  s.wait(barrier_name(id), where);
  HappensBefore::leave_barrier(id);
}

void barrier_arrive(int id, int count, Location where) {
  arrive(id, count, where);
  complete_if_full(scheduler().block(), scheduler().current().slot, id);
}

void barriers_after_exit(Block &block) {
  for (int id = 0; id < Block::kBarriers; ++id) {
    if (block.barriers[id].expected == 0) {
      complete_if_full(block, scheduler().current().slot, id);
    }
  }
}

namespace device {

void synchronize_block(Location where) {
  // CUDA requires that all threads of a block reach the same __syncthreads().
  Barrier const &barrier = scheduler().block().barriers[0];
  if (barrier.arrived > 0 && !same_place(barrier.first, where)) {
    scheduler().fail("divergent __syncthreads(): this thread is at" + text(where) +
                     ", others wait at" + text(barrier.first));
  }
  barrier_wait(0, 0, where);
}

int synchronize_block(int predicate, Reduction reduction, Location where) {
  Barrier &barrier = scheduler().block().barriers[0];
  if (barrier.arrived == 0) {
    barrier.accumulated = reduction == Reduction::kAnd;
  }
  switch (reduction) {
    case Reduction::kAnd:
      barrier.accumulated &= predicate != 0;
      break;
    case Reduction::kOr:
      barrier.accumulated |= predicate != 0;
      break;
    case Reduction::kCount:
      barrier.accumulated += predicate != 0;
      break;
  }
  synchronize_block(where);
  return barrier.result;
}

}  // namespace device

}  // namespace cutlass_ext::host
