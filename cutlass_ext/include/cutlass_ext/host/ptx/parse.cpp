#include <ctype.h>
#include <stdlib.h>

#include <map>
#include <memory>

#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/text.h"

namespace cutlass_ext::host::ptx {

namespace {

std::string trim(std::string const &text) {
  size_t const first = text.find_first_not_of(" \t\n");
  size_t const last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

// Splits at `separator` outside brackets.
std::vector<std::string> split(std::string const &text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += c == '[' || c == '{';
    depth -= c == ']' || c == '}';
    if (c == separator && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty()) {
    parts.push_back(trim(part));
  }
  return parts;
}

std::map<std::string, Special> const &special_registers() {
  static std::map<std::string, Special> const names = {
      {"%laneid", Special::kLane},          {"%warpid", Special::kWarp},
      {"%smid", Special::kMultiprocessor},  {"%tid.x", Special::kThreadX},
      {"%tid.y", Special::kThreadY},        {"%tid.z", Special::kThreadZ},
      {"%ctaid.x", Special::kBlockX},       {"%ctaid.y", Special::kBlockY},
      {"%ctaid.z", Special::kBlockZ},       {"%ntid.x", Special::kBlockExtentX},
      {"%ntid.y", Special::kBlockExtentY},  {"%ntid.z", Special::kBlockExtentZ},
      {"%nctaid.x", Special::kGridExtentX}, {"%nctaid.y", Special::kGridExtentY},
      {"%nctaid.z", Special::kGridExtentZ}, {"%clock", Special::kClock},
      {"%clock64", Special::kClock},        {"%globaltimer", Special::kClock}};
  return names;
}

// Type that a modifier names; false where it names none.
bool parse_type(std::string const &modifier, Type &type) {
  static std::map<std::string, Type> const types = [] {
    using Kind = Type::Kind;
    std::map<std::string, Type> result;
    for (int bits : {8, 16, 32, 64, 128}) {
      result["b" + std::to_string(bits)] = Type{Kind::kBits, bits, 1};
      result["s" + std::to_string(bits)] = Type{Kind::kSigned, bits, 1};
      result["u" + std::to_string(bits)] = Type{Kind::kUnsigned, bits, 1};
    }
    result["f16"] = Type{Kind::kFloat, 16, 1};
    result["f32"] = Type{Kind::kFloat, 32, 1};
    result["f64"] = Type{Kind::kFloat, 64, 1};
    result["f16x2"] = Type{Kind::kFloat, 16, 2};
    result["bf16"] = Type{Kind::kBfloat, 16, 1};
    result["bf16x2"] = Type{Kind::kBfloat, 16, 2};
    result["pred"] = Type{Kind::kPredicate, 1, 1};
    return result;
  }();
  auto const found = types.find(modifier);
  if (found == types.end()) {
    return false;
  }
  type = found->second;
  return true;
}

void unknown_instruction(Frame &frame, Instruction const &instruction) {
  throw Error("inline PTX: this instruction is not known: " + instruction.text +
              text(frame.program.where));
}

void branch(Frame &frame, Instruction const &instruction) {
  frame.next = size_t(instruction.target);
}

class Parser {
 public:
  explicit Parser(Site const &site) : site_(site), program_(new Program) {
    program_->where = site.where;
  }

  Program *run() {
    std::string statement;
    int depth = 0;
    for (char c : without_comments(site_.text)) {
      if (depth == 0 && c == '{' && trim(statement).empty()) {
        continue;  // a scope begins; names are not reused inside one statement
      }
      if (depth == 0 && (c == ';' || c == '}')) {
        parse_statement(trim(statement));
        statement.clear();
        continue;
      }
      if (depth == 0 && c == ':' && is_label(trim(statement))) {
        labels_[trim(statement)] = int(program_->code.size());
        statement.clear();
        continue;
      }
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
      statement += c;
    }
    parse_statement(trim(statement));
    resolve_branches();
    program_->registers = int(registers_.size());
    if (program_->registers > Frame::kMaxRegisters) {
      fail("too many registers");
    }
    return program_.release();
  }

 private:
  [[noreturn]] void fail(std::string const &what) const {
    throw Error("inline PTX: " + what + ": " + site_.text + text(site_.where));
  }

  static bool is_label(std::string const &statement) {
    return !statement.empty() && statement.find_first_of(" .@\t") == std::string::npos;
  }

  // One space for each blank, one % for %%, nothing for a comment.
  static std::string without_comments(std::string const &source) {
    std::string result;
    for (size_t i = 0; i < source.size(); ++i) {
      if (source.compare(i, 2, "//") == 0) {
        while (i < source.size() && source[i] != '\n') {
          ++i;
        }
        result += ' ';
      } else if (source.compare(i, 2, "%%") == 0) {
        result += '%';
        ++i;
      } else {
        result += isspace(static_cast<unsigned char>(source[i])) ? ' ' : source[i];
      }
    }
    return result;
  }

  void parse_statement(std::string statement) {
    if (statement.empty()) {
      return;
    }
    if (statement[0] == '.') {
      parse_declaration(statement);
      return;
    }
    Instruction instruction;
    instruction.text = statement;
    if (statement[0] == '@') {
      instruction.predicated = true;
      instruction.negated = statement[1] == '!';
      size_t const begin = instruction.negated ? 2 : 1;
      size_t const end = statement.find(' ', begin);
      instruction.predicate = parse_term(statement.substr(begin, end - begin));
      statement = trim(statement.substr(end));
    }
    size_t const end = statement.find_first_of(" [");
    std::vector<std::string> name = split(statement.substr(0, end), '.');
    instruction.opcode = name[0];
    instruction.modifiers.assign(name.begin() + 1, name.end());
    for (std::string const &modifier : instruction.modifiers) {
      parse_type(modifier, instruction.type);
      if (modifier.size() == 2 && modifier[0] == 'v' && isdigit(modifier[1])) {
        instruction.vector = modifier[1] - '0';
      }
    }
    if (end != std::string::npos) {
      for (std::string const &operand : split(statement.substr(end), ',')) {
        instruction.operands.push_back(parse_term(operand));
      }
    }
    decode(instruction);
    program_->needs_thread |= instruction.needs_thread;
    program_->code.push_back(std::move(instruction));
  }

  static void decode(Instruction &instruction) {
    if (instruction.opcode == "bra") {
      instruction.handler = branch;
      return;
    }
    for (auto *decoder :
         {decode_integer, decode_floating_point, decode_conversion, decode_memory, decode_atomic,
          decode_synchronization, decode_matrix, decode_mma, decode_quad_pair_mma}) {
      if (decoder(instruction)) {
        return;
      }
    }
    instruction.handler = unknown_instruction;
  }

  // .reg .b32 a, b;
  void parse_declaration(std::string const &statement) {
    if (statement.compare(0, 4, ".reg") != 0) {
      fail("this directive is not known");
    }
    std::vector<std::string> names = split(statement.substr(4), ',');
    names[0] = trim(names[0].substr(names[0].find(' ')));
    for (std::string const &name : names) {
      int const index = int(registers_.size());
      registers_[name] = index;
    }
  }

  Term parse_term(std::string const &source) {
    Term term;
    term.name = source;
    if (source == "_") {
      return term;
    }
    if (source[0] == '[') {
      parse_memory(term, trim(source.substr(1, source.rfind(']') - 1)));
    } else if (source[0] == '{') {
      term.kind = Term::Kind::kVector;
      for (std::string const &element : split(source.substr(1, source.rfind('}') - 1), ',')) {
        term.terms.push_back(parse_term(element));
      }
    } else if (source.find('|') != std::string::npos) {
      term.kind = Term::Kind::kVector;
      for (std::string const &element : split(source, '|')) {
        term.terms.push_back(parse_term(element));
      }
    } else if (source[0] == '%' && isdigit(source[1])) {
      term.kind = Term::Kind::kArgument;
      term.index = atoi(source.c_str() + 1);
    } else if (isdigit(source[0]) || source[0] == '-') {
      term.kind = Term::Kind::kImmediate;
      term.immediate = parse_number(source);
    } else if (auto const found = registers_.find(source); found != registers_.end()) {
      term.kind = Term::Kind::kRegister;
      term.index = found->second;
    } else if (auto const known = special_registers().find(source);
               known != special_registers().end()) {
      term.kind = Term::Kind::kSpecial;
      term.index = int(known->second);
    } else {
      term.kind = Term::Kind::kLabel;
    }
    return term;
  }

  void parse_memory(Term &term, std::string const &inside) {
    term.kind = Term::Kind::kMemory;
    std::vector<std::string> const parts = split(inside, ',');
    std::string base = parts[0];
    if (size_t const plus = base.find('+'); plus != std::string::npos) {
      term.immediate = parse_number(trim(base.substr(plus + 1)));
      base = trim(base.substr(0, plus));
    }
    term.terms.push_back(parse_term(base));
    for (size_t i = 1; i < parts.size(); ++i) {
      term.terms.push_back(parse_term(parts[i]));
    }
  }

  // 12, -1, 0x7f, 0f3F800000 (the bits of a float), 1.5
  static uint64_t parse_number(std::string const &source) {
    if (source[0] == '0' && source.size() > 1 && tolower(source[1]) == 'f') {
      return strtoull(source.c_str() + 2, nullptr, 16);
    }
    if (source.find('.') != std::string::npos) {
      float const value = strtof(source.c_str(), nullptr);
      uint32_t bits;
      memcpy(&bits, &value, sizeof(bits));
      return bits;
    }
    return uint64_t(strtoll(source.c_str(), nullptr, 0));
  }

  void resolve_branches() {
    for (Instruction &instruction : program_->code) {
      if (instruction.opcode == "bra") {
        auto const found = labels_.find(instruction.operands[0].name);
        if (found == labels_.end()) {
          fail("a branch to an unknown label");
        }
        instruction.target = found->second;
      }
    }
  }

  Site const &site_;
  std::unique_ptr<Program> program_;
  std::map<std::string, int> registers_;
  std::map<std::string, int> labels_;
};

}  // namespace

std::string Instruction::full_name() const {
  std::string name = opcode;
  for (std::string const &modifier : modifiers) {
    name += "." + modifier;
  }
  return name;
}

Program *parse(Site const &site) {
  return Parser(site).run();
}

}  // namespace cutlass_ext::host::ptx
