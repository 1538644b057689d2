"""Questions to the access log of `cutlass_ext.host`."""

from __future__ import annotations

import numpy as np
import torch


def _inside(log: np.ndarray, tensor: torch.Tensor) -> np.ndarray:
    first = tensor.data_ptr()
    last = first + tensor.element_size() * tensor.numel()
    return (log["space"] == "global") & (log["address"] >= first) & (log["address"] < last)


def accesses_of(log: np.ndarray, tensor: torch.Tensor, kind: str) -> np.ndarray:
    """Which accesses of the kind begin in a contiguous tensor in global memory."""
    return _inside(log, tensor) & (log["kind"] == kind)


def _count(accesses: np.ndarray, first: int, size: int, elements: int) -> np.ndarray:
    counts = np.zeros(elements, dtype=int)
    start = (accesses["address"].astype(np.int64) - first) // size
    for i in range(int(accesses["bytes"].max(initial=0)) // size):
        np.add.at(counts, start[accesses["bytes"] >= (i + 1) * size] + i, 1)
    return counts


def elements_read(log: np.ndarray, tensor: torch.Tensor) -> np.ndarray:
    """How often each element of a contiguous tensor in global memory was read, in its shape."""
    accesses = log[_inside(log, tensor) & ((log["kind"] == "load") | (log["kind"] == "cp_async"))]
    counts = _count(accesses, tensor.data_ptr(), tensor.element_size(), tensor.numel())
    return counts.reshape(tensor.shape)


def elements_written(log: np.ndarray, tensor: torch.Tensor) -> np.ndarray:
    """How often each element of a contiguous tensor in global memory was written, in its shape."""
    accesses = log[_inside(log, tensor) & (log["kind"] == "store")]
    counts = _count(accesses, tensor.data_ptr(), tensor.element_size(), tensor.numel())
    return counts.reshape(tensor.shape)


def shared_bytes_written(log: np.ndarray, size: int) -> np.ndarray:
    """How often each of the first `size` bytes of shared memory was written."""
    chosen = (log["space"] == "shared") & ((log["kind"] == "store") | (log["kind"] == "cp_async"))
    return _count(log[chosen], 0, 1, size)


def written_before(log: np.ndarray, marker: torch.Tensor, nth: int = 0) -> np.ndarray:
    """Which accesses their thread made before it wrote its element of `marker` the nth time."""
    sequence = log["sequence"].astype(np.int64)
    writes = log[_inside(log, marker) & (log["kind"] == "store")]
    writes = writes[np.lexsort((writes["sequence"], writes["thread"]))]
    threads, first, count = np.unique(writes["thread"], return_index=True, return_counts=True)
    everyone = np.unique(log["thread"])
    if not np.array_equal(threads, everyone) or (count <= nth).any():
        raise ValueError("A thread did not write its marker so often.")
    when = np.zeros(int(everyone[-1]) + 1, dtype=np.int64)
    when[threads] = writes["sequence"][first + nth]
    return sequence < when[log["thread"]]
