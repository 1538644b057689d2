"""Attention problems to draw, their float64 reference and the bound that an output has to meet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

LENGTHS = (0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 77, 127, 129, 197, 441)
HEAD_DIMS = (1, 4, 8, 20, 32, 40, 44, 64, 80, 88, 96, 100, 128)
LAYOUTS = (
    "contiguous",
    "packed",  # unbound from [B, M, 3, H, K]
    "transposed",  # [B, H, M, K] in memory
    "padded",  # three columns behind each row: strides that are no multiple of a vector
    "offset",  # begins at an odd element
    "one_head",  # expanded over heads, stride 0
    "one_batch",  # expanded over the batch, stride 0
    "strided",  # every second column: no contiguous last dimension
)


@dataclass(frozen=True)
class Sample:
    """Sizes, layouts and options of a call. Operands are standard normal; what lies between their
    elements in memory is NaN.
    """

    batch: int = 1
    heads: int = 1
    queries: int = 64
    keys: int = 64
    head_dim: int = 64
    value_dim: int = 64
    causal: bool = False
    scale: float | None = None
    layouts: tuple[str, str, str] = ("contiguous", "contiguous", "contiguous")
    seed: int = 0

    def tensors(
        self, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """query `[B, M, H, K]`, key `[B, N, H, K]`, value `[B, N, H, Kv]`."""
        generator = torch.Generator().manual_seed(self.seed)
        sizes = ((self.queries, self.head_dim), (self.keys, self.head_dim))
        sizes += ((self.keys, self.value_dim),)
        return tuple(
            lay_out(
                torch.randn(self.batch, rows, self.heads, width, generator=generator).to(dtype),
                layout,
                device,
            )
            for (rows, width), layout in zip(sizes, self.layouts, strict=True)
        )

    @property
    def effective_scale(self) -> float:
        """The scale, or its default."""
        return 1 / math.sqrt(self.head_dim) if self.scale is None else self.scale


def samples(
    lengths=LENGTHS, head_dims=HEAD_DIMS, layouts=LAYOUTS, heads: int = 3
) -> st.SearchStrategy[Sample]:
    """Any combination, up to `heads` heads; keys and queries independent of each other."""
    return st.builds(
        Sample,
        batch=st.integers(1, 2),
        heads=st.integers(1, heads),
        queries=st.sampled_from(lengths),
        keys=st.sampled_from(lengths),
        head_dim=st.sampled_from(head_dims),
        value_dim=st.sampled_from(head_dims),
        causal=st.booleans(),
        scale=st.sampled_from((None, None, 0.5, 0.0, -0.25)),
        layouts=st.tuples(*(st.sampled_from(layouts) for _ in range(3))),
        seed=st.integers(0, 2**31 - 1),
    )


def lay_out(tensor: torch.Tensor, layout: str, device: torch.device | str = "cpu") -> torch.Tensor:
    """A view, on the device, with the values of `[B, M, H, K]` `tensor` (of its first head or batch
    entry where the layout has only one), into memory that is NaN elsewhere.
    """
    batch, rows, heads, width = tensor.shape

    def memory(*shape: int) -> torch.Tensor:
        return torch.full(shape, math.nan, dtype=tensor.dtype, device=device)

    if layout == "contiguous":
        view = memory(batch, rows, heads, width)
    elif layout == "packed":
        view = memory(batch, rows, 3, heads, width).unbind(2)[1]
    elif layout == "transposed":
        view = memory(batch, heads, rows, width).transpose(1, 2)
    elif layout == "padded":
        view = memory(batch, rows, heads, width + 3)[..., :width]
    elif layout == "offset":
        view = memory(tensor.numel() + 3)[3:].view(tensor.shape)
    elif layout == "one_head":
        view = memory(batch, rows, 1, width).expand(tensor.shape)
        view[:, :, :1] = tensor[:, :, :1].to(device)
        return view
    elif layout == "one_batch":
        view = memory(1, rows, heads, width).expand(tensor.shape)
        view[:1] = tensor[:1].to(device)
        return view
    elif layout == "strided":
        view = memory(batch, rows, heads, 2 * width)[..., ::2]
    else:
        raise ValueError(f"layout is {layout!r}: give one of {', '.join(LAYOUTS)}.")
    return view.copy_(tensor)


@dataclass(frozen=True)
class Reference:
    """Attention in float64.

    output      `[B, M, H, Kv]`; 0 for a query without a visible key
    lse         `[B, H, M]`; -inf for such a query
    magnitude   the greatest sum of weights times absolute values: what rounding is relative to
    scores      the greatest absolute score that is visible
    """

    output: torch.Tensor
    lse: torch.Tensor
    magnitude: float
    scores: float


def reference(query, key, value, causal: bool, scale: float) -> Reference:
    """By the definition."""
    scores = _scores(*(t.double() for t in (query, key)), causal, scale)
    value = value.double().transpose(1, 2)
    weights = scores.softmax(-1).nan_to_num(0.0) if key.shape[1] else scores
    return Reference(
        output=(weights @ value).transpose(1, 2),
        lse=scores.logsumexp(-1),
        magnitude=float((weights @ value.abs()).max()) if weights.numel() * value.numel() else 0.0,
        scores=float(scores[scores.isfinite()].abs().max()) if scores.isfinite().any() else 0.0,
    )


def eager(query, key, value, causal: bool, scale: float) -> torch.Tensor:
    """PyTorch's composite formula in the operands' own dtype."""
    weights = _scores(query, key, causal, scale).softmax(-1)
    return (weights @ value.transpose(1, 2)).transpose(1, 2)


def tolerance(
    query, key, value, expected: Reference, causal: bool, scale: float, precision: str | None = None
) -> float:
    """Greatest admissible absolute error: 2 |eager - ref| + c eps |P||V|, norms being maxima.

    |P||V| stands where the contract has |ref|: rounding errors are relative to the terms of a sum,
    and with few keys the sum can cancel to nothing.

    c, in units of eps = 2 u, u being the unit of rounding:
      16 bits   Weights and output are rounded once each, u |P||V| both; products are exact and sums
                are float32's: 2 u, and half as much again for all of float32's. c = 2.
      float32   Rounding errors are random in sign and add as the root of their number (Higham and
                Mary, 2019); four standard deviations of a uniform error, 4 u / sqrt(3) = 1.2 eps.
                A score takes K of them, relative to partial sums of the score's size s; it acts on
                numerator and denominator: 2.4 sqrt(K) max(s, 1). The value product and the sum of
                the weights take N each, relative to |P||V|: 2.4 sqrt(N). Scaling, the maximum and
                the exponential (2^-22 = 2 eps) are relative to the score: 4 max(s, 1).
      tf32x3    An operand is two TF32 parts, 22 bits, and the product of the lesser parts is
                dropped: an error of 3 * 2^-22 = 6 eps a product, random in sign, against whose root
                sum the score stands as 1 to 1: four deviations of it, in numerator and
                denominator, 6 * 4 / sqrt(3) * 2 = 28; and once more in the value product.
    """
    eps = torch.finfo(query.dtype).eps
    c = 2.0
    if query.dtype == torch.float32:
        score = max(expected.scores, 1.0)
        c = (2.4 * math.sqrt(query.shape[3]) + 4) * score + 2.4 * math.sqrt(max(key.shape[1], 1))
        if precision == "tf32x3":
            c += 28 * score + 28
    own = eager(query, key, value, causal, scale).double().nan_to_num(0.0)
    difference = (own - expected.output).abs().max().item() if own.numel() else 0.0
    return 2 * difference + c * eps * expected.magnitude


def lse_tolerance(expected: Reference, head_dim: int, keys: int, precision: str | None) -> float:
    """Of the log-sum-exp, float32 for all dtypes: a score's error, as above, and the sum's."""
    eps = torch.finfo(torch.float32).eps
    c = (2.4 * math.sqrt(head_dim) + 4) * max(expected.scores, 1.0) + 2.4 * math.sqrt(max(keys, 1))
    return (c + (28 * max(expected.scores, 1.0) if precision == "tf32x3" else 0)) * eps


def _scores(query, key, causal: bool, scale: float) -> torch.Tensor:
    scores = query.transpose(1, 2) @ key.transpose(1, 2).transpose(2, 3) * scale
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores
