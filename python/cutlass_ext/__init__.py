"""Reusable extensions of NVIDIA CUTLASS, and the fused attention composed of them.

Importing this package needs neither a compiler nor PyTorch: what needs them imports them when it is
used. `cutlass_ext.fmha` is the attention operator, `cutlass_ext.jit` builds kernels on demand,
`cutlass_ext.host` executes device code on a CPU.
"""

from __future__ import annotations

from cutlass_ext._locations import include_dirs

__version__ = "0.1.0"

__all__ = ["__version__", "get_include"]


def get_include() -> list[str]:
    """Directories that a compiler needs (`-I`) to include `cutlass_ext/...` and `fmha/...`.

    CUTLASS's own headers are not among them: they come from `CUTLASS_PATH` or from the package
    `nvidia-cutlass`.
    """
    return [str(path) for path in include_dirs()]
