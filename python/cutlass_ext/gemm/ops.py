"""The operator `torch.ops.cutlass_ext.chained_gemm`: schema, implementation, fake, gradients."""

from __future__ import annotations

import torch

from cutlass_ext.gemm import device
from cutlass_ext.gemm.problem import Options, make_problem, output_shape

OPS = ("registers", "shared", "host", "torch")

_library = torch.library.Library("cutlass_ext", "FRAGMENT")
_library.define(
    "chained_gemm(Tensor a, Tensor b0, Tensor b1, Tensor? bias0, Tensor? source, str activation, "
    "float alpha, float beta, ScalarType output_dtype, str? precision, str? op) -> Tensor"
)


def chosen_op(
    tensors: list[torch.Tensor], source: torch.dtype | None, options: Options, op: str | None
) -> str:
    """`op`, or the fastest that serves; NotImplementedError where `op` can't."""
    if op == "torch":
        return op
    first = tensors[0]
    reason = device.obstacle(first.device, first.dtype, source, options, op)
    if reason is None:
        return op or ("shared" if first.dtype == torch.float32 else "registers")
    if op is None:
        return "torch"
    raise NotImplementedError(f"op={op!r} can't serve: {reason}.")


def in_torch(
    a: torch.Tensor,
    b0: torch.Tensor,
    b1: torch.Tensor,
    bias0: torch.Tensor | None,
    source: torch.Tensor | None,
    options: Options,
) -> torch.Tensor:
    """The same by PyTorch's operations: the reference, and what serves where no kernel can."""
    intermediate = a @ b0
    if bias0 is not None:
        intermediate = intermediate + bias0.unsqueeze(-2)
    intermediate = _activate(intermediate, options.activation).to(options.output_dtype)
    output = intermediate @ b1.to(options.output_dtype)
    if options.alpha != 1.0:
        output = options.alpha * output
    if source is not None and options.beta != 0.0:
        output = output + options.beta * source
    shape = output_shape(a, b0, b1, bias0, source)
    return output.to(options.output_dtype).expand(shape)


def _activate(values: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "identity":
        return values
    return getattr(torch.nn.functional, activation)(values)


def _activation_gradient(gradient: torch.Tensor, values: torch.Tensor, activation: str):
    """`gradient` times the activation's derivative at `values`, by differentiable operations."""
    if activation == "identity":
        return gradient
    if activation == "relu":
        return torch.ops.aten.threshold_backward(gradient, values, 0)
    if activation == "gelu":
        return torch.ops.aten.gelu_backward(gradient, values)
    # PyTorch's silu_backward has no derivative of its own.
    sigmoid = torch.sigmoid(values)
    return gradient * sigmoid * (1 + values * (1 - sigmoid))


def _chained_gemm(
    a, b0, b1, bias0, source, activation, alpha, beta, output_dtype, precision, op
) -> torch.Tensor:
    options = Options(activation, alpha, beta, output_dtype, precision)
    used = source if beta != 0.0 else None
    shape = output_shape(a, b0, b1, bias0, source)
    op = chosen_op([a, b0, b1], used.dtype if used is not None else None, options, op)
    if op == "torch":
        return in_torch(a, b0, b1, bias0, source, options).contiguous()
    if 0 in shape:
        return a.new_empty(shape, dtype=output_dtype)
    output = device.run(make_problem(a, b0, b1, bias0, used), options, op)
    return output.reshape(shape)


def _fake(a, b0, b1, bias0, source, activation, alpha, beta, output_dtype, precision, op):
    return a.new_empty(output_shape(a, b0, b1, bias0, source), dtype=output_dtype)


def _setup_context(ctx, inputs, output) -> None:
    a, b0, b1, bias0, source, ctx.activation, ctx.alpha, ctx.beta, *_ = inputs
    ctx.save_for_backward(a, b0, b1, bias0)
    ctx.source = None if source is None else (source.dtype, source.shape)


def _backward(ctx, gradient: torch.Tensor):
    """By PyTorch's operations; the intermediate is computed again."""
    a, b0, b1, bias0 = ctx.saved_tensors
    needs = ctx.needs_input_grad
    scaled = (ctx.alpha * gradient).to(a.dtype)
    before = a @ b0 if bias0 is None else a @ b0 + bias0.unsqueeze(-2)
    da = db0 = db1 = dbias0 = dsource = None
    if needs[2]:
        intermediate = _activate(before, ctx.activation)
        db1 = _summed(intermediate.mT @ scaled, b1.shape)
    if any(needs[i] for i in (0, 1, 3)):
        dbefore = _activation_gradient(
            *torch.broadcast_tensors(scaled @ b1.mT, before), ctx.activation
        )
        da = _summed(dbefore @ b0.mT, a.shape) if needs[0] else None
        db0 = _summed(a.mT @ dbefore, b0.shape) if needs[1] else None
        dbias0 = _summed(dbefore.sum(-2), bias0.shape) if needs[3] else None
    if needs[4]:
        dtype, shape = ctx.source
        dsource = _summed(ctx.beta * gradient, shape).to(dtype)
    return da, db0, db1, dbias0, dsource, None, None, None, None, None, None


def _summed(gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Over the batch where the problems shared the tensor."""
    return gradient.sum(0) if gradient.dim() > len(shape) else gradient


_library.impl("chained_gemm", _chained_gemm, "CPU")
_library.impl("chained_gemm", _chained_gemm, "CUDA")
torch.library.register_fake("cutlass_ext::chained_gemm", _fake, lib=_library)
torch.library.register_autograd(
    "cutlass_ext::chained_gemm", _backward, setup_context=_setup_context, lib=_library
)
