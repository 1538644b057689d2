/// mma.sync.m8n8k4 of Volta: each of a warp's four quad pairs computes its own D = A B + C.
///
/// Quad pair q is the lanes 4q ... 4q + 3 and 16 + 4q ... 16 + 4q + 3.
///
/// Products are exact in f32. They are added in f32 in the order of k, starting from zero, and the
/// sum is added to C last, as in mma.cpp; a tensor core has its own order and rounding, so that
/// results agree bitwise only where every sum is exact.

#include <map>

#include "cutlass_ext/host/ptx/number.h"
#include "cutlass_ext/host/ptx/program.h"
#include "cutlass_ext/host/runtime/warp.h"

namespace cutlass_ext::host::ptx {

namespace {

constexpr int kQuadPairs = 4;
constexpr int kExtent = 8;  // m and n
constexpr int kK = 4;

// One lane's registers.
struct Fragments {
  uint32_t a[2];
  uint32_t b[2];
  uint32_t c[8];  ///< D after the collective
};

// A lane in its quad pair: which, and whether in the upper half of the warp.
struct Position {
  int pair;
  int lane;   ///< in its quad
  int upper;  ///< 4 in lanes 16 to 31, which hold the last 4 rows (of B: columns), else 0

  explicit Position(int lane) : pair(lane / 4 % 4), lane(lane % 4), upper(lane / 16 * 4) {}
};

float half_element(uint32_t const *registers, int i) {
  return half_to_float(uint16_t(registers[i / 2] >> (16 * (i % 2))));
}

// Element i of C and D: eight registers, blocks of 2x2 elements.
struct FloatAccumulator {
  static constexpr int kRegisters = 8;
  static int row(Position p, int i) { return p.upper + (p.lane & 1) + (i & 2); }
  static int column(Position p, int i) { return (i & 4) + (p.lane & 2) + (i & 1); }
  static float get(Fragments const &f, int i) { return float_of_bits(f.c[i]); }
  static void set(Fragments &f, int i, float value) { f.c[i] = bits_of_float(value); }
};

// Four registers of two elements, a row a lane.
struct HalfAccumulator {
  static constexpr int kRegisters = 4;
  static int row(Position p, int) { return p.upper + p.lane; }
  static int column(Position, int i) { return i; }
  static float get(Fragments const &f, int i) { return half_element(f.c, i); }
  static void set(Fragments &f, int i, float value) {
    int const shift = 16 * (i % 2);
    f.c[i / 2] = (f.c[i / 2] & ~(0xffffu << shift)) | uint32_t(float_to_half(value)) << shift;
  }
};

// Element i of a lane's four of A lies at
//   row major:     row `lane` of its half, column (k) i
//   column major:  row i of its half, column (k) `lane`
// and of B likewise with rows and columns exchanged.
template <bool kRowMajorA, bool kRowMajorB, class Accumulator>
void multiply(Collective &collective) {
  auto *fragments = reinterpret_cast<Fragments **>(collective.arguments);
  float a[kQuadPairs][kExtent][kK];
  float b[kQuadPairs][kK][kExtent];
  for (int lane = 0; lane < 32; ++lane) {
    Position const p(lane);
    for (int i = 0; i < kK; ++i) {
      float const of_a = half_element(fragments[lane]->a, i);
      float const of_b = half_element(fragments[lane]->b, i);
      (kRowMajorA ? a[p.pair][p.upper + p.lane][i] : a[p.pair][p.upper + i][p.lane]) = of_a;
      (kRowMajorB ? b[p.pair][p.lane][p.upper + i] : b[p.pair][i][p.upper + p.lane]) = of_b;
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    Position const p(lane);
    for (int i = 0; i < 8; ++i) {
      int const m = Accumulator::row(p, i);
      int const n = Accumulator::column(p, i);
      float sum = 0;
      for (int k = 0; k < kK; ++k) {
        sum += a[p.pair][m][k] * b[p.pair][k][n];
      }
      Accumulator::set(*fragments[lane], i, Accumulator::get(*fragments[lane], i) + sum);
    }
  }
}

template <bool kRowMajorA, bool kRowMajorB, class Accumulator>
void mma(Frame &frame, Instruction const &i) {
  static constexpr CollectiveKind kKind{"mma.sync.m8n8k4",
                                        multiply<kRowMajorA, kRowMajorB, Accumulator>, true};
  Fragments fragments;
  auto const read = [&](int operand, uint32_t *registers, int count) {
    for (int r = 0; r < count; ++r) {
      registers[r] = frame.read32(i.operands[size_t(operand)].terms[size_t(r)]);
    }
  };
  read(1, fragments.a, 2);
  read(2, fragments.b, 2);
  read(3, fragments.c, Accumulator::kRegisters);
  meet(0xffffffffu, kKind, &i, &fragments, frame.program.where);
  for (int r = 0; r < Accumulator::kRegisters; ++r) {
    frame.write(i.operands[0].terms[size_t(r)], fragments.c[r]);
  }
}

template <bool kRowMajorA, bool kRowMajorB>
Handler with_accumulators(std::string const &types) {
  return types == "f32.f16.f16.f32"   ? mma<kRowMajorA, kRowMajorB, FloatAccumulator>
         : types == "f16.f16.f16.f16" ? mma<kRowMajorA, kRowMajorB, HalfAccumulator>
                                      : nullptr;
}

}  // namespace

bool decode_quad_pair_mma(Instruction &i) {
  static std::map<std::string, Handler (*)(std::string const &)> const layouts = {
      {"row.row.", with_accumulators<true, true>},
      {"row.col.", with_accumulators<true, false>},
      {"col.row.", with_accumulators<false, true>},
      {"col.col.", with_accumulators<false, false>}};
  std::string const prefix = "mma.sync.aligned.m8n8k4.";
  constexpr size_t kLayoutCharacters = 8;
  std::string const name = i.full_name();
  if (name.compare(0, prefix.size(), prefix) != 0 || i.operands.size() != 4) {
    return false;
  }
  auto const found = layouts.find(name.substr(prefix.size(), kLayoutCharacters));
  if (found != layouts.end()) {
    i.handler = found->second(name.substr(prefix.size() + kLayoutCharacters));
    i.needs_thread = i.handler != nullptr;
  }
  return i.handler != nullptr;
}

}  // namespace cutlass_ext::host::ptx
