/// ldmatrix and movmatrix: 8x8 matrices of 16-bit elements, spread over the lanes of a warp.
///
/// Lane 4r + c holds elements (r, 2c) and (r, 2c + 1) of a matrix, in the low and the high half of
/// a register.

#include "cutlass_ext/host/ptx/address.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/observer.h"
#include "cutlass_ext/host/runtime/warp.h"

namespace cutlass_ext::host::ptx {

namespace {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kRows = 8;
constexpr int kRowBytes = 16;
constexpr int kMaxMatrices = 4;

struct LoadArgument {
  Instruction const *instruction;
  char const *row;  ///< of lane 8m + r: row r of matrix m
  uint32_t registers[kMaxMatrices];
};

// Turns the rows of one matrix, given as registers by lane, into those of its transpose.
void transpose(uint32_t (&registers)[32]) {
  uint16_t elements[kRows][kRows];
  memcpy(elements, registers, sizeof(elements));
  uint16_t transposed[kRows][kRows];
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kRows; ++column) {
      transposed[column][row] = elements[row][column];
    }
  }
  memcpy(registers, transposed, sizeof(transposed));
}

void load_matrices(Collective &collective) {
  auto *arguments = reinterpret_cast<LoadArgument **>(collective.arguments);
  Instruction const &instruction = *arguments[0]->instruction;
  int const matrices = instruction.vector;
  bool const transposed = instruction.variant;
  for (int matrix = 0; matrix < matrices; ++matrix) {
    uint32_t registers[32];
    for (int row = 0; row < kRows; ++row) {
      memcpy(registers + 4 * row, arguments[kRows * matrix + row]->row, kRowBytes);
    }
    if (transposed) {
      transpose(registers);
    }
    for (int lane = 0; lane < 32; ++lane) {
      arguments[lane]->registers[matrix] = registers[lane];
    }
  }
}

constexpr CollectiveKind kLoadMatrices{"ldmatrix", load_matrices, true};

void ldmatrix(Frame &frame, Instruction const &i) {
  LoadArgument argument{&i, nullptr, {}};
  // Of .x1 and .x2 only the first 8 and 16 lanes' addresses mean anything.
  if (scheduler().current().lane < kRows * i.vector) {
    argument.row = memory_pointer(frame, i, i.operands[1], kRowBytes);
    observe(AccessKind::kLoad, argument.row, kRowBytes);
  }
  meet(kFullWarp, kLoadMatrices, &i, &argument, frame.program.where);
  Term const &destination = i.operands[0];
  bool const vector = destination.kind == Term::Kind::kVector;
  for (int matrix = 0; matrix < i.vector; ++matrix) {
    frame.write(vector ? destination.terms[size_t(matrix)] : destination,
                argument.registers[matrix]);
  }
}

void transpose_registers(Collective &collective) {
  auto *arguments = reinterpret_cast<uint32_t **>(collective.arguments);
  uint32_t registers[32];
  for (int lane = 0; lane < 32; ++lane) {
    registers[lane] = *arguments[lane];
  }
  transpose(registers);
  for (int lane = 0; lane < 32; ++lane) {
    *arguments[lane] = registers[lane];
  }
}

constexpr CollectiveKind kTransposeRegisters{"movmatrix", transpose_registers, true};

void movmatrix(Frame &frame, Instruction const &i) {
  uint32_t value = frame.read32(i.operands[1]);
  meet(kFullWarp, kTransposeRegisters, &i, &value, frame.program.where);
  frame.write(i.operands[0], value);
}

}  // namespace

bool decode_matrix(Instruction &i) {
  if (!i.has("m8n8") || !i.has("b16")) {
    return false;
  }
  if (i.opcode == "ldmatrix") {
    i.vector = i.has("x1") ? 1 : i.has("x2") ? 2 : 4;
    i.variant = i.has("trans");
    i.handler = ldmatrix;
  } else if (i.opcode == "movmatrix") {
    i.handler = movmatrix;
  }
  i.needs_thread = i.handler != nullptr;
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
