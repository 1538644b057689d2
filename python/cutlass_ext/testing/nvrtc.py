"""Compiling device code with NVRTC 12.9, the last compiler that knows Volta (sm_70).

The libraries and headers come from the packages nvidia-cuda-nvrtc-cu12, nvidia-cuda-runtime-cu12
and nvidia-cuda-cccl-cu12. Nothing is executed, no GPU is needed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = "nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12"


class NvrtcError(RuntimeError):
    """Compilation failed; the message is NVRTC's log."""


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made of a program."""

    ptx: str
    cubin: bytes


def missing() -> str | None:
    """What to install before compile() works: a sentence, or None."""
    for file in ("cuda_nvrtc/lib/libnvrtc.so.12", *_HEADERS):
        if _folder(file) is None:
            return f"no nvidia/{file}: pip install --no-deps {_PACKAGES} (all 12.9)"
    return None


def compile(
    source: str,
    arch: str,
    include: Sequence[Path] = (),
    headers: Mapping[str, str] | None = None,
) -> Compiled:
    """Compiles a translation unit for `arch` ("sm_70"); raises NvrtcError.

    NDEBUG is defined, as in all libraries for a GPU. `headers` are texts by the name that they are
    included with; they go before files.
    """
    library = _library()
    headers = {**_STAND_INS, **(headers or {})}
    texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
    folders = [*include, *(_folder(file) / Path(file).parts[0] / "include" for file in _HEADERS)]
    options = [f"--gpu-architecture={arch}", "--std=c++17", "--define-macro=NDEBUG"]
    # CUTLASS has constexpr functions without annotation.
    options.append("--device-as-default-execution-space")
    options += [f"--include-path={folder}" for folder in folders]
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"unit.cu", len(headers), texts, names
        )
    )
    try:
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), arguments)
        if status:
            raise NvrtcError(_result(program, "ProgramLog").decode(errors="replace"))
        return Compiled(_result(program, "PTX").decode(), _result(program, "CUBIN"))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


# Its operators are nvcc's own (nvcuda::wmma), from headers that come with nvcc; nothing here uses
# them.
_STAND_INS = {"cutlass/arch/wmma.h": "#pragma once\n"}
# A file of each package that brings headers.
_HEADERS = ("cuda_runtime/include/cuda_fp16.h", "cuda_cccl/include/cuda/std/cstdint")


def _folder(file: str) -> Path | None:
    """The folder `nvidia` on Python's path that holds `file`."""
    for entry in sys.path:
        folder = Path(entry or ".") / "nvidia"
        if (folder / file).is_file():
            return folder.absolute()
    return None


@functools.cache
def _library() -> ctypes.CDLL:
    sentence = missing()
    if sentence:
        raise RuntimeError(sentence)
    path = "cuda_nvrtc/lib/libnvrtc.so.12"
    return ctypes.CDLL(str(_folder(path) / path))


def _result(program: ctypes.c_void_p, name: str) -> bytes:
    """What nvrtcGet<name> gives."""
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{name}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{name}")(program, text))
    return text.raw.rstrip(b"\0") if name != "CUBIN" else text.raw


def _check(status: int) -> None:
    if status:
        describe = _library().nvrtcGetErrorString
        describe.restype = ctypes.c_char_p
        raise NvrtcError(describe(status).decode())
