"""Which family serves a problem: candidates in order of speed, and what stands in their way."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cutlass_ext.fmha.families.device_templates import Gpu, Host
from cutlass_ext.fmha.families.family import Family, Obstacle
from cutlass_ext.fmha.families.pytorch import PyTorch
from cutlass_ext.fmha.families.torch_operations import TorchOperations
from cutlass_ext.fmha.kernels import is_aligned
from cutlass_ext.fmha.problem import Problem

_SIMT = Gpu("simt", capability=(7, 5))
_SM80 = Gpu("sm80", capability=(8, 0))
_HOST = Host((_SM80, _SIMT))
_TORCH = TorchOperations()
_SDPA = PyTorch()

FAMILIES: dict[str, Family] = {
    family.name: family for family in (_SM80, _SIMT, _HOST, _SDPA, _TORCH)
}
_NOT_BUILT = ("sm70", "sm75", "sm90")
# cuDNN on Hopper and newer is ahead of mma.sync for these head dims; docs/performance has figures.
_CUDNN_CAPABILITY = (9, 0)
_CUDNN_HEAD_DIMS = range(48, 129, 8)


@dataclass(frozen=True)
class Candidate:
    """A family and why it can't serve; it serves where there is no obstacle."""

    family: Family
    obstacles: tuple[Obstacle, ...]


def candidates(problem: Problem, op: str | None) -> list[Candidate]:
    """All families that `op` admits, in order of speed.

    ValueError for an `op` that names nothing.
    """
    return [
        Candidate(family, tuple(family.obstacles(problem)) + _not_by_itself(family, problem, op))
        for family in _in_order(problem)
        if _admits(op, family)
    ]


def choose(problem: Problem, op: str | None) -> Family:
    """The first candidate that serves; NotImplementedError with the table if none does."""
    traits = (op, *_traits(problem))
    family = _chosen.get(traits)
    if family is not None:
        return family
    rows = candidates(problem, op)
    for row in rows:
        if not row.obstacles:
            _chosen[traits] = row.family
            return row.family
    raise NotImplementedError(
        "No family serves this call"
        + (f" with op={op!r}" if op else "")
        + f".\n{table(problem, rows)}"
    )


def _traits(problem: Problem) -> tuple:
    """All that obstacles and order depend on: problems that agree in it have one answer."""
    return (
        problem.device,
        problem.dtype,
        problem.query.shape[3],
        problem.value.shape[3],
        problem.precision,
        problem.output_dtype,
        problem.needs_grad,
        problem.needs_lse,
        problem.scale > 0,
        torch.backends.cuda.matmul.allow_tf32,
        *(_gpu_traits(problem) if problem.device.type == "cuda" else ()),
    )


def _gpu_traits(problem: Problem) -> tuple:
    operands = (problem.query, problem.key, problem.value)
    return (all(is_aligned(operand) and 0 not in operand.stride() for operand in operands),)


_chosen: dict[tuple, Family] = {}


def table(problem: Problem, rows: list[Candidate]) -> str:
    """The problem, and per candidate: runs, serves, or why not and what would mend it."""
    lines = [f"attention forward: {problem.describe()}"]
    chosen = next((row for row in rows if not row.obstacles), None)
    for row in rows:
        state = "runs" if row is chosen else "serves" if not row.obstacles else "no"
        head = f"  {row.family.name:<5} {state}"
        if not row.obstacles:
            lines.append(head)
        for obstacle in row.obstacles:
            lines.append(f"{head}: {obstacle}")
            head = " " * len(head)
    return "\n".join(lines)


def _in_order(problem: Problem) -> list[Family]:
    if problem.device.type != "cuda":
        return [_TORCH, _SDPA, _HOST, _SM80, _SIMT]
    if _cudnn_is_faster(problem):
        return [_SDPA, _SM80, _SIMT, _TORCH, _HOST]
    return [_SM80, _SDPA, _SIMT, _TORCH, _HOST]


def _cudnn_is_faster(problem: Problem) -> bool:
    return (
        problem.dtype in (torch.float16, torch.bfloat16)
        and problem.query.shape[3] in _CUDNN_HEAD_DIMS
        and problem.value.shape[3] in _CUDNN_HEAD_DIMS
        and torch.cuda.get_device_capability(problem.device) >= _CUDNN_CAPABILITY
    )


def _admits(op: str | None, family: Family) -> bool:
    if op is None:
        return True
    if op == "ours":
        return family.ours
    if op in _NOT_BUILT:
        raise NotImplementedError(f"op is {op!r}, which is not built yet: {_choices()}.")
    if op not in FAMILIES:
        raise ValueError(f"op is {op!r}: {_choices()}.")
    return family.name == op


def _choices() -> str:
    names = ", ".join(repr(name) for name in FAMILIES)
    return f"pass None for the fastest that serves, 'ours' for any of our own, or one of {names}"


def _not_by_itself(family: Family, problem: Problem, op: str | None) -> tuple[Obstacle, ...]:
    """The emulation of GPU kernels never serves a call that didn't name it."""
    if family is _HOST and op is None and problem.device.type == "cpu":
        return (Obstacle("it runs GPU kernels on the CPU, slowly", "pass op='host' to have that"),)
    return ()
