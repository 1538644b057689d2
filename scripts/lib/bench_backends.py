"""The benchmark's backends: ours by family, PyTorch's by name, behind one call."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench_cells import Cell
from cutlass_ext import fmha

FAMILIES = ("simt", "sm80")
TORCH_BACKENDS = {
    "torch:flash": SDPBackend.FLASH_ATTENTION,
    "torch:efficient": SDPBackend.EFFICIENT_ATTENTION,
    "torch:math": SDPBackend.MATH,
    "torch:cudnn": SDPBackend.CUDNN_ATTENTION,
}
BACKENDS = (*(f"ours:{family}" for family in FAMILIES), *TORCH_BACKENDS)

# A ratio compares with the fastest of these that accepts the cell.
BASELINES = ("torch:flash", "torch:efficient", "torch:math")


@dataclass(frozen=True)
class Inputs:
    """Standard normal tensors of a cell, `[B, M, H, K]`."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor


def make_inputs(cell: Cell, device: str) -> Inputs:
    """Fresh inputs, the same for a cell in every process."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        dtype = getattr(torch, cell.dtype)
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    return Inputs(
        normal(cell.B, cell.M, cell.H, cell.K),
        normal(cell.B, cell.N, cell.Hkv, cell.K),
        normal(cell.B, cell.N, cell.Hkv, cell.Kv),
    )


def forward_call(backend: str, cell: Cell, inputs: Inputs) -> Callable[[], torch.Tensor]:
    """A function that runs the forward pass of a cell and returns its output `[B, M, H, Kv]`.

    It is to be called inside `selected(backend, cell)`.
    """
    if backend.startswith("ours:"):
        mask = fmha.attn_bias.LowerTriangularMask() if cell.causal else None

        def ours() -> torch.Tensor:
            return fmha.memory_efficient_attention_forward(
                inputs.query,
                inputs.key,
                inputs.value,
                mask,
                op=backend.removeprefix("ours:"),
                precision=cell.precision,
            )

        return ours

    query, key, value = (t.transpose(1, 2) for t in (inputs.query, inputs.key, inputs.value))

    def theirs() -> torch.Tensor:
        output = scaled_dot_product_attention(query, key, value, is_causal=cell.causal)
        return output.transpose(1, 2)

    return theirs


@contextmanager
def selected(backend: str, cell: Cell) -> Iterator[None]:
    """PyTorch set to one backend, and to TF32 products where the cell's precision allows them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if cell.precision == "tf32" else "highest")
    try:
        if backend in TORCH_BACKENDS:
            with sdpa_kernel(TORCH_BACKENDS[backend]):
                yield
        else:
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def try_once(call: Callable[[], torch.Tensor]) -> tuple[torch.Tensor | None, str | None]:
    """The output of a first call, or why the backend refuses.

    PyTorch gives the reasons of a refusal as warnings; they stand in place of its "no kernel".
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return call(), None
        except torch.OutOfMemoryError:
            return None, "out of memory"
        except Exception as error:  # whatever a backend refuses with is its row's error
            message = _first_line(str(error)) or type(error).__name__
            if "No available kernel" not in message:
                return None, message
            reasons = [_first_line(str(w.message)) for w in caught]
            reasons = [text for text in reasons if "not used because" not in text]
            return None, "; ".join(reasons) or message


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].split(" (Triggered internally")[0] if text.strip() else ""
