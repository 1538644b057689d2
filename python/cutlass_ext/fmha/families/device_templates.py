"""Families `simt` and `sm80` on a GPU, and `host`, which runs their templates on the CPU."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from typing_extensions import override

from cutlass_ext import jit
from cutlass_ext.fmha import kernels
from cutlass_ext.fmha.families.family import Obstacle
from cutlass_ext.fmha.problem import Problem
from cutlass_ext.jit import toolchain


class DeviceTemplates:
    """What the families have in common: instances of the kernel templates of `fmha/forward.h`."""

    ours = True
    mode = "plain"
    name: str

    def templates(self, problem: Problem) -> list[kernels.Template]:
        """Those that the family has for the problem's dtype and precision, the fastest first."""
        raise NotImplementedError

    def machine_obstacles(self, problem: Problem) -> list[Obstacle]:
        """What the device or the tools lack."""
        raise NotImplementedError

    @override
    def obstacles(self, problem: Problem) -> list[Obstacle]:
        if problem.needs_grad:
            return [
                Obstacle(
                    "the backward is not built yet",
                    "call it under torch.no_grad(), or pass op='torch' or 'sdpa'",
                )
            ]
        found = self.machine_obstacles(problem)
        dtype = str(problem.dtype).removeprefix("torch.")
        if problem.output_dtype != problem.dtype:
            found.append(
                Obstacle(
                    f"the output is {dtype} like the operands",
                    "leave output_dtype out and convert the output",
                )
            )
        largest = max(size for template in kernels.TEMPLATES for size in template.head_dims)
        if problem.head_dim > largest:
            found.append(
                Obstacle(
                    f"K = {problem.query.shape[3]}, Kv = {problem.value.shape[3]} and the kernels "
                    f"reach {largest}",
                    "pass op='torch' or 'sdpa'",
                )
            )
        if not self.templates(problem):
            precision = f" with precision {problem.precision}" if problem.precision else ""
            found.append(Obstacle(f"it has no kernel for {dtype}{precision}", self.what_it_has()))
        return found

    def what_it_has(self) -> str:
        """The mend where dtype and precision don't fit."""
        raise NotImplementedError

    def target(self, problem: Problem) -> str:
        """What its libraries are compiled for."""
        raise NotImplementedError

    @override
    def forward(self, problem: Problem) -> tuple[torch.Tensor, torch.Tensor | None]:
        # Rows are read along a contiguous last dimension; a tensor without one is copied.
        operands = [
            tensor if _has_contiguous_rows(tensor) else tensor.contiguous()
            for tensor in (problem.query, problem.key, problem.value)
        ]
        problem = replace(problem, **dict(zip(("query", "key", "value"), operands, strict=True)))
        return self.prepare(problem)(*operands)

    @override
    def prepare(self, problem: Problem) -> PreparedLaunch | None:
        operands = (problem.query, problem.key, problem.value)
        if not all(map(_has_contiguous_rows, operands)):
            return None
        template = self.templates(problem)[0]
        size = kernels.head_dim_class(template, problem.head_dim)
        output = torch.empty(problem.output_shape, dtype=problem.dtype, device="meta")
        aligned = all(map(kernels.is_aligned, (*operands, output)))
        library = _library(template, problem.dtype, size, aligned, self.target(problem), self.mode)
        batch, queries, heads, head_dim = problem.query.shape
        kernel = jit.module().AttentionForward(
            library,
            kernels.symbol(size),
            (batch, heads, heads, queries, problem.key.shape[1], head_dim, problem.value.shape[3]),
            *((t.stride(0), t.stride(1), t.stride(2)) for t in (*operands, output)),
            problem.scale,
            problem.causal,
        )
        return PreparedLaunch(kernel, problem)


