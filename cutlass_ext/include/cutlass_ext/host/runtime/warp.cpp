#include "cutlass_ext/host/runtime/warp.h"

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host {

namespace {

Collective &find_or_begin(PendingCollectives &pending, unsigned mask, CollectiveKind const &kind,
                          void const *detail, Location where) {
  for (Collective &other : pending) {
    if ((other.mask & mask) == 0) {
      continue;
    }
    if (other.kind != &kind || other.detail != detail) {
      scheduler().fail(text("mismatched warp collectives: this lane executes %s", kind.name) +
                       text(where) + text(", others %s", other.kind->name) +
                       (other.kind == &kind ? " of another place" : ""));
    }
    if (other.mask != mask) {
      scheduler().fail(text("%s: this lane names the mask 0x%08x", kind.name, mask) + text(where) +
                       text(", others 0x%08x", other.mask));
    }
    return other;
  }
  pending.push_back(Collective{&kind, detail, mask, 0, {}});
  return pending.back();
}

// Runs a collective whose lanes have all come and takes it from the list.
void complete(PendingCollectives &pending, Collective &collective) {
  Collective finished = collective;
  pending.erase(pending.begin() + (&collective - pending.data()));
  if (finished.kind->execute) {
    finished.kind->execute(finished);
  }
}

// Of a full-warp instruction every lane must come; elsewhere those that returned are not missed.
bool is_complete(Collective const &collective, unsigned alive) {
  unsigned const needed = collective.kind->full_warp ? collective.mask : collective.mask & alive;
  return (collective.arrived & needed) == needed;
}

}  // namespace

void meet(unsigned mask, CollectiveKind const &kind, void const *detail, void *argument,
          Location where) {
  Scheduler &s = scheduler();
  Thread &self = s.current();
  unsigned const lane = 1u << self.lane;
  ++statistics().collectives;
  if ((mask & lane) == 0) {
    s.fail(text("%s: the mask 0x%08x does not name the lane that executes it, %d", kind.name, mask,
                self.lane) +
           text(where));
  }
  PendingCollectives &pending = s.collectives(self.warp);
  Collective &collective = find_or_begin(pending, mask, kind, detail, where);
  collective.arguments[self.lane] = argument;
  collective.arrived |= lane;
  if (is_complete(collective, s.alive(self.warp))) {
    unsigned const others = collective.arrived & ~lane;
    complete(pending, collective);
    s.wake(self.warp, others);
    s.maybe_yield(kind.name, where);
  } else {
    s.wait(kind.name, where);
  }
}

void collectives_after_exit(Thread &thread) {
  PendingCollectives &pending = scheduler().collectives(thread.warp);
  for (size_t i = 0; i < pending.size();) {
    unsigned const arrived = pending[i].arrived;
    if (is_complete(pending[i], scheduler().alive(thread.warp))) {
      complete(pending, pending[i]);
      scheduler().wake(thread.warp, arrived);
    } else {
      ++i;
    }
  }
}

// ---- the collectives that CUDA has functions for ----

namespace {

struct BallotArgument {
  bool predicate;
  unsigned result;
};

void execute_ballot(Collective &collective) {
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) {
    auto const *argument = static_cast<BallotArgument *>(collective.arguments[lane]);
    result |= argument && argument->predicate ? 1u << lane : 0u;
  }
  for (void *argument : collective.arguments) {
    if (argument) {
      static_cast<BallotArgument *>(argument)->result = result;
    }
  }
}

struct ShuffleArgument {
  uint64_t value;
  uint64_t result;
  int source;
};

void execute_shuffle(Collective &collective) {
  for (int lane = 0; lane < 32; ++lane) {
    auto *argument = static_cast<ShuffleArgument *>(collective.arguments[lane]);
    if (argument == nullptr) {
      continue;
    }
    auto const *source =
        static_cast<ShuffleArgument *>(collective.arguments[argument->source & 31]);
    if (source == nullptr) {
      scheduler().fail(text("shuffle: lane %d reads lane %d, which does not take part", lane,
                            argument->source & 31));
    }
    argument->result = source->value;
  }
}

void execute_syncwarp(Collective &collective) {
  HappensBefore::synchronize_lanes(collective.arrived);
}

constexpr CollectiveKind kBallot{"vote", execute_ballot, false};
constexpr CollectiveKind kShuffle{"shuffle", execute_shuffle, false};
constexpr CollectiveKind kSyncwarp{"__syncwarp", execute_syncwarp, false};

}  // namespace

namespace device {

int lane() {
  return scheduler().current().lane;
}

void synchronize_warp(unsigned mask, Location where) {
  static char argument;
  meet(mask, kSyncwarp, nullptr, &argument, where);
}

unsigned ballot(unsigned mask, int predicate, Location where) {
  BallotArgument argument{predicate != 0, 0};
  meet(mask, kBallot, nullptr, &argument, where);
  return argument.result;
}

uint64_t shuffle(unsigned mask, uint64_t value, int source_lane, Location where) {
  ShuffleArgument argument{value, 0, source_lane};
  meet(mask, kShuffle, nullptr, &argument, where);
  return argument.result;
}

}  // namespace device

}  // namespace cutlass_ext::host
