"""Warm calls: a prepared launch serves what it was prepared for, and nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch

from cutlass_ext import _eager, fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask
from cutlass_ext.gemm import chained_gemm, grouped_chained_gemm


def op_of(device: str) -> str:
    return "host" if device == "host" else "sm80"


def place(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return tensor if device == "host" else tensor.cuda()


def attention(query, key, value, causal=False, scale=None):
    """In float64."""
    query, key, value = (t.double().transpose(1, 2) for t in (query, key, value))
    scores = query @ key.mT * (query.shape[3] ** -0.5 if scale is None else float(scale))
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


def layouts(values: torch.Tensor, device: str) -> list[torch.Tensor]:
    """The same values, contiguous, with heads outside rows, at an odd address, columns apart."""
    spread = torch.zeros(*values.shape[:3], values.shape[3] + 1, dtype=values.dtype)
    spread[..., 1:] = values
    apart = torch.zeros(*values.shape, 2, dtype=values.dtype)
    apart[..., 0] = values
    return [
        place(values, device),
        place(values.transpose(1, 2).contiguous(), device).transpose(1, 2),
        place(spread, device)[..., 1:],
        place(apart, device)[..., 0],
    ]


def test_every_layout_dtype_and_option_has_its_own(device):
    """Two rounds of all combinations in turn, each against float64."""
    torch.manual_seed(0)
    operands = [torch.randn(2, 17, 2, 32) for _ in range(3)]
    cases = itertools.product((torch.float16, torch.float32), range(4), (False, True), (None, 0.5))
    for dtype, layout, causal, scale in [*cases] * 2:
        rounded = [t.to(dtype) for t in operands]
        given = [layouts(t, device)[layout] for t in rounded]
        bias = LowerTriangularMask() if causal else None
        output = fmha.memory_efficient_attention(*given, bias, scale=scale, op=op_of(device))
        expected = attention(*rounded, causal, scale)
        assert output.dtype == dtype
        # Two roundings to 16 bits of weights and output below 4, or float32's.
        bound = 8e-3 if dtype == torch.float16 else 1e-5
        assert (output.cpu().double() - expected).abs().max() < bound


def test_values_are_read_anew(device):
    """Operands changed in place, and a scale that is a tensor."""
    torch.manual_seed(0)
    operands = [place(torch.randn(1, 5, 1, 32), device) for _ in range(3)]
    scale = torch.tensor(0.1)
    for _ in range(3):
        output = fmha.memory_efficient_attention(*operands, scale=scale, op=op_of(device))
        expected = attention(*(t.cpu() for t in operands), scale=scale)
        assert (output.cpu().double() - expected).abs().max() < 1e-5
        operands[0].neg_()
        scale += 0.3


def test_outputs_are_new(device):
    operands = [place(torch.randn(1, 5, 1, 32), device) for _ in range(3)]
    first, second = (fmha.memory_efficient_attention(*operands, op=op_of(device)) for _ in "12")
    assert first.data_ptr() != second.data_ptr()


def test_gradients_after_a_warm_call():
    """The family that serves without gradients does not serve with them, nor the other way."""
    operands = [torch.randn(1, 5, 1, 8, dtype=torch.float64) for _ in range(3)]
    for _ in range(2):
        plain = fmha.memory_efficient_attention(*operands)
        leaves = [t.clone().requires_grad_() for t in operands]
        output = fmha.memory_efficient_attention(*leaves)
        output.sum().backward()
        assert leaves[0].grad is not None and not plain.requires_grad
        with torch.no_grad():
            assert not fmha.memory_efficient_attention(*leaves).requires_grad


def test_what_others_have_to_see_is_not_plain():
    from torch._subclasses.fake_tensor import FakeTensorMode

    tensor = torch.zeros(2)
    assert _eager.is_plain([tensor])
    assert _eager.is_plain([torch.nn.Parameter(tensor, requires_grad=False)])
    assert not _eager.is_plain([torch.nn.Parameter(tensor)])
    assert not _eager.is_plain([tensor.to("meta")])
    assert not _eager.is_plain([3])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert not _eager.is_plain([tensor])
    with FakeTensorMode():
        assert not _eager.is_plain([torch.zeros(2)])
        assert not _eager.is_plain([tensor])
    seen = []
    torch.func.vmap(lambda x: (seen.append(_eager.is_plain([x])), x)[1])(tensor)
    assert seen == [False]


def test_meta_tensors_give_meta_tensors():
    operands = [torch.empty(2, 3, 4, 8, device="meta") for _ in range(3)]
    assert fmha.memory_efficient_attention(*operands).is_meta
    assert chained_gemm(*(torch.empty(8, 8, device="meta") for _ in range(3))).is_meta


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_chained_gemm_with_and_without_source(device, beta):
    """A source that beta leaves out, and one that it does not, in turn."""
    torch.manual_seed(0)
    a, b0, b1, source = (torch.randint(-2, 3, (16, 16)).half() for _ in range(4))
    options = {"activation": "relu", "op": "host" if device == "host" else None}
    for given in (None, source) * 2:
        if given is None and beta:
            continue
        placed = [place(t, device) for t in (a, b0, b1)]
        more = {} if given is None else {"source": place(given, device), "beta": beta}
        expected = torch.relu(a.double() @ b0.double()) @ b1.double()
        expected += 0 if given is None else beta * given.double()
        assert torch.equal(chained_gemm(*placed, **more, **options).cpu(), expected.half())
        lists = [[t, t] for t in placed]
        more = {} if given is None else {"source": [more["source"]] * 2, "beta": beta}
        for output in grouped_chained_gemm(*lists, **more, **options):
            assert torch.equal(output.cpu(), expected.half())
