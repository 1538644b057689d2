"""Running the kernels of the chained product: on the GPU, or their templates on the CPU."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable

import torch

from cutlass_ext import jit
from cutlass_ext.gemm import kernels
from cutlass_ext.gemm.problem import Options, Problem, name_of
from cutlass_ext.jit import toolchain

_CAPABILITY = (8, 0)
# Of the largest instance, which holds 576 rows of b0.
_SHARED_MEMORY = 152 * 1024


def obstacle(device: torch.device, dtype: torch.dtype, source: torch.dtype | None, options: Options,
             op: str | None) -> str | None:  # fmt: skip
    """Why no kernel of ours can serve, with what would mend it; None where one can."""
    if op == "host" and device.type != "cpu":
        return (
            f"the tensors are on {device} and 'host' runs on the CPU: move them with tensor.cpu()"
        )
    if op != "host" and device.type != "cuda":
        return f"the tensors are on {device}: move them to a CUDA device, or pass op='host'"
    for name, given in (("the operands are", dtype), ("the output is", options.output_dtype)):
        if given == torch.float64:
            return f"{name} float64: pass float16, bfloat16 or float32"
    if source is not None and source != options.output_dtype:
        return (
            f"source is {name_of(source)} and the output {name_of(options.output_dtype)}: convert "
            "source"
        )
    if op == "registers" and dtype == torch.float32:
        return "float32 accumulators do not lie as operands have to: pass op='shared'"
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < _CAPABILITY:
            return (
                f"the GPU has compute capability {capability[0]}.{capability[1]}, not 8.0 or newer"
            )
        shared = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
        if shared < _SHARED_MEMORY:
            return (
                f"a block has {shared // 1024} KB of shared memory on this GPU and the kernels "
                f"take up to {_SHARED_MEMORY // 1024} KB: pass op='torch'"
            )
    missing = toolchain.missing("host" if op == "host" else "cuda")
    return missing and f"its kernels can't be compiled here: {missing.rstrip('.')}"


def run(problem: Problem, options: Options, op: str | None, **changes: object) -> torch.Tensor:
    """`[B, M, N1]`; `obstacle()` has nothing against it.

    changes     fields of the chosen `kernels.Instance` to replace, to compare instances
    """
    problem = with_contiguous_rows(problem)
    return prepare(problem, options, op, **changes)(*problem)


def prepare(
    problem: Problem,
    options: Options,
    op: str | None,
    shape: tuple[int, ...] | None = None,
    **changes: object,
) -> Callable[..., torch.Tensor]:
    """`run` for other tensors with the same metadata: takes a, b0, b1, bias0 and source.

    Rows have to be contiguous (`with_contiguous_rows`).

    shape       of the output, where it is not `[B, M, N1]` but as many rows
    """
    batch, (m, n0, k0, n1) = problem.batch, problem.sizes
    dtype, device = options.output_dtype, problem.a.device
    output = torch.empty((batch, m, n1), dtype=dtype, device="meta")
    shape = shape or tuple(output.shape)
    instance = choose([problem], [output], options, op)
    if changes:
        instance = dataclasses.replace(instance, **changes)
    words = [*_row_strides(problem, output), m, n0, k0, n1, batch, *_batch_strides(problem, output)]
    words += _scaling(options)
    call = _prepared(instance, "run", device)

    def launch(*tensors: torch.Tensor | None) -> torch.Tensor:
        output = torch.empty(shape, dtype=dtype, device=device)
        call([*_addresses(*tensors, output), *words])
        return output

    return launch


def prepare_grouped(
    problems: list[Problem], options: Options, op: str | None
) -> Callable[..., list[torch.Tensor]]:
    """A list of problems in one launch: takes (a, b0, b1, bias0, source) of each, with the metadata
    of `problems`, and returns an output `[M, N1]` for each.

    All are on one device, there is at least one, and rows are contiguous
    (`with_contiguous_rows`). Outputs of one width are views of one tensor.
    """
    device, dtype = problems[0].a.device, options.output_dtype
    shapes = [(p.sizes[0], p.sizes[3]) for p in problems]
    outputs = [torch.empty((1, *shape), dtype=dtype, device="meta") for shape in shapes]
    instance = choose(problems, outputs, options, op)
    # Rows of kernel::ChainedGemmProblem: six addresses, five strides, two words of two sizes each.
    listed = bytearray()
    for problem, output in zip(problems, outputs, strict=True):
        strides = _row_strides(problem, output)
        listed += struct.pack("=6Q5q4i", *(0,) * 6, *strides, *problem.sizes)
    template = torch.frombuffer(listed, dtype=torch.int64).view(len(problems), -1)
    rows, widths = zip(*shapes, strict=True)
    alike = len(set(widths)) == 1
    space = len(listed) + 4 * (len(problems) + 1)
    scaling = _scaling(options)
    options = {"dtype": dtype, "device": device}
    call = _prepared(instance, "run_grouped", device)

    def launch(*problems: tuple[torch.Tensor | None, ...]) -> list[torch.Tensor]:
        if alike:  # an allocation costs more than a view
            outputs = list(torch.empty((sum(rows), widths[0]), **options).split(rows))
        else:
            outputs = [torch.empty(shape, **options) for shape in shapes]
        addresses = [
            0 if t is None else t.data_ptr()
            for tensors, output in zip(problems, outputs, strict=True)
            for t in (*tensors, output)
        ]
        table = template.clone()
        packed = bytearray(struct.pack(f"={len(addresses)}Q", *addresses))
        table[:, :6] = torch.frombuffer(packed, dtype=torch.int64).view(-1, 6)
        workspace = torch.empty(space, dtype=torch.uint8, device=device)
        call([table.data_ptr(), len(outputs), workspace.data_ptr(), *scaling])
        return outputs

    return launch


def _prepared(
    instance: kernels.Instance, function: str, device: torch.device
) -> Callable[[list], None]:
    """Calls an instance's function with words, on the current stream of a GPU."""
    if device.type == "cpu":
        return functools.partial(_library(instance, "host").call, function)
    library = _library(instance, _target(device.index))

    def call(words: list) -> None:
        if device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return call(words)
        return library.call(function, words, torch.cuda.current_stream(device).cuda_stream)

    return call


