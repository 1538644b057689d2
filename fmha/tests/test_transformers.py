"""Attention inside models of `transformers`: equal to the library's own, or refused."""

from __future__ import annotations

import re

import pytest
import torch

transformers = pytest.importorskip("transformers")

from cutlass_ext.integrations.transformers import hides_something, register  # noqa: E402

SIZES = {
    "hidden_size": 96,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
}
# Two layers in float32 behind layer norms: outputs of size 1 to 4, each of some ten steps between
# them rounds by 2^-24, relative, sums of 96 terms included (their errors add as a root: 10).
BOUND = 4 * 10 * 10 * 2**-24


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**SIZES)).eval()


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return transformers.LlamaModel(transformers.LlamaConfig(**SIZES)).eval()


@pytest.fixture
def tokens():
    return torch.randint(0, 50, (2, 37), generator=torch.Generator().manual_seed(1))


def run(model, implementation, tokens, **inputs):
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return model(tokens, **inputs).last_hidden_state


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_equals_eager(request, our_variant, torch_device, tokens, kind):
    model = request.getfixturevalue(kind).to(torch_device)
    tokens = tokens.to(torch_device)
    expected = run(model, "eager", tokens)
    dtype = our_variant.dtype
    register("test_attention", op=our_variant.op, precision=our_variant.precision)
    output = run(model.to(dtype), "test_attention", tokens).float()
    assert output.std() > 0.5
    if dtype == torch.float32:
        assert (output - expected).abs().max() <= BOUND
    else:
        # Everything else in the model is rounded to 16 bits, too: as far off as eager is.
        own = (run(model, "eager", tokens).float() - expected).abs().max()
        assert (output - expected).abs().max() <= 2 * own


def test_a_mask_that_hides_nothing_is_none(encoder, decoder, tokens):
    register("test_attention", op="torch")
    for model in (encoder, decoder):
        expected = run(model, "eager", tokens)
        output = run(model, "test_attention", tokens, attention_mask=torch.ones_like(tokens))
        assert (output - expected).abs().max() <= BOUND


def test_a_mask_overrules_causal(decoder, tokens):
    """A prefix model's mask shows a decoder everything: it is not causal any more."""
    register("test_attention", op="torch")
    visible = torch.zeros(2, 1, 37, 37)
    expected = run(decoder, "eager", tokens, attention_mask=visible)
    output = run(decoder, "test_attention", tokens, attention_mask=visible)
    assert (output - expected).abs().max() <= BOUND


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_padding_is_refused(request, tokens, kind):
    """Never dropped: by default transformers makes no mask for a registered implementation."""
    register("test_attention", op="torch")
    mask = torch.ones_like(tokens)
    mask[0, :4] = 0
    message = (
        r"The model passes a mask of shape \[2, 1, 37, 37\] that hides keys, which is not built "
        r"yet: group inputs by length and leave attention_mask out, or use "
        r"attn_implementation='sdpa'\."
    )
    with pytest.raises(NotImplementedError, match=f"^{message}$"):
        run(request.getfixturevalue(kind), "test_attention", tokens, attention_mask=mask)


def test_decoding_with_a_cache(decoder, tokens):
    """One token after others sees all of them; several at once are refused."""
    register("test_attention", op="torch")
    expected = run(decoder, "eager", tokens)
    decoder.set_attn_implementation("test_attention")
    with torch.no_grad():
        cache = decoder(tokens[:, :36], use_cache=True).past_key_values
        output = decoder(tokens[:, 36:], past_key_values=cache).last_hidden_state
    assert (output - expected[:, 36:]).abs().max() <= BOUND

    with torch.no_grad():
        cache = decoder(tokens[:, :30], use_cache=True).past_key_values
        with pytest.raises(NotImplementedError, match=r"^The model passes a mask of shape \[2, 1"):
            decoder(tokens[:, 30:], past_key_values=cache)


def attention(**arguments):
    """The registered function on operands of a layer with 3 heads, 5 queries, 5 keys."""
    register("test_attention", op="torch")
    function = transformers.AttentionInterface._global_mapping["test_attention"]
    query = torch.zeros(2, 3, 5, 8)
    operands = {"query": query, "key": query, "value": query, "attention_mask": None}
    return function(torch.nn.Module(), **{**operands, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"key": torch.zeros(2, 1, 5, 8)},
            "The model has 3 query heads and 1 key heads: grouped heads are not built yet; use "
            "attn_implementation='sdpa'.",
        ),
        (
            {"key": torch.zeros(2, 3, 9, 8), "value": torch.zeros(2, 3, 9, 8), "is_causal": True},
            "5 queries meet 9 keys of a cache: causal attention from the bottom right is not built "
            "yet; use attn_implementation='sdpa'.",
        ),
        (
            {"softcap": 50.0},
            "The model passes softcap, which is not built yet: use attn_implementation='eager'.",
        ),
        (
            {"position_bias": torch.zeros(1, 3, 5, 5)},
            "The model passes position_bias, which is not built yet: use "
            "attn_implementation='eager'.",
        ),
        (
            {"dropout": 0.1},
            "p is 0.1: dropout is not built yet; pass p=0.0.",
        ),
    ],
    ids=["grouped heads", "cache", "softcap", "position bias", "dropout"],
)
def test_what_is_not_built_is_refused(arguments, message):
    with pytest.raises(NotImplementedError, match=f"^{re.escape(message)}$"):
        attention(**arguments)


def test_hides_something():
    assert not hides_something(None)
    assert not hides_something(torch.ones(2, 3, dtype=torch.bool))
    assert not hides_something(torch.zeros(2, 3))
    mask = torch.zeros(2, 3)
    mask[1, 2] = torch.finfo(torch.float32).min
    assert hides_something(mask)
    assert hides_something(mask == 0)


def test_nothing_is_copied(monkeypatch, tokens):
    """The model's transposed operands reach attention as views of the same memory."""
    seen = []

    def record(query, key, value, *arguments, **options):
        seen.extend((query, key, value))
        return torch.zeros_like(query)

    monkeypatch.setattr("cutlass_ext.fmha.memory_efficient_attention", record)
    operands = [torch.randn(2, 3, 5, 8) for _ in range(3)]
    attention(**dict(zip(("query", "key", "value"), operands, strict=True)), is_causal=False)
    assert [tensor.data_ptr() for tensor in seen] == [tensor.data_ptr() for tensor in operands]
