#include "cutlass_ext/host/runtime/happens_before.h"

#if defined(CUTLASS_EXT_HOST_INSTRUMENTED)

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/shadow.h"
#include "cutlass_ext/host/runtime/text.h"
#include "cutlass_ext/host/runtime/vector_clock.h"

// A read races with a write, and a write with any access, of another thread that does not happen
// before it. Atomic accesses do not race with each other. Happens-before is the order of each
// thread, and between threads what barriers, __syncwarp and acquire/release bring: it does not
// depend on the order in which the threads happened to run.

namespace cutlass_ext::host {

namespace {

struct ThreadClock {
  VectorClock now;
  std::optional<VectorClock> fenced;    ///< at the last fence: what a relaxed store releases
  std::optional<VectorClock> acquired;  ///< by relaxed loads: takes effect at the next fence
};

struct BarrierClock {
  VectorClock gathering;  ///< of those that have arrived
  VectorClock complete;   ///< of the last phase
};

struct BlockClocks {
  std::vector<ThreadClock> threads;
  BarrierClock barriers[Block::kBarriers];
  std::vector<Cell> shared;
  uint32_t generation = 0;
};

// The state of the launch that runs.
struct State {
  int threads_per_block = 0;
  std::vector<BlockClocks> blocks;
  EventTable events;
  GlobalShadow global;
  std::unordered_map<uintptr_t, VectorClock> released;  ///< by the address of the flag
};

State state;

Thread &self() {
  return scheduler().current();
}
BlockClocks &block() {
  return state.blocks[size_t(self().slot)];
}
ThreadClock &thread_clock() {
  return block().threads[size_t(self().index)];
}

// The thread's next accesses come after what others have just learnt of it.
void advance(ThreadClock &clock, int thread) {
  ++clock.now.own(thread);
}

bool happens_before_now(Event const &event) {
  if (event.block == scheduler().block().linear_index && event.thread == self().index) {
    return true;
  }
  return event.time <= thread_clock().now.at(event.block, event.thread);
}

// What is being accessed, for a message.
struct Place {
  AddressSpace space;
  uintptr_t address;
  uint32_t offset;  ///< of shared memory

