"""Do the tests notice a missing barrier, a weak wait, a lost guard?

Every place of that kind in the components' headers is changed in turn, in a copy of the repository,
and the tests of that header run there on the CPU: plain, and then with the race check. A change
that no test notices has survived; the exit status is 1 then.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = Path("cutlass_ext/include/cutlass_ext")
COPIED = ("cutlass_ext", "fmha", "python", "scripts", "conftest.py", "pyproject.toml")

# Which tests cover a header, where it is not the test of the same name.
_CHAINED = ("gemm/device/test_chained_gemm.py",)
TESTS = {
    "gemm/kernel/chained_gemm_config.h": _CHAINED,
    "gemm/kernel/chained_gemm_first_product.h": _CHAINED,
    "gemm/kernel/chained_gemm_problem.h": _CHAINED,
    "gemm/kernel/chained_gemm_registers.h": _CHAINED,
    "gemm/kernel/chained_gemm_schedule.h": _CHAINED,
    "gemm/kernel/chained_gemm_shared.h": _CHAINED,
    "gemm/threadblock/rebind_mma.h": ("gemm/threadblock/test_staged_mma.py",),
    "gemm/warp/mma_column_order.h": ("gemm/threadblock/test_register_operand_gemm.py",),
    "transform/threadblock/null_tile_iterator.h": ("gemm/threadblock/test_resident_operand.py",),
    "epilogue/threadblock/output_coordinates.h": (
        "epilogue/threadblock/test_row_aware_epilogue.py",
        "epilogue/threadblock/test_pipelined_source.py",
    ),
    "epilogue/threadblock/rebind_epilogue.h": ("epilogue/threadblock/test_pipelined_source.py",),
    "epilogue/threadblock/row_map.h": ("epilogue/threadblock/test_strided_output_iterator.py",),
    "epilogue/thread/activation.h": _CHAINED,
    "epilogue/thread/row_agnostic.h": ("epilogue/threadblock/test_pipelined_source.py",),
}

# Kind, pattern, and what takes the place of a match.
RULES: tuple[tuple[str, str, str | Callable[[re.Match], str]], ...] = (
    ("barrier removed", r"\b__sync(?:threads|warp)\(\);", ";"),
    ("wait removed", r"\bcutlass::arch::cp_async_wait<[^;]*>\(\);", ";"),
    (
        "wait weakened",
        r"\bcp_async_wait<([^;]*)>\(\);",
        lambda match: f"cp_async_wait<({match[1]}) + 1>();",
    ),
    ("fence removed", r"\bcutlass::arch::cp_async_fence\(\);", ";"),
    ("wait for memory removed", r"\b\w+\.gmem_wait\(\);", ";"),
    ("mask left", r"\b\w+\.clear_mask\([^;]*\);", ";"),
    ("fragment not cleared", r"\b\w+\.clear\(\);", ";"),
    (
        "guard always true",
        r"(bool const \w*(?:exists|guard|valid|in_range)\w* =)[^;]*;",
        lambda match: f"{match[1]} true;",
    ),
    ("operand of a guard dropped", r"\b(?:row_)?exists && ", ""),
)

# Changes that no test can notice, and why: header, text of the line.
EQUIVALENT: dict[tuple[str, str], str] = {}


@dataclass(frozen=True)
class Mutant:
    """One changed place."""

    header: str
    line: int
    kind: str
    text: str
    changed: str

    @property
    def name(self) -> str:
        """What `--only` matches."""
        return f"{self.header}:{self.line} {self.kind}: {self.text}"


def code_of(line: str) -> str:
    """The line without its comment."""
    return line.split("//")[0]


def mutants() -> Iterator[Mutant]:
    """All of them, header by header."""
    for path in sorted((ROOT / INCLUDE).rglob("*.h")):
        header = str(path.relative_to(ROOT / INCLUDE))
        if header.split("/")[0] in ("host", "device") or header.startswith("gemm/device"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for kind, pattern, replacement in RULES:
                for match in re.finditer(pattern, code_of(line)):
                    new = match.expand(replacement) if isinstance(replacement, str) else None
                    new = replacement(match) if new is None else new
                    changed = line[: match.start()] + new + line[match.end() :]
                    yield Mutant(header, number, kind, line.strip(), changed)


def tests_of(header: str) -> tuple[str, ...]:
    """Paths of the tests that cover a header."""
    path = Path(header)
    own = path.parent / f"test_{path.stem}.py"
    return tuple(f"cutlass_ext/tests/{test}" for test in TESTS.get(header, (str(own),)))


def run_tests(copy: Path, header: str, mode: str, profile: str) -> tuple[bool, str]:
    """Whether they pass, and the first complaint."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--mode", mode, "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile", profile, *tests_of(header)]
    environment = {**os.environ, "PYTHONPATH": str(copy / "python")}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    complaints = [x for x in done.stdout.splitlines() if x.startswith(("E  ", "FAILED", "ERROR"))]
    return done.returncode == 0, (complaints or ["it ended without a word"])[0].strip()


def verdict(copy: Path, mutant: Mutant, profile: str) -> str | None:
    """What noticed the mutant; None where nothing did."""
    path = copy / INCLUDE / mutant.header
    original = path.read_text()
    lines = original.splitlines()
    lines[mutant.line - 1] = mutant.changed
    path.write_text("\n".join(lines) + "\n")
    try:
        for mode in ("plain", "instrumented"):
            passed, complaint = run_tests(copy, mutant.header, mode, profile)
            if not passed:
                return f"{mode}: {complaint}"
    finally:
        path.write_text(original)
    return None


def main() -> int:
    """Command line; 1 where a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--only", default="", metavar="REGEX", help="those whose names match")
    parser.add_argument("--profile", default="quick", help="of Hypothesis; default: %(default)s")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in mutants() if re.search(arguments.only, mutant.name)]
    if arguments.list:
        print("\n".join(mutant.name for mutant in chosen))
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        for number, mutant in enumerate(chosen, 1):
            start = time.monotonic()
            reason = EQUIVALENT.get((mutant.header, mutant.text))
            found = f"equivalent: {reason}" if reason else verdict(copy, mutant, arguments.profile)
            survivors += found is None
            print(
                f"[{number}/{len(chosen)}] {mutant.name}\n    {found or 'SURVIVED'} "
                f"({time.monotonic() - start:.0f} s)",
                flush=True,
            )
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
