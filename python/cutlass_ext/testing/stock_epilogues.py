"""Stock epilogues that the tests of epilogue components vary: rows of one table."""

from __future__ import annotations

from dataclasses import dataclass

import torch

TYPES = {
    "half_t": torch.float16,
    "bfloat16_t": torch.bfloat16,
    "float": torch.float32,
    "int": torch.int32,
}
# family: the Mma, by tile and warp tile
_MMAS = {
    "simt": "SimtMma<GemmShape<{tile}, 8>, GemmShape<{warp}, 8>, Row, Row, 4>",
    "sm75": "Sm75Mma<GemmShape<{tile}, 32>, GemmShape<{warp}, 32>, Row, Row>",
    "f16": "Sm80Mma<half_t, GemmShape<{tile}, {k}>, GemmShape<{warp}, {k}>, GemmShape<16, 8, 16>, "
    "Row, Row, 3>",
    "bf16": "Sm80Mma<bfloat16_t, GemmShape<{tile}, 32>, GemmShape<{warp}, 32>, "
    "GemmShape<16, 8, 16>, Row, Row, 3>",
    "tf32": "Sm80Mma<cutlass::tfloat32_t, GemmShape<{tile}, 16>, GemmShape<{warp}, 16>, "
    "GemmShape<16, 8, 8>, Row, Row, 3>",
    "tf32x3": "Tf32x3Mma<GemmShape<{tile}, 16>, GemmShape<{warp}, 16>, Row, Row, 3>",
}


@dataclass(frozen=True)
class Configuration:
    """A stock epilogue, and the type of a source."""

    family: str
    tile: tuple[int, int]
    warp: tuple[int, int]
    output: str
    vector: int
    """Elements an access; one on CUDA cores."""
    source: str

    @property
    def name(self) -> str:
        """Of a test function: a C++ identifier."""
        rows, columns = self.tile
        types = f"{self.source}_{self.output}_{self.vector}".replace("_t", "")
        return f"{self.family}_{rows}x{columns}_{types}"

    @property
    def mma(self) -> str:
        """The threadblock-level Mma, in terms of harness/stock_mma.h."""
        tile, warp = (", ".join(map(str, shape)) for shape in (self.tile, self.warp))
        # A tile of B has at least one vector for each thread.
        k = 64 if self.tile[1] < 32 else 32
        return _MMAS[self.family].format(tile=tile, warp=warp, k=k)

    @property
    def epilogue(self) -> str:
        """In terms of harness/stock_epilogue.h."""
        if self.family == "simt":
            return f"SimtEpilogue<{self.mma}, {self.output}>"
        return f"TensorOpEpilogue<{self.mma}, {self.output}, {self.vector}>"


def table(*configurations: Configuration) -> dict[str, Configuration]:
    """By name."""
    return {configuration.name: configuration for configuration in configurations}