  std::string name(int byte) const {
    return space == AddressSpace::kShared
               ? text("shared memory + 0x%x", offset + uint32_t(byte))
               : text("global memory at 0x%llx",
                      static_cast<unsigned long long>(address + uintptr_t(byte)));
  }
};

void report(char const *access, Place const &place, int byte, Event const &other) {
  static char const *const verbs[] = {"read", "wrote", "atomically accessed", "copied to"};
  std::string const who =
      text("block %llu thread %d", static_cast<unsigned long long>(other.block), int(other.thread));
  if (other.kind == Event::Kind::kPendingCopy) {
    scheduler().report(std::string(access) + " of " + place.name(byte) +
                       ", to which a cp.async of " + who +
                       " is in flight: it has not been waited for");
  } else {
    scheduler().report(std::string("data race: ") + access + " of " + place.name(byte) +
                       ", which " + who + " " + verbs[int(other.kind)] +
                       "; nothing orders the one after the other");
  }
}

// Reports what in a history does not happen before now; false where it has.
bool check_history(uint32_t history, Event::Kind kind, char const *access, Place const &place,
                   int byte) {
  for (uint32_t index = history; index != 0; index = state.events[index].previous) {
    Event const &event = state.events[index];
    bool const both_atomic = kind == Event::Kind::kAtomic && event.kind == Event::Kind::kAtomic;
    if (event.kind == Event::Kind::kPendingCopy || (!both_atomic && !happens_before_now(event))) {
      report(access, place, byte, event);
      return false;
    }
  }
  return true;
}

Event event_now(Event::Kind kind) {
  uint64_t const block_index = scheduler().block().linear_index;
  return Event{0,
               thread_clock().now.own(self().index),
               block().generation,
               uint16_t(self().index),
               kind,
               true,
               block_index};
}

// Adds an event to those that a byte remembers. What a barrier of the whole block has ordered
// before everything that follows is dropped; so is an older event of the same thread.
uint32_t append(uint32_t history, Event::Kind kind) {
  Event event = event_now(kind);
  if (history != 0) {
    Event const &last = state.events[history];
    bool const same_thread = last.block == event.block && last.thread == event.thread;
    bool const outdated =
        last.one_block && last.block == event.block && last.generation < event.generation;
    event.previous = outdated ? 0 : same_thread ? last.previous : history;
    if (event.previous != 0) {
      Event const &before = state.events[event.previous];
      event.one_block = before.one_block && before.block == event.block;
    }
  }
  return state.events.intern(event);
}

// One run of bytes that were accessed alike so far.
bool access_run(AccessKind access, Place const &place, int byte, Cell &cell) {
  using Kind = Event::Kind;
  switch (access) {
    case AccessKind::kLoad:
      if (!check_history(cell.writes, Kind::kRead, "read", place, byte)) {
        return false;
      }
      if (place.space == AddressSpace::kShared && cell.writes == 0 &&
          options().report_uninitialized) {
        scheduler().report("read of " + place.name(byte) + ", which nothing has written");
        return false;
      }
      cell.reads = append(cell.reads, Kind::kRead);
      return true;
    case AccessKind::kAtomic: {
      if (!check_history(cell.writes, Kind::kAtomic, "atomic access", place, byte) ||
          !check_history(cell.reads, Kind::kAtomic, "atomic access", place, byte)) {
        return false;
      }
      bool const after_atomic = cell.writes != 0 && state.events[cell.writes].kind == Kind::kAtomic;
      cell.writes = append(after_atomic ? cell.writes : 0, Kind::kAtomic);
      return true;
    }
    default: {
      bool const copy = access == AccessKind::kAsyncCopy;
      char const *name = copy ? "cp.async write" : "write";
      if (!check_history(cell.writes, Kind::kWrite, name, place, byte) ||
          !check_history(cell.reads, Kind::kWrite, name, place, byte)) {
        return false;
      }
      cell.writes = state.events.intern(event_now(copy ? Kind::kPendingCopy : Kind::kWrite));
      cell.reads = 0;
      return true;
    }
  }
}

// Calls `visit(first, count, cells)` for the cells of `bytes` bytes.
template <class Visit>
void for_cells(Place const &place, int bytes, Visit visit) {
  if (place.space == AddressSpace::kShared) {
    std::vector<Cell> &cells = block().shared;
    if (cells.size() < place.offset + size_t(bytes)) {
      cells.resize(std::max(scheduler().block().shared.extent(), place.offset + size_t(bytes)));
    }
    visit(0, bytes, cells.data() + place.offset);
    return;
  }
  for (int first = 0; first < bytes;) {
    uintptr_t const address = place.address + uintptr_t(first);
    int const in_page = int(GlobalShadow::kPageBytes - address % GlobalShadow::kPageBytes);
    int const count = std::min(bytes - first, in_page);
    visit(first, count, state.global.cells(address));
    first += count;
  }
}

}  // namespace

void HappensBefore::begin_launch(int threads_per_block) {
  state = State();
  state.threads_per_block = threads_per_block;
}

void HappensBefore::end_launch() {
  state = State();
}

void HappensBefore::begin_block(int slot, uint64_t linear_index) {
  if (state.blocks.size() <= size_t(slot)) {
    state.blocks.resize(size_t(slot) + 1);
  }
  BlockClocks &clocks = state.blocks[size_t(slot)];
  VectorClock const zero(linear_index, state.threads_per_block);
  clocks.threads.assign(size_t(state.threads_per_block), ThreadClock{zero, {}, {}});
  for (int thread = 0; thread < state.threads_per_block; ++thread) {
    clocks.threads[size_t(thread)].now.own(thread) = 1;
  }
  for (BarrierClock &barrier : clocks.barriers) {
    barrier.gathering = barrier.complete = zero;
  }
  clocks.shared.clear();
  clocks.generation = 0;
}

void HappensBefore::access(AccessKind kind, AddressSpace space, void const *address,
                           uint32_t shared_offset, int bytes) {
  Place const place{space, uintptr_t(address), shared_offset};
  // A copy's source is only read.
  if (kind == AccessKind::kAsyncCopy && space == AddressSpace::kGlobal) {
    kind = AccessKind::kLoad;
  }
  for_cells(place, bytes, [&](int first, int count, Cell *cells) {
    for (int i = 0; i < count;) {
      int end = i + 1;
      while (end < count && cells[end] == cells[i]) {
        ++end;
      }
      Cell cell = cells[i];
      if (!access_run(kind, place, first + i, cell)) {
        return;
      }
      std::fill(cells + i, cells + end, cell);
      i = end;
    }
  });
}

void HappensBefore::complete_copy(void const *destination, int bytes) {
  uint32_t offset = 0;
  scheduler().block().shared.offset(destination, offset);
  uint32_t const written = state.events.intern(event_now(Event::Kind::kWrite));
  for_cells(Place{AddressSpace::kShared, uintptr_t(destination), offset}, bytes,
            [&](int, int count, Cell *cells) {
              for (int i = 0; i < count; ++i) {
                Event const &event = state.events[cells[i].writes];
                if (event.kind == Event::Kind::kPendingCopy && event.thread == self().index) {
                  cells[i].writes = written;
                }
              }
            });
}

// ---- order between threads ----

void HappensBefore::arrive_barrier(int id) {
  block().barriers[id].gathering.join(thread_clock().now);
  advance(thread_clock(), self().index);
}

void HappensBefore::complete_barrier(int slot, int id, bool whole_block) {
  BlockClocks &clocks = state.blocks[size_t(slot)];
  BarrierClock &barrier = clocks.barriers[id];
  barrier.complete = std::move(barrier.gathering);
  barrier.gathering = VectorClock(barrier.complete.block(), state.threads_per_block);
  // The threads that returned did not arrive: what they did is not ordered before what follows.
  if (whole_block && scheduler().block(slot).alive == state.threads_per_block) {
    ++clocks.generation;
  }
}

void HappensBefore::leave_barrier(int id) {
  ThreadClock &clock = thread_clock();
  clock.now.join(block().barriers[id].complete);
  // What relaxed loads have seen takes effect, too: a thread reads a flag, a barrier tells the
  // rest.
  if (clock.acquired) {
    clock.now.join(*clock.acquired);
    clock.acquired.reset();
  }
}

void HappensBefore::synchronize_lanes(unsigned lanes) {
  int const first = self().index / 32 * 32;
  VectorClock joint = thread_clock().now;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    joint.join(block().threads[size_t(first + __builtin_ctz(rest))].now);
  }
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    int const thread = first + __builtin_ctz(rest);
    ThreadClock &clock = block().threads[size_t(thread)];
    clock.now.join(joint);
    advance(clock, thread);
  }
}

