"""The families under test, on the CPU and on a GPU."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from hypothesis import settings

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask
from cutlass_ext.testing.attention import lse_tolerance, reference, tolerance
from cutlass_ext.testing.device_code import Schedule


@dataclass(frozen=True)
class Variant:
    """A family with the dtype and precision that it is called with."""

    op: str
    dtype: torch.dtype
    precision: str | None = None

    @property
    def has_lse(self) -> bool:
        return self.op != "sdpa"

    @property
    def arithmetic(self) -> str | None:
        """Of float32 products."""
        return self.precision if self.dtype == torch.float32 else None


_HOST = {
    "torch_f32": Variant("torch", torch.float32),
    "torch_f16": Variant("torch", torch.float16),
    "host_ieee": Variant("host", torch.float32, "ieee"),
    "host_tf32x3": Variant("host", torch.float32, "tf32x3"),
    "host_f16": Variant("host", torch.float16),
    "host_bf16": Variant("host", torch.bfloat16),
}
_CUDA = {
    "torch_f32": Variant("torch", torch.float32),
    "torch_f16": Variant("torch", torch.float16),
    "simt_ieee": Variant("simt", torch.float32, "ieee"),
    "sm80_tf32x3": Variant("sm80", torch.float32, "tf32x3"),
    "sm80_f16": Variant("sm80", torch.float16),
    "sm80_bf16": Variant("sm80", torch.bfloat16),
}


def variants(device: str) -> dict[str, Variant]:
    """All that run on `device` (`"host"` or `"cuda"`)."""
    return _HOST if device == "host" else _CUDA


def ours(device: str) -> dict[str, Variant]:
    """Those whose kernels are ours."""
    return {
        name: variant
        for name, variant in variants(device).items()
        if variant.op not in ("torch", "sdpa")
    }


def examples(in_ci: int) -> settings:
    """So many examples a variant in the profile `ci`, fewer in proportion below it; above it the
    profile's number is spread over the variants.
    """
    ci, now = settings.get_profile("ci").max_examples, settings.default.max_examples
    if now > ci:
        return settings(max_examples=-(-now // len(_HOST)))
    return settings(max_examples=max(1, in_ci * now // ci))


@contextlib.contextmanager
def running(variant: Variant, schedule: Schedule):
    """Runs the variant's kernels as `schedule` says, where they run on the CPU."""
    if variant.op != "host":
        yield
        return
    from cutlass_ext import host

    with host.options(order=schedule.order, seed=schedule.seed, poison=schedule.poison):
        yield


def attend(variant: Variant, query, key, value, causal=False, scale=None, schedule=None):
    """Output and, where the family has it, log-sum-exp."""
    bias = LowerTriangularMask() if causal else None
    options = {"op": variant.op, "precision": variant.precision, "scale": scale}
    with running(variant, schedule or Schedule()):
        if variant.has_lse:
            return fmha.memory_efficient_attention_forward_requires_grad(
                query, key, value, bias, **options
            )
        return fmha.memory_efficient_attention(query, key, value, bias, **options), None


def assert_values(variant: Variant, operands, causal: bool, scale: float, output, lse) -> None:
    """The contract of values: shapes and dtypes, and both results within their bounds."""
    query, key, value = (tensor.cpu() for tensor in operands)
    expected = reference(query, key, value, causal, scale)
    assert output.shape == expected.output.shape
    assert output.dtype == variant.dtype
    error = (output.cpu().double() - expected.output).abs()
    bound = tolerance(query, key, value, expected, causal, scale, variant.arithmetic)
    assert not torch.isnan(error).any()
    assert error.numel() == 0 or error.max().item() <= bound
    if lse is None:
        return
    assert lse.shape == expected.lse.shape and lse.dtype == torch.float32
    hidden = expected.lse.isneginf()
    assert torch.equal(lse.cpu().isneginf(), hidden)
    error = (lse.cpu().double() - expected.lse)[~hidden].abs()
    bound = lse_tolerance(expected, query.shape[3], key.shape[1], variant.arithmetic)
    assert not torch.isnan(error).any()
    assert error.numel() == 0 or error.max().item() <= bound
