"""`python -m cutlass_ext`: what was found on this machine, and where the headers are."""

from __future__ import annotations

import argparse
import sys

import cutlass_ext
from cutlass_ext import _locations


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the process's exit status."""
    parser = argparse.ArgumentParser(prog="python -m cutlass_ext", description=__doc__)
    parser.add_argument("--version", action="version", version=cutlass_ext.__version__)
    parser.add_argument(
        "--include-dirs", action="store_true", help="print -I flags for a compiler and exit"
    )
    parser.add_argument(
        "--cmake-dir", action="store_true", help="print the folder for CMake's cutlass_ext_DIR"
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser(
        "doctor", help="what was found, which families can run here, what is missing"
    )
    chosen = parser.parse_args(arguments)

    if chosen.include_dirs:
        print(" ".join(f"-I{folder}" for folder in _locations.include_dirs()))
        return 0
    if chosen.cmake_dir:
        print(_locations.cmake_dir())
        return 0
    if chosen.command == "doctor":
        from cutlass_ext import doctor

        report = doctor.examine()
        print(report.text())
        return 0 if report.usable() else 1
    parser.print_help()
    return 2


if __name__ == "__main__":
    sys.exit(main())
