"""One attention call as families see it: checked, in one layout, with everything they decide on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from cutlass_ext.fmha.attn_bias import AttentionBias, LowerTriangularMask

PRECISIONS = ("ieee", "tf32x3", "tf32")
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Problem:
    """Operands `[B, M, H, K]`, `[B, N, H, K]`, `[B, N, H, Kv]` and the options of a call.

    precision   of float32 products as the caller asked for it; None: any that is float32-accurate
    needs_grad  whether autograd has to differentiate the output
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    causal: bool
    scale: float
    precision: str | None
    output_dtype: torch.dtype
    needs_grad: bool
    needs_lse: bool

    @property
    def device(self) -> torch.device:
        """Where the operands are."""
        return self.query.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the operands."""
        return self.query.dtype

    @property
    def head_dim(self) -> int:
        """The greater of K and Kv."""
        return max(self.query.shape[3], self.value.shape[3])

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """`(B, M, H, Kv)`"""
        return (*self.query.shape[:3], self.value.shape[3])

    @property
    def lse_shape(self) -> tuple[int, int, int]:
        """`(B, H, M)`"""
        batch, queries, heads, _ = self.query.shape
        return (batch, heads, queries)

    @property
    def is_empty(self) -> bool:
        """No key or no output: nothing is computed."""
        return 0 in self.output_shape or self.key.shape[1] == 0

    def describe(self) -> str:
        """Shapes, dtype, device and options in a line."""
        shapes = ", ".join(
            f"{name} {list(tensor.shape)}"
            for name, tensor in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        options = [
            name for name, on in (("causal", self.causal), ("gradient", self.needs_grad)) if on
        ]
        if self.precision:
            options.append(f"precision {self.precision}")
        return ", ".join([shapes, _name(self.dtype), str(self.device), *options])


def make_problem(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: AttentionBias | torch.Tensor | None,
    p: float,
    scale: float | None,
    output_dtype: torch.dtype | None,
    precision: str | None,
    needs_lse: bool,
) -> Problem:
    """Checks a call and brings it into `[B, M, H, K]`.

    ValueError where the input is wrong, NotImplementedError where it asks for what is not built
    yet; each says what was given, what is needed and what to write.
    """
    operands = {"query": query, "key": key, "value": value}
    for name, tensor in operands.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is a {type(tensor).__name__}: pass a torch.Tensor.")
    _check_rank(operands)
    _check_same(operands)
    query, key, value = map(with_heads, (query, key, value))
    _check_shapes(query, key, value)
    if p != 0.0:
        raise NotImplementedError(f"p is {p}: dropout is not built yet; pass p=0.0.")
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(
            f"precision is {precision!r}: pass 'ieee', 'tf32x3', 'tf32' or None for the default."
        )
    if precision is not None and query.dtype != torch.float32:
        raise ValueError(
            f"precision is {precision!r} and the tensors are {_name(query.dtype)}: precision "
            "is for float32; pass precision=None."
        )
    return Problem(
        query=query,
        key=key,
        value=value,
        causal=_is_causal(attn_bias),
        scale=float(scale) if scale is not None else 1.0 / math.sqrt(max(query.shape[3], 1)),
        precision=precision,
        output_dtype=output_dtype or query.dtype,
        needs_grad=torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value)),
        needs_lse=needs_lse,
    )


def with_heads(tensor: torch.Tensor) -> torch.Tensor:
    """`[B, M, H, K]`, of one head where it is `[B, M, K]`."""
    return tensor.unsqueeze(2) if tensor.dim() == 3 else tensor


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _listed(operands: dict[str, torch.Tensor], what) -> str:
    return ", ".join(f"{name} {what(tensor)}" for name, tensor in operands.items())


def _check_rank(operands: dict[str, torch.Tensor]) -> None:
    ranks = {tensor.dim() for tensor in operands.values()}
    if ranks == {5}:
        raise NotImplementedError(
            f"Tensors of rank 5 were given ({_listed(operands, lambda t: list(t.shape))}): grouped "
            "heads are not built yet; expand key and value and pass [B, M, H, K] tensors."
        )
    if len(ranks) != 1 or not ranks <= {3, 4}:
        raise ValueError(
            f"Tensors of shapes {_listed(operands, lambda t: list(t.shape))} were given: all have "
            "to be [B, M, H, K] or all [B, M, K]; change the rank with unsqueeze or flatten."
        )


def _check_same(operands: dict[str, torch.Tensor]) -> None:
    if len({tensor.device for tensor in operands.values()}) > 1:
        raise ValueError(
            f"Tensors on several devices were given ({_listed(operands, lambda t: t.device)}): all "
            "have to be on one; move them with tensor.to(query.device)."
        )
    if len({tensor.dtype for tensor in operands.values()}) > 1:
        raise ValueError(
            "Tensors of several dtypes were given "
            f"({_listed(operands, lambda t: _name(t.dtype))}): all have to have the same; convert "
            "them with tensor.to(query.dtype)."
        )
    dtype = operands["query"].dtype
    if dtype not in _DTYPES:
        raise ValueError(
            f"{_name(dtype)} tensors were given: attention takes float16, bfloat16, float32 and "
            "float64; convert them with tensor.to(torch.float16)."
        )


def _check_shapes(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if query.shape[3] != key.shape[3]:
        raise ValueError(
            f"query has head dim {query.shape[3]} and key {key.shape[3]} ({shapes}): both have to "
            "be K, only value may differ; project them to one width, or pad the narrower with "
            "zeros (torch.nn.functional.pad) and pass scale."
        )
    if key.shape[1] != value.shape[1]:
        raise ValueError(
            f"key has {key.shape[1]} rows and value {value.shape[1]} ({shapes}): both have to be "
            f"N; cut the longer with tensor[:, :{min(key.shape[1], value.shape[1])}]."
        )
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ValueError(
            f"The batch sizes differ ({shapes}): expand the smaller ones with tensor.expand, which "
            "copies nothing."
        )
    if not query.shape[2] == key.shape[2] == value.shape[2]:
        raise ValueError(
            f"The numbers of heads differ ({shapes}): expand key and value with tensor.expand, "
            "which copies nothing."
        )
    if query.shape[3] == 0 or value.shape[3] == 0:
        raise ValueError(f"A head dim is 0 ({shapes}): K and Kv have to be at least 1.")


def _is_causal(attn_bias: AttentionBias | torch.Tensor | None) -> bool:
    if attn_bias is None:
        return False
    if isinstance(attn_bias, LowerTriangularMask):
        return True
    what = (
        f"a tensor of shape {list(attn_bias.shape)}"
        if isinstance(attn_bias, torch.Tensor)
        else f"a {type(attn_bias).__name__}"
    )
    if not isinstance(attn_bias, (torch.Tensor, AttentionBias)):
        raise ValueError(
            f"attn_bias is {what}: pass None or cutlass_ext.fmha.attn_bias.LowerTriangularMask()."
        )
    raise NotImplementedError(
        f"attn_bias is {what}, which is not built yet: pass None or "
        "cutlass_ext.fmha.attn_bias.LowerTriangularMask()."
    )
