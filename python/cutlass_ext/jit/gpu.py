"""The GPUs of this machine and their driver, asked of the driver itself: PyTorch isn't needed."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass

_NAME_BYTES = 256
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute


@dataclass(frozen=True)
class Gpu:
    """One device: its name and its compute capability."""

    name: str
    capability: tuple[int, int]

    @property
    def target(self) -> str:
        """As nvcc names the architecture: `sm_90`."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


@dataclass(frozen=True)
class Driver:
    """The CUDA version up to which the driver runs programs, and the GPUs that it sees."""

    cuda: tuple[int, int]
    gpus: tuple[Gpu, ...]


def driver() -> Driver | None:
    """What the driver says, or None where there is no driver or no GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDriverGetVersion(ctypes.byref(number)):
        return None
    version = (number.value // 1000, number.value % 1000 // 10)
    if cuda.cuDeviceGetCount(ctypes.byref(number)):
        return None
    return Driver(version, tuple(_gpu(cuda, ordinal) for ordinal in range(number.value)))


def targets() -> list[str]:
    """Architectures asked for in `CUTLASS_EXT_ARCHS`, else those of the GPUs, each once."""
    asked = os.environ.get("CUTLASS_EXT_ARCHS", "")
    names = [name for name in re.split(r"[;,\s]+", asked) if name]
    for name in names:
        if not re.fullmatch(r"(sm_)?\d{2,3}[af]?", name):
            raise ValueError(
                f"CUTLASS_EXT_ARCHS holds {name!r}: give architectures such as '80;90a'."
            )
    found = [f"sm_{name.removeprefix('sm_')}" for name in names]
    if not names:
        seen = driver()
        found = [gpu.target for gpu in seen.gpus] if seen else []
    return list(dict.fromkeys(found))


def _gpu(cuda: ctypes.CDLL, ordinal: int) -> Gpu:
    device, value = ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    cuda.cuDeviceGetName(name, _NAME_BYTES, device)
    capability = []
    for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(value.value)
    return Gpu(name.value.decode(), tuple(capability))