class PreparedLaunch:
    """A launch of which only addresses and stream are open.

    kernel   `_C.AttentionForward`
    problem  of whose metadata the tensors of a call are
    """

    def __init__(self, kernel, problem: Problem) -> None:
        self._kernel = kernel
        self._output = (problem.output_shape, problem.dtype)
        self._lse = problem.lse_shape if problem.needs_lse else None
        self._device = problem.device

    @override
    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        device = self._device
        if device.type == "cuda" and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(query, key, value)
        shape, dtype = self._output
        output = torch.empty(shape, dtype=dtype, device=device)
        lse = None
        if self._lse is not None:
            lse = torch.empty(self._lse, dtype=torch.float32, device=device)
        self._kernel(
            query.data_ptr(),
            key.data_ptr(),
            value.data_ptr(),
            output.data_ptr(),
            0 if lse is None else lse.data_ptr(),
            0 if device.type == "cpu" else torch.cuda.current_stream(device).cuda_stream,
        )
        return output, lse


def _has_contiguous_rows(tensor: torch.Tensor) -> bool:
    return tensor.stride(3) == 1 or tensor.shape[3] == 1


class Gpu(DeviceTemplates):
    """A family on a CUDA device.

    name        of the family in `kernels`
    capability  of the oldest GPU that it runs on
    """

    def __init__(self, name: str, capability: tuple[int, int]) -> None:
        self.name = name
        self.capability = capability

    @override
    def templates(self, problem: Problem) -> list[kernels.Template]:
        return [
            template
            for template in kernels.TEMPLATES
            if template.family == self.name
            and problem.dtype in kernels.dtypes(template)
            and problem.precision in (None, template.precision)
        ]

    @override
    def what_it_has(self) -> str:
        return {
            "simt": "pass float32 tensors with precision=None or 'ieee'",
            "sm80": "pass float16 or bfloat16 tensors, or float32 with precision=None or 'tf32x3'",
        }[self.name]

    @override
    def machine_obstacles(self, problem: Problem) -> list[Obstacle]:
        if problem.device.type != "cuda":
            return [
                Obstacle(
                    f"the tensors are on {problem.device}",
                    "move them to a CUDA device, or pass op='host' to run its kernels on the CPU",
                )
            ]
        found = []
        capability = torch.cuda.get_device_capability(problem.device)
        if capability < self.capability:
            have, need = (f"{major}.{minor}" for major, minor in (capability, self.capability))
            found.append(
                Obstacle(f"the GPU has compute capability {have}", f"it needs {need} or newer")
            )
        if missing := toolchain.missing("cuda"):
            found.append(Obstacle("its kernels can't be compiled here", missing.rstrip(".")))
        return found

    @override
    def target(self, problem: Problem) -> str:
        return _target_of(problem.device.index)


class Host(DeviceTemplates):
    """The GPU families' templates, run on the CPU by `cutlass_ext.host`: right, and slow.

    mode   how they are compiled: "plain", "asan" or "instrumented"
    """

    name = "host"

    def __init__(self, families: tuple[Gpu, ...]) -> None:
        self.families = families

    @override
    def templates(self, problem: Problem) -> list[kernels.Template]:
        return [template for family in self.families for template in family.templates(problem)]

    @override
    def what_it_has(self) -> str:
        return "pass float16, bfloat16 or float32 tensors, with precision None, 'tf32x3' or 'ieee'"

    @override
    def machine_obstacles(self, problem: Problem) -> list[Obstacle]:
        if problem.device.type != "cpu":
            return [
                Obstacle(
                    f"the tensors are on {problem.device}",
                    "it runs on the CPU: move them there with tensor.cpu()",
                )
            ]
        if missing := toolchain.missing("host"):
            return [Obstacle("its kernels can't be compiled here", missing.rstrip("."))]
        return []

    @override
    def target(self, problem: Problem) -> str:
        return "host"


@functools.cache
def _library(
    template: kernels.Template,
    dtype: torch.dtype,
    head_dim: int,
    aligned: bool,
    target: str,
    mode: str,
):
    sizes = template.head_dims if target == "host" else (head_dim,)
    return jit.load(kernels.spec(template, dtype, sizes, aligned, target, mode))


@functools.cache
def _target_of(device: int) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
