"""Refusals, to the letter: what was given, what is needed, what to write."""

from __future__ import annotations

import pytest
import torch

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import AttentionBias, LowerTriangularMask


def operands(
    query=(2, 5, 3, 8), key=(2, 7, 3, 8), value=(2, 7, 3, 8), dtype=torch.float16, device="cpu"
):
    return [torch.zeros(shape, dtype=dtype, device=device) for shape in (query, key, value)]


def message(error: type[Exception], *arguments, **options) -> str:
    with pytest.raises(error) as caught:
        fmha.memory_efficient_attention(*arguments, **options)
    return str(caught.value)


WRONG = {
    "not a tensor": (
        lambda: ([0.0], *operands()[1:]),
        "query is a list: pass a torch.Tensor.",
    ),
    "rank 2": (
        lambda: operands((5, 8), (7, 8), (7, 8)),
        "Tensors of shapes query [5, 8], key [7, 8], value [7, 8] were given: all have to be "
        "[B, M, H, K] or all [B, M, K]; change the rank with unsqueeze or flatten.",
    ),
    "ranks mixed": (
        lambda: operands(query=(2, 5, 8)),
        "Tensors of shapes query [2, 5, 8], key [2, 7, 3, 8], value [2, 7, 3, 8] were given: all "
        "have to be [B, M, H, K] or all [B, M, K]; change the rank with unsqueeze or flatten.",
    ),
    "dtypes mixed": (
        lambda: [
            t.to(d)
            for t, d in zip(operands(), (torch.float16, torch.float32, torch.float16), strict=True)
        ],
        "Tensors of several dtypes were given (query float16, key float32, value float16): all "
        "have to have the same; convert them with tensor.to(query.dtype).",
    ),
    "devices mixed": (
        lambda: [operands()[0], *operands(device="meta")[1:]],
        "Tensors on several devices were given (query cpu, key meta, value meta): all have to be "
        "on one; move them with tensor.to(query.device).",
    ),
    "integers": (
        lambda: operands(dtype=torch.int32),
        "int32 tensors were given: attention takes float16, bfloat16, float32 and float64; convert "
        "them with tensor.to(torch.float16).",
    ),
    "head dims": (
        lambda: operands(key=(2, 7, 3, 16)),
        "query has head dim 8 and key 16 (query [2, 5, 3, 8], key [2, 7, 3, 16], value "
        "[2, 7, 3, 8]): both have to be K, only value may differ; project them to one width, or "
        "pad the narrower with zeros (torch.nn.functional.pad) and pass scale.",
    ),
    "numbers of keys": (
        lambda: operands(value=(2, 6, 3, 8)),
        "key has 7 rows and value 6 (query [2, 5, 3, 8], key [2, 7, 3, 8], value [2, 6, 3, 8]): "
        "both have to be N; cut the longer with tensor[:, :6].",
    ),
    "batch sizes": (
        lambda: operands(key=(1, 7, 3, 8), value=(1, 7, 3, 8)),
        "The batch sizes differ (query [2, 5, 3, 8], key [1, 7, 3, 8], value [1, 7, 3, 8]): expand "
        "the smaller ones with tensor.expand, which copies nothing.",
    ),
    "numbers of heads": (
        lambda: operands(key=(2, 7, 1, 8), value=(2, 7, 1, 8)),
        "The numbers of heads differ (query [2, 5, 3, 8], key [2, 7, 1, 8], value [2, 7, 1, 8]): "
        "expand key and value with tensor.expand, which copies nothing.",
    ),
    "no head dim": (
        lambda: operands((2, 5, 3, 0), (2, 7, 3, 0)),
        "A head dim is 0 (query [2, 5, 3, 0], key [2, 7, 3, 0], value [2, 7, 3, 8]): K and Kv have "
        "to be at least 1.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operands(name):
    make, text = WRONG[name]
    assert message(ValueError, *make()) == text


WRONG_OPTIONS = {
    "precision": (
        {"precision": "tf64"},
        torch.float32,
        "precision is 'tf64': pass 'ieee', 'tf32x3', 'tf32' or None for the default.",
    ),
    "precision of 16 bits": (
        {"precision": "ieee"},
        torch.float16,
        "precision is 'ieee' and the tensors are float16: precision is for float32; pass "
        "precision=None.",
    ),
    "op": (
        {"op": "fastest"},
        torch.float16,
        "op is 'fastest': pass None for the fastest that serves, 'ours' for any of our own, or one "
        "of 'sm80', 'simt', 'host', 'sdpa', 'torch'.",
    ),
    "bias": (
        {"attn_bias": "causal"},
        torch.float16,
        "attn_bias is a str: pass None or cutlass_ext.fmha.attn_bias.LowerTriangularMask().",
    ),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_options(name):
    options, dtype, text = WRONG_OPTIONS[name]
    assert message(ValueError, *operands(dtype=dtype), **options) == text


class _OtherMask(AttentionBias):
    def materialize(self, shape, dtype=torch.float32, device="cpu"):
        raise AssertionError("never asked")


NOT_BUILT = {
    "dropout": (
        lambda: operands(),
        {"p": 0.1},
        "p is 0.1: dropout is not built yet; pass p=0.0.",
    ),
    "tensor bias": (
        lambda: operands(),
        {"attn_bias": torch.zeros(2, 3, 5, 7)},
        "attn_bias is a tensor of shape [2, 3, 5, 7], which is not built yet: pass None or "
        "cutlass_ext.fmha.attn_bias.LowerTriangularMask().",
    ),
    "other masks": (
        lambda: operands(),
        {"attn_bias": _OtherMask()},
        "attn_bias is a _OtherMask, which is not built yet: pass None or "
        "cutlass_ext.fmha.attn_bias.LowerTriangularMask().",
    ),
    "groups": (
        lambda: operands((2, 5, 3, 2, 8), (2, 7, 3, 1, 8), (2, 7, 3, 1, 8)),
        {},
        "Tensors of rank 5 were given (query [2, 5, 3, 2, 8], key [2, 7, 3, 1, 8], value "
        "[2, 7, 3, 1, 8]): grouped heads are not built yet; expand key and value and pass "
        "[B, M, H, K] tensors.",
    ),
    "family": (
        lambda: operands(),
        {"op": "sm90"},
        "op is 'sm90', which is not built yet: pass None for the fastest that serves, 'ours' for "
        "any of our own, or one of 'sm80', 'simt', 'host', 'sdpa', 'torch'.",
    ),
}


@pytest.mark.parametrize("name", NOT_BUILT)
def test_not_built_yet(name):
    make, options, text = NOT_BUILT[name]
    assert message(NotImplementedError, *make(), **options) == text


def test_gradient_from_a_family_without_backward():
    query, key, value = operands()
    query.requires_grad_()
    assert message(NotImplementedError, query, key, value, op="host") == (
        "No family serves this call with op='host'.\n"
        "attention forward: query [2, 5, 3, 8], key [2, 7, 3, 8], value [2, 7, 3, 8], float16, "
        "cpu, gradient\n"
        "  host  no: the backward is not built yet; call it under torch.no_grad(), or pass "
        "op='torch' or 'sdpa'"
    )
    with torch.no_grad():
        assert fmha.memory_efficient_attention(query, key, value, op="host").shape == (2, 5, 3, 8)


def test_cpu_tensors_for_a_gpu_family():
    assert message(NotImplementedError, *operands(), op="sm80") == (
        "No family serves this call with op='sm80'.\n"
        "attention forward: query [2, 5, 3, 8], key [2, 7, 3, 8], value [2, 7, 3, 8], float16, "
        "cpu\n"
        "  sm80  no: the tensors are on cpu; move them to a CUDA device, or pass op='host' to run "
        "its kernels on the CPU"
    )


def test_all_that_stands_in_the_way_is_listed():
    wide = (2, 5, 3, 136)
    given = operands(wide, wide, wide, dtype=torch.float64)
    assert message(NotImplementedError, *given, op="host", output_dtype=torch.float32) == (
        "No family serves this call with op='host'.\n"
        "attention forward: query [2, 5, 3, 136], key [2, 5, 3, 136], value [2, 5, 3, 136], "
        "float64, cpu\n"
        "  host  no: the output is float64 like the operands; leave output_dtype out and convert "
        "the output\n"
        "          : K = 136, Kv = 136 and the kernels reach 128; pass op='torch' or 'sdpa'\n"
        "          : it has no kernel for float64; pass float16, bfloat16 or float32 tensors, with "
        "precision None, 'tf32x3' or 'ieee'"
    )


def test_lse_from_a_family_without_it():
    with pytest.raises(NotImplementedError) as caught:
        fmha.memory_efficient_attention_forward_requires_grad(*operands(), op="sdpa")
    assert str(caught.value).splitlines()[-1] == (
        "  sdpa  no: PyTorch's call does not return the log-sum-exp; use "
        "memory_efficient_attention, which doesn't ask for it"
    )


def test_explain(device):
    if device != "host":
        pytest.skip("the table of a CPU")
    assert fmha.explain(*operands(), LowerTriangularMask()) == (
        "attention forward: query [2, 5, 3, 8], key [2, 7, 3, 8], value [2, 7, 3, 8], float16, "
        "cpu, causal\n"
        "  torch runs\n"
        "  sdpa  serves\n"
        "  host  no: it runs GPU kernels on the CPU, slowly; pass op='host' to have that\n"
        "  sm80  no: the tensors are on cpu; move them to a CUDA device, or pass op='host' to run "
        "its kernels on the CPU\n"
        "  simt  no: the tensors are on cpu; move them to a CUDA device, or pass op='host' to run "
        "its kernels on the CPU\n"
        "          : it has no kernel for float16; pass float32 tensors with precision=None or "
        "'ieee'"
    )


def test_explain_on_a_gpu(device):
    if device != "cuda":
        pytest.skip("the table of a GPU")
    text = fmha.explain(*operands(device="cuda"))
    assert text.splitlines()[1:3] == ["  sm80  runs", "  sdpa  serves"]


def test_mask_is_what_it_materializes():
    bias = LowerTriangularMask().materialize((2, 3, 4))
    expected = torch.zeros(3, 4).masked_fill(torch.ones(3, 4).triu(1).bool(), -torch.inf)
    assert torch.equal(bias, expected.expand(2, 3, 4))
