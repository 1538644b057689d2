/// ld, st, cp.async, prefetch.

#include "cutlass_ext/host/ptx/address.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/observer.h"

namespace cutlass_ext::host::ptx {

namespace {

// Strength of a load or store.
constexpr int kWeak = 0;
constexpr int kRelaxed = 1;  // also .volatile
constexpr int kOrdered = 2;  // .acquire, .release

Term const &element(Term const &term, int index) {
  return term.kind == Term::Kind::kVector ? term.terms[size_t(index)] : term;
}

void load(Frame &frame, Instruction const &i) {
  int const bytes = i.type.bits / 8;
  char const *pointer = memory_pointer(frame, i, i.operands[1], bytes * i.vector);
  if (i.variant != kWeak) {
    scheduler().spin(frame.program.where);
  }
  observe(i.variant == kWeak ? AccessKind::kLoad : AccessKind::kAtomic, pointer, bytes * i.vector);
  if (i.variant != kWeak) {
    HappensBefore::acquire(pointer, i.variant == kOrdered);
  }
  for (int n = 0; n < i.vector; ++n) {
    uint64_t value = 0;
    memcpy(&value, pointer + n * bytes, size_t(bytes));
    if (i.type.kind == Type::Kind::kSigned && bytes < 8) {
      value = uint64_t(int64_t(value << (64 - i.type.bits)) >> (64 - i.type.bits));
    }
    frame.write(element(i.operands[0], n), value);
  }
}

void store(Frame &frame, Instruction const &i) {
  int const bytes = i.type.bits / 8;
  char *pointer = memory_pointer(frame, i, i.operands[0], bytes * i.vector);
  observe(i.variant == kWeak ? AccessKind::kStore : AccessKind::kAtomic, pointer, bytes * i.vector);
  if (i.variant != kWeak) {
    HappensBefore::release(pointer, i.variant == kOrdered);
  }
  for (int n = 0; n < i.vector; ++n) {
    uint64_t const value = frame.read(element(i.operands[1], n));
    memcpy(pointer + n * bytes, &value, size_t(bytes));
  }
  scheduler().progress();
}

// cp.async.ca.shared.global [destination], [source], bytes {, source_bytes}
void copy_async(Frame &frame, Instruction const &i) {
  uint32_t const destination = frame.read32(i.operands[0]);
  uint64_t const source = frame.read(i.operands[1]);
  int const bytes = int(frame.read(i.operands[2]));
  int const source_bytes = i.operands.size() > 3 ? int(frame.read32(i.operands[3])) : bytes;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || (i.has("cg") && bytes != 16)) {
    fail(frame, i, text("a copy of %d bytes", bytes));
  }
  if (source_bytes < 0 || source_bytes > bytes) {
    fail(frame, i, text("%d source bytes of %d", source_bytes, bytes));
  }
  check_alignment(frame, i, destination, bytes);
  if (source_bytes > 0) {
    check_alignment(frame, i, source, bytes);
  }
  scheduler().current().copies.issue(shared_pointer(frame, i, destination, bytes),
                                     reinterpret_cast<char const *>(source), bytes, source_bytes);
}

void commit_group(Frame &, Instruction const &) {
  scheduler().current().copies.commit();
}

void wait_group(Frame &frame, Instruction const &i) {
  scheduler().current().copies.wait_group(int(frame.read(i.operands[0])));
}

void wait_all(Frame &, Instruction const &) {
  scheduler().current().copies.wait_all();
}

void prefetch(Frame &frame, Instruction const &i) {
  observe(AccessKind::kPrefetch, reinterpret_cast<void const *>(frame.read(i.operands[0])), 1);
}

Handler decode_copy(Instruction const &i) {
  if (i.modifiers.size() < 2 || i.modifiers[0] != "async") {
    return nullptr;
  }
  std::string const &what = i.modifiers[1];
  if (what == "ca" || what == "cg") {
    return copy_async;
  }
  if (i.modifiers.size() != 2) {
    return nullptr;
  }
  return what == "commit_group" ? commit_group
         : what == "wait_group" ? wait_group
         : what == "wait_all"   ? wait_all
                                : nullptr;
}

bool is_known_space(Instruction const &i) {
  for (char const *other : {"param", "local", "const", "shared::cluster"}) {
    if (i.has(other)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool decode_memory(Instruction &i) {
  if (i.opcode == "cp") {
    i.handler = decode_copy(i);
  } else if (i.opcode == "prefetch" || i.opcode == "prefetchu") {
    i.handler = prefetch;
  } else if ((i.opcode == "ld" || i.opcode == "st") && i.type.bits <= 64 && is_known_space(i) &&
             !i.has("async")) {
    i.handler = i.opcode == "ld" ? load : store;
    i.variant = i.has("acquire") || i.has("release")    ? kOrdered
                : i.has("volatile") || i.has("relaxed") ? kRelaxed
                                                        : kWeak;
  }
  i.needs_thread = i.handler != nullptr;
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
