/// @file
/// PTX after parsing, and the state of its execution.
#pragma once

#include <stdint.h>
#include <string.h>

#include <string>
#include <vector>

#include "cutlass_ext/host/ptx.h"

namespace cutlass_ext::host::ptx {

/// Special registers that are known.
enum class Special : int {
  kLane,
  kWarp,
  kMultiprocessor,
  kThreadX,
  kThreadY,
  kThreadZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kBlockExtentX,
  kBlockExtentY,
  kBlockExtentZ,
  kGridExtentX,
  kGridExtentY,
  kGridExtentZ,
  kClock,
};

/// An operand of an instruction as written.
struct Term {
  enum class Kind : uint8_t {
    kArgument,   ///< %0: operand `index` of the asm statement
    kRegister,   ///< register `index` of the program
    kImmediate,  ///< `immediate`, as bits
    kSpecial,    ///< %laneid: `index` is a Special
    kMemory,     ///< [a + immediate]: `terms[0]` is a; further terms follow a comma
    kVector,     ///< {a, b} or a|b: `terms`
    kSink,       ///< _
    kLabel,      ///< anything else: `name`
  };
  Kind kind = Kind::kSink;
  int index = 0;
  uint64_t immediate = 0;
  std::vector<Term> terms;
  std::string name;
};

class Frame;
struct Instruction;
using Handler = void (*)(Frame &frame, Instruction const &instruction);

/// Element type of an instruction: its last type modifier.
struct Type {
  enum class Kind : uint8_t { kBits, kSigned, kUnsigned, kFloat, kBfloat, kPredicate };
  Kind kind = Kind::kBits;
  int bits = 32;   ///< of one element
  int packed = 1;  ///< elements in a register: 2 for f16x2

  bool is_float() const { return kind == Kind::kFloat || kind == Kind::kBfloat; }
};

struct Instruction {
  Handler handler = nullptr;
  bool predicated = false;
  bool negated = false;
  Term predicate;
  std::string opcode;                  ///< "ld" of ld.global.v4.u32
  std::vector<std::string> modifiers;  ///< "global", "v4", "u32"
  std::vector<Term> operands;
  Type type;                  ///< of the last type modifier
  int vector = 1;             ///< 4 for .v4
  int variant = 0;            ///< whatever the decoder wants the handler to know
  int target = -1;            ///< of a branch: index of the instruction
  std::string text;           ///< as written
  bool needs_thread = false;  ///< means something only in a CUDA thread

  bool has(char const *modifier) const {
    for (std::string const &candidate : modifiers) {
      if (candidate == modifier) {
        return true;
      }
    }
    return false;
  }

  /// "add.f32"
  std::string full_name() const;
};

struct Program {
  std::vector<Instruction> code;
  int registers = 0;
  Location where;
  bool needs_thread = false;
};

/// Parses the text of a site. Throws Error on a syntax that is not known; an instruction that is
/// not known throws when it is executed.
Program *parse(Site const &site);

/// One execution of a program.
class Frame {
 public:
  static constexpr int kMaxRegisters = 48;

  Frame(Program const &program, Operand *arguments) : program(program), arguments_(arguments) {}

  /// Value of a source operand; of a memory operand, its address.
  uint64_t read(Term const &term) const {
    switch (term.kind) {
      case Term::Kind::kArgument:
        return arguments_[term.index].value;
      case Term::Kind::kRegister:
        return registers_[term.index];
      case Term::Kind::kImmediate:
        return term.immediate;
      default:
        return read_other(term);
    }
  }

  uint32_t read32(Term const &term) const { return uint32_t(read(term)); }

  float read_float(Term const &term) const {
    uint32_t const bits = read32(term);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }

  void write(Term const &term, uint64_t value) {
    switch (term.kind) {
      case Term::Kind::kArgument: {
        Operand &argument = arguments_[term.index];
        argument.value = value;
        if (argument.object != nullptr) {
          memcpy(argument.object, &value, argument.bytes);
        }
        break;
      }
      case Term::Kind::kRegister:
        registers_[term.index] = value;
        break;
      default:
        write_other(term, value);
    }
  }

  void write_float(Term const &term, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    write(term, bits);
  }

  void run();

  Program const &program;
  size_t next = 0;  ///< index of the next instruction

 private:
  uint64_t read_other(Term const &term) const;
  void write_other(Term const &term, uint64_t value);

  Operand *arguments_;
  uint64_t registers_[kMaxRegisters];
};

/// Each sets the handler of an instruction of its kind and returns true, or returns false.
bool decode_integer(Instruction &instruction);
bool decode_floating_point(Instruction &instruction);
bool decode_conversion(Instruction &instruction);
bool decode_memory(Instruction &instruction);
bool decode_atomic(Instruction &instruction);
bool decode_synchronization(Instruction &instruction);
bool decode_matrix(Instruction &instruction);
bool decode_mma(Instruction &instruction);
bool decode_quad_pair_mma(Instruction &instruction);

}  // namespace cutlass_ext::host::ptx
