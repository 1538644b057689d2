#include "cutlass_ext/host/builtins.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/scheduler.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host::ptx {

namespace {

uint64_t special(Special which) {
  switch (which) {
    case Special::kLane:
      return uint64_t(scheduler().current().lane);
    case Special::kWarp:
      return uint64_t(scheduler().current().index / 32);
    case Special::kMultiprocessor:
      return uint64_t(scheduler().current().slot);
    case Special::kThreadX:
      return threadIdx.x;
    case Special::kThreadY:
      return threadIdx.y;
    case Special::kThreadZ:
      return threadIdx.z;
    case Special::kBlockX:
      return blockIdx.x;
    case Special::kBlockY:
      return blockIdx.y;
    case Special::kBlockZ:
      return blockIdx.z;
    case Special::kBlockExtentX:
      return blockDim.x;
    case Special::kBlockExtentY:
      return blockDim.y;
    case Special::kBlockExtentZ:
      return blockDim.z;
    case Special::kGridExtentX:
      return gridDim.x;
    case Special::kGridExtentY:
      return gridDim.y;
    case Special::kGridExtentZ:
      return gridDim.z;
    case Special::kClock:
      return statistics().switches;  // advances; there is no time
  }
  return 0;
}

}  // namespace

uint64_t Frame::read_other(Term const &term) const {
  switch (term.kind) {
    case Term::Kind::kSpecial:
      return special(Special(term.index));
    case Term::Kind::kMemory:
      return read(term.terms[0]) + term.immediate;
    default:
      throw Error("inline PTX: '" + term.name + "' is not a value" + text(program.where));
  }
}

void Frame::write_other(Term const &term, uint64_t) {
  if (term.kind != Term::Kind::kSink) {
    throw Error("inline PTX: '" + term.name + "' cannot be written" + text(program.where));
  }
}

void Frame::run() {
  Instruction const *code = program.code.data();
  size_t const count = program.code.size();
  while (next < count) {
    Instruction const &instruction = code[next++];
    if (instruction.predicated && (read(instruction.predicate) != 0) == instruction.negated) {
      continue;
    }
    instruction.handler(*this, instruction);
  }
}

void execute(Site &site, Operand *operands) {
  if (site.program == nullptr) {
    site.program = parse(site);
  }
  if (site.program->needs_thread) {
    if (!scheduler().running()) {
      throw Error("inline PTX outside a kernel: " + std::string(site.text) + text(site.where));
    }
    scheduler().throw_if_abandoned();
  }
  Frame(*site.program, operands).run();
}

}  // namespace cutlass_ext::host::ptx
