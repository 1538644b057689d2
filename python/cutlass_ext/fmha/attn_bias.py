"""Which keys a query sees, and what is added to the scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from typing_extensions import override


class AttentionBias(ABC):
    """What attention adds to scores `[..., M, N]`; `materialize` is its definition."""

    @abstractmethod
    def materialize(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> torch.Tensor:
        """The bias as a tensor of `shape` `[..., M, N]`: 0 where visible, -inf where not."""


class LowerTriangularMask(AttentionBias):
    """Causal from the top left: query i sees keys 0 ... i."""

    @override
    def materialize(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> torch.Tensor:
        hidden = torch.ones(tuple(shape[-2:]), dtype=torch.bool, device=device).triu(1)
        bias = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill(hidden, -math.inf)
        return bias.expand(tuple(shape))

    def __repr__(self) -> str:
        return "LowerTriangularMask()"
