"""Records what a GPU computes for the cases of vectors.cu: the truth for host execution.

    python cutlass_ext/tests/host/record_vectors.py --output cutlass_ext/tests/host/vectors.npz

needs nvcc (in CUDA_HOME or on PATH), numpy and a GPU of compute capability 8.0 or later, and no
network.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "vectors.cu"
LANES, INPUTS, OUTPUTS = 32, 16, 8


class Word(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double), ("p", ctypes.c_void_p)]


def cases() -> list[str]:
    """Names of the cases; the part before the first underscore is the format of the inputs."""
    text = SOURCE.read_text()
    names = re.findall(r"^CUTLASS_EXT_CASE\((\w+)\)", text, re.M)
    names += re.findall(r"^CUTLASS_EXT_MMA_\w+\((\w+),", text, re.M)
    names += [f"{p}_pairs" for p in re.findall(r"^CUTLASS_EXT_PAIRS\((\w+),", text, re.M)]
    for suffix in re.findall(r"^CUTLASS_EXT_LDMATRIX\((\w*),", text, re.M):
        names += [f"int_ldmatrix_x{count}{suffix}" for count in (1, 2, 4)]
    return sorted(names)


def inputs(case: str) -> np.ndarray:
    """Small integers in the format of the case, as words [lane, word]; a function of the name."""
    rng = np.random.default_rng(list(case.encode()))
    shape = (LANES, INPUTS)
    numbers = rng.integers(-4, 5, (*shape, 2))
    kind = case.split("_")[0]
    if kind == "int":
        return rng.integers(0, 2**32, shape, np.uint32)
    if kind == "float":
        return _between_formats(rng, shape).view(np.uint32)
    words = np.empty(shape, np.uint32)
    if kind == "half":
        words[:] = numbers.astype(np.float16).view(np.uint32)[..., 0]
    elif kind == "bfloat":
        upper = numbers.astype(np.float32).view(np.uint32) >> 16
        words[:] = upper[..., 0] | upper[..., 1] << 16
    elif kind == "tf32":
        words[:] = numbers[..., 0].astype(np.float32).view(np.uint32)
    else:
        raise ValueError(f"{case}: no format {kind}")
    # Words 8 to 11 (of m8n8k4: to 15) are C in float32; others keep the format of A.
    floats = slice(8, 16 if "m8n8k4" in case and case.endswith("f32") else 12)
    words[:, floats] = numbers[:, floats, 0].astype(np.float32).view(np.uint32)
    return words


def _between_formats(rng: np.random.Generator, shape: tuple) -> np.ndarray:
    """Integers, ties of the narrower formats, large and small magnitudes."""
    values = rng.integers(-(2**24), 2**24, shape).astype(np.float32)
    values *= np.exp2(rng.integers(-40, 10, shape)).astype(np.float32)
    ties = rng.random(shape) < 0.5
    kept = rng.choice([8, 11], shape)  # significant bits of bfloat16, of binary16 and of tf32
    mantissa = rng.integers(2**7, 2**8, shape) * 2 ** (kept - 8) + rng.integers(0, 2, shape)
    halfway = (2.0 * mantissa + 1) * np.exp2(rng.integers(-30, 5, shape))
    return np.where(ties, np.sign(values) * halfway, values).astype(np.float32)


def run(call, case: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs of a case; `call(name, in_address, out_address)` executes it."""
    given = inputs(case)
    result = np.zeros((LANES, OUTPUTS), np.uint32)
    call(case, given.ctypes.data, result.ctypes.data)
    return given, result


def _nvcc() -> str:
    home = os.environ.get("CUDA_HOME")
    for candidate in (
        home and f"{home}/bin/nvcc",
        shutil.which("nvcc"),
        "/usr/local/cuda/bin/nvcc",
    ):
        if candidate and Path(candidate).is_file():
            return candidate
    raise SystemExit("No nvcc: set CUDA_HOME, or put nvcc on PATH.")


def _gpu() -> str:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    recorded = {"gpu": np.array(_gpu())}
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/vectors.so"
        include = FOLDER.parents[1] / "include"
        command = [_nvcc(), "-std=c++17", "-arch=native", "-shared", "-Xcompiler=-fPIC"]
        subprocess.run([*command, f"-I{include}", str(SOURCE), "-o", path], check=True)
        library = ctypes.CDLL(path)

        def call(name: str, in_address: int, out_address: int) -> None:
            function = library[name]
            function.restype = ctypes.c_char_p
            message = function((Word * 2)(Word(p=in_address), Word(p=out_address)), 2, None)
            if message:
                raise SystemExit(f"{name}: {message.decode()}")

        for case in cases():
            recorded[f"in_{case}"], recorded[f"out_{case}"] = run(call, case)
    np.savez_compressed(arguments.output, **recorded)
    print(f"{len(cases())} cases on {recorded['gpu']} in {arguments.output}")


if __name__ == "__main__":
    main()
