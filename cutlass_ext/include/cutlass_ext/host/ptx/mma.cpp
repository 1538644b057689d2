/// mma.sync.m16n8kK: D = A B + C by a warp.
///
/// Products are exact in f32. They are added in f32 in the order of k, starting from zero, and the
/// sum is added to C last; a tensor core has its own order and rounding, so that results agree
/// bitwise only where every sum is exact.

#include <map>

#include "cutlass_ext/host/ptx/address.h"
#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/warp.h"

namespace cutlass_ext::host::ptx {

namespace {

constexpr int kM = 16;
constexpr int kN = 8;
constexpr int kMaxRegisters = 4;

// One lane's registers.
struct Fragments {
  uint32_t a[kMaxRegisters];
  uint32_t b[2];
  uint32_t c[kMaxRegisters];  ///< D after the collective
};

// An operand type: how many elements a register holds, and their values.
struct Half {
  static constexpr int kPerRegister = 2;
  static float value(uint32_t bits, int element) {
    return half_to_float(uint16_t(bits >> (16 * element)));
  }
};

struct Bfloat {
  static constexpr int kPerRegister = 2;
  static float value(uint32_t bits, int element) {
    return bfloat_to_float(uint16_t(bits >> (16 * element)));
  }
};

struct Tf32 {
  static constexpr int kPerRegister = 1;
  // The hardware ignores the low 13 bits.
  static float value(uint32_t bits, int) { return float_of_bits(bits & 0xffffe000u); }
};

// An accumulator type: C and D have two or four registers.
struct FloatAccumulator {
  static constexpr int kRegisters = 4;
  static float get(Fragments const &f, int element) { return float_of_bits(f.c[element]); }
  static void set(Fragments &f, int element, float value) { f.c[element] = bits_of_float(value); }
};

struct HalfAccumulator {
  static constexpr int kRegisters = 2;
  static float get(Fragments const &f, int element) {
    return half_to_float(uint16_t(f.c[element / 2] >> (16 * (element % 2))));
  }
  static void set(Fragments &f, int element, float value) {
    int const shift = 16 * (element % 2);
    f.c[element / 2] = (f.c[element / 2] & ~(0xffffu << shift)) | uint32_t(float_to_half(value))
                                                                      << shift;
  }
};

// Lane 4g + t holds, in register r and element e of it:
//   A: row g + 8 (r mod 2), column E t + e + 4 E (r div 2), E elements a register
//   B: row (k) E t + e + 4 E r, column g
//   C, D: element v at row g + 8 (v div 2), column 2 t + v mod 2
template <int K, class Operand, class Accumulator>
void multiply(Collective &collective) {
  constexpr int kPer = Operand::kPerRegister;
  constexpr int kRegistersA = kM * K / 32 / kPer;
  constexpr int kRegistersB = kN * K / 32 / kPer;
  auto *fragments = reinterpret_cast<Fragments **>(collective.arguments);
  float a[kM][K];
  float b[K][kN];
  for (int lane = 0; lane < 32; ++lane) {
    Fragments const &f = *fragments[lane];
    int const g = lane / 4;
    int const t = lane % 4;
    for (int r = 0; r < kRegistersA; ++r) {
      for (int e = 0; e < kPer; ++e) {
        a[g + 8 * (r % 2)][kPer * t + e + 4 * kPer * (r / 2)] = Operand::value(f.a[r], e);
      }
    }
    for (int r = 0; r < kRegistersB; ++r) {
      for (int e = 0; e < kPer; ++e) {
        b[kPer * t + e + 4 * kPer * r][g] = Operand::value(f.b[r], e);
      }
    }
  }
  float d[kM][kN] = {};
  for (int m = 0; m < kM; ++m) {
    for (int k = 0; k < K; ++k) {
      for (int n = 0; n < kN; ++n) {
        d[m][n] += a[m][k] * b[k][n];
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int v = 0; v < 4; ++v) {
      float const sum = d[lane / 4 + 8 * (v / 2)][2 * (lane % 4) + v % 2];
      Accumulator::set(*fragments[lane], v, Accumulator::get(*fragments[lane], v) + sum);
    }
  }
}

template <int K, class Operand, class Accumulator>
void mma(Frame &frame, Instruction const &i) {
  static constexpr CollectiveKind kKind{"mma.sync", multiply<K, Operand, Accumulator>, true};
  constexpr int kRegistersA = kM * K / 32 / Operand::kPerRegister;
  constexpr int kRegistersB = kN * K / 32 / Operand::kPerRegister;
  Fragments fragments;
  auto const element = [](Term const &term, int index) -> Term const & {
    return term.kind == Term::Kind::kVector ? term.terms[size_t(index)] : term;
  };
  for (int r = 0; r < kRegistersA; ++r) {
    fragments.a[r] = frame.read32(element(i.operands[1], r));
  }
  for (int r = 0; r < kRegistersB; ++r) {
    fragments.b[r] = frame.read32(element(i.operands[2], r));
  }
  for (int r = 0; r < Accumulator::kRegisters; ++r) {
    fragments.c[r] = frame.read32(element(i.operands[3], r));
  }
  meet(0xffffffffu, kKind, &i, &fragments, frame.program.where);
  for (int r = 0; r < Accumulator::kRegisters; ++r) {
    frame.write(element(i.operands[0], r), fragments.c[r]);
  }
}

}  // namespace

bool decode_mma(Instruction &i) {
  static std::map<std::string, Handler> const shapes = {
      {"m16n8k16.row.col.f32.f16.f16.f32", mma<16, Half, FloatAccumulator>},
      {"m16n8k16.row.col.f16.f16.f16.f16", mma<16, Half, HalfAccumulator>},
      {"m16n8k16.row.col.f32.bf16.bf16.f32", mma<16, Bfloat, FloatAccumulator>},
      {"m16n8k8.row.col.f32.f16.f16.f32", mma<8, Half, FloatAccumulator>},
      {"m16n8k8.row.col.f16.f16.f16.f16", mma<8, Half, HalfAccumulator>},
      {"m16n8k8.row.col.f32.bf16.bf16.f32", mma<8, Bfloat, FloatAccumulator>},
      {"m16n8k8.row.col.f32.tf32.tf32.f32", mma<8, Tf32, FloatAccumulator>},
      {"m16n8k4.row.col.f32.tf32.tf32.f32", mma<4, Tf32, FloatAccumulator>}};
  std::string const prefix = "mma.sync.aligned.";
  std::string const name = i.full_name();
  if (name.compare(0, prefix.size(), prefix) != 0 || i.operands.size() != 4) {
    return false;
  }
  auto const found = shapes.find(name.substr(prefix.size()));
  if (found != shapes.end()) {
    i.handler = found->second;
    i.needs_thread = true;
  }
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
