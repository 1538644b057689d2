"""What dispatch asks of a family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from cutlass_ext.fmha.problem import Problem


@dataclass(frozen=True)
class Obstacle:
    """Why a family can't serve a problem, and what would mend it (a clause each)."""

    reason: str
    mend: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.mend}"


class Launch(Protocol):
    """A prepared call: serves any tensors with the metadata of those that it was prepared for."""

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As `Family.forward`."""


class Family(Protocol):
    """A set of kernels.

    name             as `op` takes it
    ours             whether `op="ours"` may choose it
    """

    name: str
    ours: bool

    def obstacles(self, problem: Problem) -> list[Obstacle]:
        """Empty where the family serves the problem."""

    def forward(self, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Output `[B, M, H, Kv]` and log-sum-exp `[B, H, M]` float32, or None where not needed.

        The problem has at least one key and one output element, and no obstacle.
        """

    def prepare(self, problem: Problem) -> Launch | None:
        """The same for later calls; None where the family prepares nothing for such problems."""