// A flag's address carries what its writers have released.

void HappensBefore::acquire(void const *address, bool ordered) {
  auto const found = state.released.find(uintptr_t(address));
  if (found == state.released.end()) {
    return;
  }
  ThreadClock &clock = thread_clock();
  if (ordered) {
    clock.now.join(found->second);
    return;
  }
  if (!clock.acquired) {
    clock.acquired = VectorClock(clock.now.block(), state.threads_per_block);
  }
  clock.acquired->join(found->second);
}

void HappensBefore::release(void const *address, bool ordered) {
  ThreadClock &clock = thread_clock();
  VectorClock const *what = ordered ? &clock.now : clock.fenced ? &*clock.fenced : nullptr;
  if (what == nullptr) {
    return;
  }
  auto const [position, added] = state.released.try_emplace(
      uintptr_t(address), VectorClock(clock.now.block(), state.threads_per_block));
  position->second.join(*what);
  advance(clock, self().index);
}

void HappensBefore::atomic(void const *address) {
  acquire(address, false);
  release(address, false);
}

void HappensBefore::fence() {
  ThreadClock &clock = thread_clock();
  if (clock.acquired) {
    clock.now.join(*clock.acquired);
    clock.acquired.reset();
  }
  clock.fenced = clock.now;
}

}  // namespace cutlass_ext::host

#endif