def choose(problems: list[Problem], outputs: list[torch.Tensor], options: Options,
           op: str | None) -> kernels.Instance:  # fmt: skip
    """The instance that serves all of `problems`; NotImplementedError where there is none."""
    dtype = problems[0].a.dtype
    registers = dtype != torch.float32 and op != "shared"
    matrices = [t for p in problems for t in (p.a, p.b0, p.b1, p.source) if t is not None]
    alignment = next(
        (
            alignment
            for alignment in kernels.alignments(dtype, options.precision, registers)
            if all(_is_aligned(t, alignment) for t in [*matrices, *outputs])
        ),
        None,
    )
    if alignment is None:
        raise NotImplementedError(
            "op='shared' takes 16-bit rows of whole 16-byte vectors: pass op='registers'."
        )
    m, n0, k0, n1 = (max(sizes) for sizes in zip(*(p.sizes for p in problems), strict=True))
    return kernels.choose(
        *(dtype, options.output_dtype, options.precision, registers, alignment, n0, k0, n1)
    )


def _is_aligned(tensor: torch.Tensor, alignment: int) -> bool:
    """Whether columns, strides and address of `[B, rows, columns]` are multiples of `alignment`."""
    if tensor.numel() == 0:
        return True
    batch, rows, columns = tensor.shape
    return (
        columns % alignment == 0
        and (rows == 1 or tensor.stride(1) % alignment == 0)
        and (batch == 1 or tensor.stride(0) % alignment == 0)
        and tensor.data_ptr() % (alignment * tensor.element_size()) == 0
    )


def with_contiguous_rows(problem: Problem) -> Problem:
    """Rows are read along a contiguous last dimension; a tensor without one is copied."""
    return Problem(*(t if t is None or has_contiguous_rows(t) else t.contiguous() for t in problem))


def has_contiguous_rows(tensor: torch.Tensor) -> bool:
    """Whether the kernels read it as it is."""
    return tensor.stride(-1) == 1 or tensor.shape[-1] == 1


def _addresses(*tensors: torch.Tensor | None) -> list[int]:
    return [0 if t is None else t.data_ptr() for t in tensors]


def _row_strides(problem: Problem, output: torch.Tensor) -> list[int]:
    tensors = (problem.a, problem.b0, problem.b1, problem.source, output)
    return [0 if t is None else t.stride(1) for t in tensors]


def _batch_strides(problem: Problem, output: torch.Tensor) -> list[int]:
    tensors = (problem.a, problem.b0, problem.b1, problem.bias0, problem.source, output)
    return [0 if t is None or t.shape[0] == 1 else t.stride(0) for t in tensors]


def _scaling(options: Options) -> list[int | float]:
    activation = kernels.ACTIVATIONS.index(options.activation)
    return [options.alpha, options.beta, activation, 0]


@functools.cache
def _library(instance: kernels.Instance, target: str):
    return jit.load(kernels.spec(instance, target))


@functools.cache
def _target(device: int) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
