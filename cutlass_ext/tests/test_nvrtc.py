"""Device headers and the components' kernels compile under NVRTC 12.9, for Volta too.

nvcc 13 has no sm_70: NVRTC 12.9 is how kernels get there, and the oldest compiler that serves the
other architectures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutlass_ext.jit import toolchain
from cutlass_ext.testing import nvrtc

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "include"
# Not in the list: the runtime of host execution, and code that runs on the host: launches, exports,
# device-level operators.
HEADERS = sorted(
    str(path.relative_to(INCLUDE))
    for path in (INCLUDE / "cutlass_ext").rglob("*.h")
    if "host" not in path.relative_to(INCLUDE).parts
    and path.relative_to(INCLUDE / "cutlass_ext").parts[:2] != ("gemm", "device")
    and path.name not in ("launch.h", "export.h")
)
# For the parts of the harness that run on the host: what they name has to be known, no more.
STAND_INS = {
    "cutlass_ext/device/launch.h": """
#pragma once
#include "cutlass_ext/device/kernel_entry.h"
namespace cutlass_ext {
template <class Kernel>
void launch(typename Kernel::Params const &, dim3, void *);
}
""",
    "arguments.h": """
#pragma once
namespace harness {
struct Arguments {
  template <class T>
  T *pointer();
  int integer();
  void *stream();
};
}
""",
}


def _chained(mma: str | tuple[str, str], epilogue: str) -> str:
    """StagedMma, ResidentOperand, SmemOperandWriter, ResidualLast and RowAwareEpilogue."""
    first, second = (mma.format("Column"), mma.format("Row")) if isinstance(mma, str) else mma
    return f"ChainedProducts<{first}, {second}, {epilogue.format(second)}>"


_SM70 = "Sm70Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, {}>"
_SM70_COLUMN = "Sm70Mma<GemmShape<128, 128, 32>, GemmShape<64, 64, 32>, Column, Row>"
_SM75 = "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, Row, {}>"
_SM75_TALL = "Sm75Mma<GemmShape<64, 64, 32>, GemmShape<16, 64, 32>, Row, Row>"
_F16 = (
    "Sm80Mma<half_t, GemmShape<64, 64, 32>, GemmShape<16, 64, 32>, GemmShape<16, 8, 16>, "
    "Row, {}, 3>"
)
_TF32X3 = "Tf32x3Mma<GemmShape<64, 64, 16>, GemmShape<16, 64, 16>, Row, {}, 4>"
# The multistage Mma copies synchronously below sm_80.
_SIMT = (
    "SimtMma<GemmShape<64, 32, 8>, GemmShape<32, 32, 8>, Row, Column, 2>",
    "SimtMma<GemmShape<64, 64, 16>, GemmShape<32, 64, 16>, Row, Row, 3>",
)
_CHAINED_GEMM = "cutlass_ext::gemm::kernel::ChainedGemm"
# arch: kernels (of namespace harness), and for each an instruction that it must have
KERNELS = {
    "sm_70": {
        _chained(_SM70, "VoltaEpilogue<{}, float, 4>"): "mma.sync.aligned.m8n8k4.row.col",
        f"StagedMmaProbe<{_SM70_COLUMN}>": "mma.sync.aligned.m8n8k4.col.row",
        f"StagedMmaProbe<ResidualLastMma<{_SM70.format('Row')}>>": "m8n8k4.row.row",
        f"AccumulatorMapProbe<{_SM70.format('Row')}::Operator>": "shfl.sync.bfly",
        _chained(_SIMT, "SimtEpilogue<{}>"): "fma.rn.f32",
    },
    "sm_75": {
        _chained(_SM75, "TensorOpEpilogue<{}, float, 4>"): "mma.sync.aligned.m16n8k8",
        f"RegisterOperandProbe<{_SM75_TALL}, 64>": "ldmatrix.sync.aligned.x4.trans",
    },
    "sm_80": {
        _chained(_F16, "TensorOpEpilogue<{}, float, 4>"): "mma.sync.aligned.m16n8k16",
        f"RegisterOperandProbe<{_F16.format('Row')}, 64>": "cp.async",
        _chained(_TF32X3, "TensorOpEpilogue<{}, float, 4>"): "m16n8k8.row.col.f32.tf32",
        f"{_CHAINED_GEMM}RegistersKernel<{_CHAINED_GEMM}RegistersConfig<half_t, half_t, 64, 64, "
        "false, 64, 8>>": "m16n8k16",
    },
}


def include() -> list[Path]:
    return [INCLUDE, ROOT / "tests" / "harness", toolchain.find_cutlass()]


@pytest.fixture(autouse=True)
def compiler(mode: str) -> None:
    if mode != "plain":
        pytest.skip("the same in every mode")
    sentence = nvrtc.missing()
    if sentence:
        pytest.skip(sentence)


@pytest.mark.parametrize("arch", KERNELS)
def test_device_headers_compile(arch):
    source = "".join(f'#include "{header}"\n' for header in HEADERS)
    compiled = nvrtc.compile(source, arch, include())
    assert f".target {arch}" in compiled.ptx


@pytest.mark.parametrize("arch", KERNELS)
def test_kernels_of_the_components_compile(arch):
    """To PTX that holds the architecture's instructions, and to machine code."""
    source = "".join(
        f'#include "{header}"\n'
        for header in (
            "accumulator_map.h",
            "chained_products.h",
            "register_operand_gemm.h",
            "staged_mma.h",
            "cutlass_ext/gemm/kernel/chained_gemm_registers.h",
        )
    )
    source += "using namespace harness;\n"
    for i, kernel in enumerate(KERNELS[arch]):
        source += f"using Kernel{i} = {kernel};\n"
        source += f"template __global__ void cutlass_ext::kernel_entry<Kernel{i}>("
        source += f"__grid_constant__ typename Kernel{i}::Params const);\n"
    compiled = nvrtc.compile(source, arch, include(), STAND_INS)
    assert f".target {arch}" in compiled.ptx
    entries = re.split(r"^\s*(?:\.visible |\.weak )?\.entry ", compiled.ptx, flags=re.M)[1:]
    assert len(entries) == len(KERNELS[arch])
    for entry, (kernel, instruction) in zip(entries, KERNELS[arch].items(), strict=True):
        assert instruction in entry, kernel
        # CUTLASS's branch for an architecture that lacks the instruction.
        assert "brkpt" not in entry and "trap" not in entry, kernel
        assert arch == "sm_80" or "cp.async" not in entry, kernel
    assert compiled.cubin.startswith(b"\x7fELF")
