"""`cutlass_ext.gemm`: layouts, gradients, registration and refusals of the Python functions."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from cutlass_ext.gemm import chained_gemm, grouped_chained_gemm
from cutlass_ext.gemm.kernels import ACTIVATIONS

F16, F32, F64 = torch.float16, torch.float32, torch.float64


@pytest.fixture(scope="module")
def op(device: str) -> str | None:
    """What runs our kernels where the tests run."""
    return "host" if device == "host" else None


def integers(*shape: int, dtype: torch.dtype = F16, high: int = 2) -> torch.Tensor:
    return torch.randint(-high, high + 1, shape).to(dtype)


def to(device: str, *tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    target = "cpu" if device == "host" else "cuda"
    return [None if t is None else t.to(target) for t in tensors]


@given(data=st.data(), dtype=st.sampled_from((F16, F32)), seed=st.integers(0, 2**31))
def test_any_layout(device, op, data, dtype, seed):
    """Batch dimensions here and there, transposed and sliced tensors, empty ones."""
    torch.manual_seed(seed)
    flags = st.booleans()
    # One library a dtype: multiples of the vector, few columns.
    batch, m = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 40))
    n0, k0, n1 = (8 * data.draw(st.integers(0, 4)) for _ in range(3))

    def matrix(rows: int, columns: int, high: int) -> torch.Tensor:
        lead = (batch,) if data.draw(flags) else ()
        if data.draw(flags):
            return integers(*lead, columns, rows, dtype=dtype, high=high).mT
        return integers(*lead, rows, columns + 8, dtype=dtype, high=high)[..., :columns]

    a, b0, b1 = matrix(m, k0, 2), matrix(k0, n0, 2), matrix(n0, n1, 1)
    bias0 = integers(n0, dtype=dtype) if data.draw(flags) else None
    source = matrix(m, n1, 4) if data.draw(flags) else None
    a, b0, b1, bias0, source = to(device, a, b0, b1, bias0, source)
    options = {"bias0": bias0, "source": source, "activation": "relu", "alpha": 2.0}
    options["beta"] = 0.0 if source is None else -1.0
    output = chained_gemm(a, b0, b1, op=op, **options)
    expected = chained_gemm(a, b0, b1, op="torch", **options)
    assert output.shape == expected.shape
    assert output.is_contiguous()
    assert torch.equal(output, expected)


@given(seed=st.integers(0, 2**31), count=st.integers(0, 5), has_source=st.booleans())
def test_list(device, op, seed, count, has_source):
    torch.manual_seed(seed)
    rows = torch.randint(0, 200, (count,)).tolist()
    a = to(device, *(integers(m, 16) for m in rows))
    b0 = to(device, *(integers(16, 24) for _ in rows))
    b1 = to(device, *(integers(24, 8) for _ in rows))
    source = to(device, *(integers(m, 8) for m in rows)) if has_source else None
    options = {"source": source, "beta": float(has_source), "activation": "relu"}
    outputs = grouped_chained_gemm(a, b0, b1, op=op, **options)
    expected = grouped_chained_gemm(a, b0, b1, op="torch", **options)
    assert len(outputs) == count
    for output, right in zip(outputs, expected, strict=True):
        assert torch.equal(output, right)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("batched", [(), ("a",), ("a", "b0", "bias0"), ("b1", "source")])
def test_gradients(activation, batched):
    """First and second derivatives against differences, in float64."""
    torch.manual_seed(1)
    shapes = {"a": (3, 4), "b0": (4, 5), "b1": (5, 2), "bias0": (5,), "source": (3, 2)}
    tensors = [
        # ReLU has no derivative at 0.
        torch.randn(*((2,) if name in batched else ()), *shape, dtype=F64, requires_grad=True)
        for name, shape in shapes.items()
    ]

    def function(a, b0, b1, bias0, source):
        return chained_gemm(
            *(a, b0, b1), bias0=bias0, source=source, activation=activation, alpha=0.5, beta=2.0
        )

    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


def test_gradients_through_a_kernel(device, op):
    """They are the torch way's, whichever kernel ran forward."""
    torch.manual_seed(2)
    values = to(device, integers(20, 16), integers(16, 24), integers(24, 8), integers(24))

    def gradients(op: str | None) -> list[torch.Tensor]:
        inputs = [v.clone().requires_grad_() for v in values]
        a, b0, b1, bias0 = inputs
        chained_gemm(a, b0, b1, bias0=bias0, activation="relu", op=op).sum().backward()
        return [t.grad for t in inputs]

    for ours, theirs in zip(gradients(op), gradients("torch"), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_through_a_list(device, op):
    values = to(device, integers(20, 16), integers(16, 24), integers(24, 8))
    a, b0, b1 = (v.requires_grad_() for v in values)
    first, second = grouped_chained_gemm([a, a[:5]], [b0, b0], [b1, b1], op=op)
    (first.sum() + second.sum()).backward()
    assert all(t.grad is not None for t in (a, b0, b1))


@pytest.mark.parametrize("dtype", [F16, F32])
def test_registration(device, op, dtype):
    """Schema, fake, autograd registration as PyTorch checks them."""
    tensors = to(device, *(integers(*s, dtype=dtype) for s in ((2, 9, 8), (8, 16), (16, 8))))
    bias0, source = to(device, integers(16, dtype=dtype), integers(2, 9, 8, dtype=dtype))
    torch.library.opcheck(
        torch.ops.cutlass_ext.chained_gemm.default,
        (*tensors, bias0, source, "silu", 1.0, 0.5, dtype, None if dtype == F16 else "ieee", op),
    )


def test_other_output_dtype(device, op):
    """float32 output keeps what float16 would round."""
    a, b0, b1 = to(device, torch.full((1, 8), 2.0), torch.full((8, 8), 8.0), torch.ones(8, 8))
    output = chained_gemm(a.half(), b0.half(), (b1 * 513).half(), op=op, output_dtype=F32)
    assert output.dtype == F32
    assert (output == 2 * 8 * 8 * 8 * 513).all()


def test_falls_back_to_torch():
    """float64 has no kernel, and a CPU tensor none that is fast."""
    a, b0, b1 = (torch.eye(3, dtype=F64) for _ in range(3))
    assert torch.equal(chained_gemm(a, b0, b1), a)


A, B0, B1 = torch.zeros(4, 8), torch.zeros(8, 16), torch.zeros(16, 8)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((A, B0.T, B1), {}, "b0 is [16, 8] and a is [..., 4, 8]: pass [..., 8, 8]."),
        ((A, B0, B0), {}, "b1 is [8, 16] and b0 is [..., 8, 16]: pass [..., 16, 16]."),
        (
            (A, B0, B1),
            {"bias0": torch.zeros(8)},
            "bias0 is [8] and b0 is [..., 8, 16]: pass [..., 16].",
        ),
        (
            (A, B0, B1),
            {"source": A.T},
            "source is [8, 4] and the output is [..., 4, 8]: pass [..., 4, 8].",
        ),
        (
            (A, B0, B1),
            {"beta": 1.0},
            "beta is 1.0 and there is no source: pass source, or beta=0.0.",
        ),
        (
            (A, B0.half(), B1),
            {},
            "a is float32 and b0 float16: convert one of them.",
        ),
        (
            (A.long(), B0.long(), B1.long()),
            {},
            "the tensors are int64: pass float16, bfloat16, float32 or float64.",
        ),
        (
            (A, B0[0], B1),
            {},
            "b0 has 1 dimensions: pass 2, or 3 with a batch dimension in front.",
        ),
        ((A, None, B1), {}, "b0 is a NoneType: pass a torch.Tensor."),
        (
            (A.expand(2, 4, 8), B0.expand(3, 8, 16), B1),
            {},
            "batch sizes differ (a 2, b0 3): give all the same, or no batch dimension.",
        ),
        (
            (A, B0, B1),
            {"activation": "tanh"},
            "activation is 'tanh': pass 'identity', 'relu', 'gelu' or 'silu'.",
        ),
        (
            (A, B0, B1),
            {"precision": "fp8"},
            "precision is 'fp8': pass 'ieee', 'tf32x3', 'tf32' or None for the default.",
        ),
        (
            (A.half(), B0.half(), B1.half()),
            {"precision": "ieee"},
            "precision is 'ieee' and the tensors are float16: precision is for float32; pass "
            "precision=None.",
        ),
        (
            (A, B0, B1),
            {"op": "cublas"},
            "op is 'cublas': pass None, 'registers', 'shared', 'host' or 'torch'.",
        ),
        (
            (A, B0, B1),
            {"output_dtype": torch.int8},
            "output_dtype is int8: pass float16, bfloat16, float32 or float64.",
        ),
    ],
)
def test_says_what_is_wrong(arguments, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        chained_gemm(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (A, B0, B1),
            {"op": "shared"},
            "op='shared' can't serve: the tensors are on cpu: move them to a CUDA device, or pass "
            "op='host'.",
        ),
        (
            (A.double(), B0.double(), B1.double()),
            {"op": "host"},
            "op='host' can't serve: the operands are float64: pass float16, bfloat16 or float32.",
        ),
        (
            (A, B0, B1),
            {"op": "host", "source": torch.zeros(4, 8).half(), "beta": 1.0},
            "op='host' can't serve: source is float16 and the output float32: convert source.",
        ),
    ],
)
def test_says_why_it_cannot(arguments, options, message):
    with pytest.raises(NotImplementedError, match=f"^{re.escape(message)}$"):
        chained_gemm(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([A, A], [B0], [B1, B1]), "a has 2 tensors and b0 1: give as many."),
        (
            ([A, A], [B0, B0.T], [B1, B1]),
            "problem 1: b0 is [16, 8] and a is [..., 4, 8]: pass [..., 8, 8].",
        ),
        (
            ([A[None]], [B0], [B1]),
            "problem 0 has a batch dimension: make each of its problems one of the list.",
        ),
        (
            ([A, A.half()], [B0, B0.half()], [B1, B1.half()]),
            "problem 1 is torch.float16 on cpu and problem 0 torch.float32 on cpu: give all the "
            "same.",
        ),
    ],
)
def test_says_what_is_wrong_with_a_list(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        grouped_chained_gemm(*arguments)


def test_gpu_with_little_shared_memory(monkeypatch):
    """A laptop's GPU: not ours, in a sentence, where op names us; else PyTorch's operations."""
    from types import SimpleNamespace

    from cutlass_ext.gemm import device as kernels
    from cutlass_ext.gemm.problem import make_options

    options = make_options(torch.empty(0, dtype=F16), "relu", 1.0, 0.0, None, None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: SimpleNamespace(shared_memory_per_block_optin=99 * 1024),
    )
    reason = kernels.obstacle(torch.device("cuda:0"), F16, None, options, None)
    assert reason == (
        "a block has 99 KB of shared memory on this GPU and the kernels take up to 152 KB: pass "
        "op='torch'"
    )
