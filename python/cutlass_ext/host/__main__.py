"""Command line: compile one CUDA source for the CPU.

python -m cutlass_ext.host compile SOURCE -o LIB [--mode MODE] [--arch 80] [-I DIR]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from cutlass_ext.jit import cache, toolchain

from .build import build_flags
from .errors import HostBuildError
from .runtime import MODES
from .translate import TranslationError, translate


def compile_source(arguments: argparse.Namespace) -> None:
    """Translates one unit and makes a shared library of it."""
    build = build_flags(
        arguments.cutlass or toolchain.find_cutlass(),
        arguments.cuda_include or toolchain.find_cuda_include(),
        cache.root(),
        arguments.mode,
        arguments.arch,
        arguments.include,
    )
    with tempfile.TemporaryDirectory() as directory:
        translated = Path(directory) / f"{arguments.source.stem}.cpp"
        translated.write_text(
            f'#line 1 "{arguments.source}"\n' + translate(arguments.source.read_text())
        )
        gxx = str(toolchain.find_gxx().path)
        command = [gxx, *build.compile_flags, f"-I{arguments.source.resolve().parent}"]
        command += ["-c", str(translated), "-o", f"{directory}/unit.o"]
        subprocess.run(command, check=True)
        command = [gxx, f"{directory}/unit.o", *build.link_flags]
        subprocess.run([*command, "-o", str(arguments.output)], check=True)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m cutlass_ext.host", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("compile", help="compile one CUDA source into a shared library")
    command.add_argument("source", type=Path)
    command.add_argument("-o", "--output", type=Path, required=True)
    command.add_argument("--mode", choices=MODES, default="plain")
    command.add_argument("--arch", type=int, default=80, help="architecture to imitate (80)")
    command.add_argument("-I", dest="include", type=Path, action="append", default=[])
    command.add_argument("--cutlass", type=Path, help="folder that holds cutlass/cutlass.h")
    command.add_argument("--cuda-include", type=Path, action="append", help="CUDA's headers")
    command.set_defaults(run=compile_source)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except (HostBuildError, TranslationError, toolchain.ToolchainError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
