/// Barriers, fences, votes, shuffles, traps.

#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/ptx/address.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/barrier.h"
#include "cutlass_ext/host/runtime/happens_before.h"

namespace cutlass_ext::host::ptx {

namespace {

int optional_count(Frame const &frame, Instruction const &i) {
  return i.operands.size() > 1 ? int(frame.read32(i.operands[1])) : 0;
}

void barrier_sync(Frame &frame, Instruction const &i) {
  barrier_wait(int(frame.read32(i.operands[0])), optional_count(frame, i), frame.program.where);
}

void barrier_arrive_only(Frame &frame, Instruction const &i) {
  barrier_arrive(int(frame.read32(i.operands[0])), optional_count(frame, i), frame.program.where);
}

void warp_sync(Frame &frame, Instruction const &i) {
  device::synchronize_warp(frame.read32(i.operands[0]), frame.program.where);
}

void memory_fence(Frame &, Instruction const &) {
  HappensBefore::fence();
}

void do_nothing(Frame &, Instruction const &) {}

void trap(Frame &frame, Instruction const &i) {
  fail(frame, i, "reached");
}

// vote.sync.ballot.b32 d, predicate, mask
void vote_ballot(Frame &frame, Instruction const &i) {
  frame.write(i.operands[0],
              device::ballot(frame.read32(i.operands[2]), int(frame.read(i.operands[1]) != 0),
                             frame.program.where));
}

enum Shuffle { kUp, kDown, kButterfly, kIndex };

// shfl.sync.mode.b32 d{|p}, a, b, c, mask: c holds a clamp and, from bit 8, a segment mask.
void shuffle(Frame &frame, Instruction const &i) {
  uint32_t const b = frame.read32(i.operands[2]);
  uint32_t const c = frame.read32(i.operands[3]);
  int const lane = device::lane();
  int const segment = int(c >> 8 & 31);
  int const lowest = lane & segment;
  int const clamp = int(c & 31);
  int const highest = lowest | (clamp & ~segment);
  int source = lane;
  bool inside = true;
  switch (Shuffle(i.variant)) {
    case kUp:
      source = lane - int(b & 31);
      inside = source >= highest;
      break;
    case kDown:
      source = lane + int(b & 31);
      inside = source <= highest;
      break;
    case kButterfly:
      source = lane ^ int(b & 31);
      inside = source <= highest;
      break;
    case kIndex:
      source = lowest | (int(b & 31) & ~segment);
      inside = source <= highest;
      break;
  }
  uint64_t const value = device::shuffle(frame.read32(i.operands[4]), frame.read(i.operands[1]),
                                         inside ? source : lane, frame.program.where);
  Term const &destination = i.operands[0];
  bool const pair = destination.kind == Term::Kind::kVector;
  frame.write(pair ? destination.terms[0] : destination, value);
  if (pair) {
    frame.write(destination.terms[1], inside);
  }
}

Handler decode_barrier(Instruction const &i) {
  if (i.modifiers.empty()) {
    return nullptr;
  }
  std::string const &what = i.modifiers[0];
  if (what == "warp") {
    return i.has("sync") ? warp_sync : nullptr;
  }
  if (i.has("cluster") || i.has("red")) {
    return nullptr;
  }
  // Also bar.cta.sync.
  return i.has("sync") ? barrier_sync : i.has("arrive") ? barrier_arrive_only : nullptr;
}

bool decode_shuffle(Instruction &i) {
  if (i.operands.size() != 5 || i.modifiers.size() < 2) {
    return false;
  }
  std::string const &mode = i.modifiers[1];
  i.variant = mode == "up" ? kUp : mode == "down" ? kDown : mode == "bfly" ? kButterfly : kIndex;
  i.handler = shuffle;
  return true;
}

}  // namespace

bool decode_synchronization(Instruction &i) {
  if (i.opcode == "bar" || i.opcode == "barrier") {
    i.handler = decode_barrier(i);
  } else if ((i.opcode == "fence" && !i.has("proxy")) || i.opcode == "membar") {
    i.handler = memory_fence;
  } else if (i.opcode == "nanosleep") {
    i.handler = do_nothing;
  } else if (i.opcode == "trap" || i.opcode == "brkpt") {
    i.handler = trap;
  } else if (i.opcode == "vote" && i.has("ballot")) {
    i.handler = vote_ballot;
  } else if (i.opcode == "shfl") {
    decode_shuffle(i);
  }
  i.needs_thread = i.handler != nullptr;
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
