"""Warm calls: what served a call serves the next one like it at once.

All that a launch depends on, other than addresses and stream, is known from the tensors' metadata
and the options. The first call checks, chooses a kernel and prepares a launch; a call with the same
signature goes straight to it, past PyTorch's dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
# The bits by which kernels for aligned rows are chosen.
_ADDRESS = 15
_CAPACITY = 4096


def is_plain(tensors: Iterable[object]) -> bool:
    """Whether nothing but the kernel needs to see a call with these tensors.

    False where an operator has to be called for others to see it: tracing and compilation, modes
    and transforms, subclasses of tensors, meta tensors, the profiler, gradients; and for what is no
    tensor.
    """
    if torch.compiler.is_compiling():
        return False
    grad = torch.is_grad_enabled()
    for tensor in tensors:
        if type(tensor) not in _PLAIN_TYPES or (grad and tensor.requires_grad) or tensor.is_meta:
            return False
    return not _is_watched()


def _is_watched() -> bool:
    c = torch._C
    return bool(
        c._len_torch_dispatch_stack()
        or c._is_torch_function_mode_enabled()
        or c._functorch.peek_interpreter_stack() is not None
        or c._get_tracing_state() is not None
        or torch.autograd._profiler_enabled()
    )


def metadata(tensors: Iterable[torch.Tensor | None]) -> tuple:
    """What a launch can depend on, other than the addresses."""
    return tuple(
        [
            t if t is None else (t.shape, t.stride(), t.dtype, t.device, t.data_ptr() & _ADDRESS)
            for t in tensors
        ]
    )


class Launches:
    """Prepared launches by signature, a bounded number."""

    def __init__(self) -> None:
        self._launches: dict[tuple, Callable] = {}

    def find(self, signature: tuple | None) -> Callable | None:
        """What serves calls of this signature; None for None."""
        return self._launches.get(signature)

    def keep(self, signature: tuple, launch: Callable) -> None:
        """Remembers what serves calls of this signature."""
        if len(self._launches) >= _CAPACITY:
            # Shapes that never come again: forgetting them all is cheaper than an order of use.
            self._launches.clear()
        self._launches[signature] = launch


try:
    _is_watched()
except AttributeError:  # a PyTorch that answers in other ways: every call is an operator's

    def is_plain(tensors: Iterable[object]) -> bool:  # noqa: F811
        """False: this PyTorch can't be asked."""
        return False
