"""The snippets of docs/components compile, each in the surroundings that its page presumes."""

from __future__ import annotations

import re
from pathlib import Path

from cutlass_ext import jit

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "components"

# Types that the pages leave open, and what a kernel has around the snippet.
PREAMBLE = """
#include "chained_products.h"
#include "cutlass/functional.h"
#include "cutlass_ext/epilogue/thread/row_agnostic.h"
#include "cutlass_ext/epilogue/threadblock/pipelined_source.h"
#include "cutlass_ext/epilogue/threadblock/prefetch_iterator.h"
#include "cutlass_ext/epilogue/threadblock/strided_output_iterator.h"
#include "cutlass_ext/epilogue/warp/row_vector_store.h"
#include "cutlass_ext/gemm/kernel/tile_scheduler.h"
#include "cutlass_ext/gemm/threadblock/register_operand_gemm.h"
#include "cutlass_ext/transform/threadblock/async_tile_copy.h"

namespace snippets {
using namespace harness;
using namespace cutlass_ext::gemm::threadblock;
using namespace cutlass_ext::gemm::warp;
using namespace cutlass_ext::transform::threadblock;
using namespace cutlass_ext::epilogue::thread;
using namespace cutlass_ext::epilogue::threadblock;
using namespace cutlass_ext::epilogue::warp;
using namespace cutlass_ext::gemm::kernel;

using StockMma = Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<16, 64, 32>,
                         GemmShape<16, 8, 16>, Row, Row, 3>;
using StockEpilogue = TensorOpEpilogue<StockMma, float, 4>;
using HalfEpilogue = TensorOpEpilogue<StockMma, half_t, 8>;
using Mma = StockMma;
using FirstMma = StockMma;
using SecondMma = StockMma;
using WarpMma = StockMma::Operator;
constexpr int kKeys = 64;
using Element = cutlass::half_t;

struct Kernel {
  struct Shared {
    StockMma::Base::SharedStorage mma, second;
    StockEpilogue::Base::SharedStorage epilogue;
    HalfEpilogue::Base::SharedStorage half_epilogue;
  };
  struct Other {
    template <class... T>
    CUTLASS_DEVICE void operator()(T &&...) const {}
  };
"""
CONTEXT = {
    "staged_mma": "",
    "resident_operand": "auto iterator_b = [&](int) { return iterator_b_0; }; int blocks = 2;",
    "smem_operand_writer": """
        using Second = StagedMma<ResidentOperand<SecondMma, cutlass::gemm::Operand::kA>::Mma>;
        Second second(shared.second, thread, warp, lane);
        Second::Tiles tiles{{}, iterator_b_0, 2};
        Second::FragmentC output;
        int warp_row = 16 * warp, warp_column = 0;""",
    "register_operand_gemm": """
        typename WarpMma::FragmentC scores, output;
        Other exponentiate;""",
    "accumulator_map": "int columns = 40;",
    "residual_last_iterator": """
        Row layout(64);
        half_t *pointer = nullptr;
        int rows = 40, columns = 64;""",
    "row_aware_epilogue": """
        float *sum = nullptr;
        int rows = 40;
        using Destination = StockEpilogue::OutputTileIterator;
        Destination destination(Destination::Params(Row(64)), nullptr, {rows, 64}, thread);""",
    "pipelined_source": """
        float *floats = nullptr;
        int rows = 40;
        auto half_destination =
            iterate_output<HalfEpilogue::OutputTileIterator>(nullptr, 64, rows, 64);
        float alpha = 1.f, beta = 1.f;""",
    "strided_output_iterator": """
        float *output = nullptr;
        int heads = 8, tokens = 5, columns = 64;""",
    "prefetch_iterator": """
        float *gradient = nullptr;
        int ld = 64, rows = 40, columns = 64;""",
    "row_vector_store": """
        Element *tile = nullptr;
        int stride = 64, rows = 40, columns = 64;""",
    "tile_scheduler": """
        float *packed = nullptr;
        int stride = 64, columns = 64;
        SegmentTileScheduler<64, TileOrder::kDescending>::Params scheduler_params;
        Other compute_tile;""",
}
FUNCTION = """
  {types}
  CUTLASS_DEVICE static void {name}(Shared &shared, int thread, int warp, int lane) {{
    using Element = cutlass::half_t;
    auto iterator_a = iterate<typename StockMma::IteratorA>((Element *)nullptr, 64, 64, 64);
    auto iterator_b_0 = iterate<typename StockMma::IteratorB>((Element *)nullptr, 64, 64, 64);
    {iterator_b}
    int k_iterations = 2;
    typename StockMma::FragmentC accumulators;
    Other other_work;
    {context}
    {body}
  }}
"""


def snippet(page: str) -> tuple[str, str]:
    """Type definitions of the page's snippet, and its statements."""
    code = re.search(r"```cpp\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL).group(1)
    types = re.findall(r"^struct .*?^};\n", code, re.DOTALL | re.MULTILINE)
    for definition in types:
        code = code.replace(definition, "")
    return "".join(types), code


def test_snippets_compile():
    functions = []
    for page, context in CONTEXT.items():
        types, body = snippet(page)
        functions.append(
            FUNCTION.format(
                name=page,
                types=types,
                context=context,
                body=body,
                iterator_b="" if "iterator_b =" in context else "auto iterator_b = iterator_b_0;",
            )
        )
    calls = "\n".join(
        f"    Kernel::{page}(shared, threadIdx.x, threadIdx.x / 32, threadIdx.x % 32);"
        for page in CONTEXT
    )
    source = (
        PREAMBLE
        + "".join(functions)
        + "};\n\nvoid instantiate(Kernel::Shared &shared) {\n"
        + calls
        + "\n}\n}  // namespace snippets\n"
    )
    harness = str(Path(__file__).parent / "harness")
    spec = jit.KernelSpec(
        name="doc_snippets", source=source, target="host", include_dirs=(harness,)
    )
    jit.build([spec])


CHAINED_GEMM = """
#include <string>

#include "cutlass/epilogue/thread/activation.h"
#include "cutlass_ext/gemm/device/chained_gemm.h"
#include "cutlass_ext/gemm/kernel/chained_gemm_registers.h"

namespace cutlass_ext {{
namespace gemm {{
void snippet(cutlass::half_t const *a, cutlass::half_t const *b0, cutlass::half_t const *b1,
             cutlass::half_t *output, int m, int n0, int k0, int n1, cudaStream_t stream) {{
  {body}
}}
}}  // namespace gemm
}}  // namespace cutlass_ext
"""


def test_device_level_snippet_compiles():
    """Of the page on chained GEMM: it stands on the host, in the library's namespace."""
    _, body = snippet("chained_gemm")
    source = CHAINED_GEMM.format(body=body)
    jit.build([jit.KernelSpec(name="chained_gemm_snippet", source=source, target="host")])


def test_every_page_is_compiled():
    """But for those whose snippets other tests compile."""
    compiled = {*CONTEXT, "chained_gemm"}
    assert {page.stem for page in PAGES.glob("*.md")} - compiled <= {"async_tile_copy"}
