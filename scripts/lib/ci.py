"""Continuous integration on a CPU: formatting, tests, sanitized tests, GPU compilation.

Every stage runs, also after one that failed; each prints its wall-clock time, and the last line
counts tests and checks: `ci: N passed, N failed, N skipped`. The kernels' cache is `.cache/ci` in
the repository and starts empty, unless `--warm` keeps what an earlier run left.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "ci"
VENV = ROOT / ".venv" / "bin"
CXX_FOLDERS = ("cutlass_ext", "fmha", "python")
CXX_SUFFIXES = {".h", ".hpp", ".inl", ".cpp", ".cu", ".cuh"}

# What the sanitized builds are asked to run: the components' and the attention kernels' tests.
DEVICE_TESTS = ("cutlass_ext/tests", "fmha/tests")


@dataclass
class Count:
    """Tests and checks of one stage."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )


def run(*command: str | Path) -> bool:
    """Run a command in the repository with its output shown; whether it succeeded."""
    sys.stdout.flush()
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, "CUTLASS_EXT_CACHE": str(CACHE)},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def check(*command: str | Path) -> Count:
    """A command that passes or fails as a whole."""
    return Count(passed=1) if run(*command) else Count(failed=1)


def pytest(name: str, *arguments: str) -> Count:
    """Run `scripts/test`; the tests counted from its report.

    A run that failed without a failed test (an error of collection, no test at all) counts one.
    """
    report = CACHE / f"{name}.xml"
    report.unlink(missing_ok=True)
    succeeded = run("scripts/test", "-q", f"--junitxml={report}", *arguments)
    count = Count()
    if report.exists():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            count += Count(int(suite.get("tests", 0)) - failed - skipped, failed, skipped)
    if not succeeded and count.failed == 0:
        count.failed = 1
    return count


def environment() -> Count:
    """Make `.venv`."""
    return check(sys.executable, "scripts/lib/environment.py", "test")


def formatting() -> Count:
    """Ruff over Python, clang-format over C++."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *CXX_FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    sources = [name for name in listed if Path(name).suffix in CXX_SUFFIXES]
    return (
        check(VENV / "ruff", "check", ".")
        + check(VENV / "ruff", "format", "--check", ".")
        + check(VENV / "clang-format", "--dry-run", "--Werror", *sources)
    )


def tests() -> Count:
    """The whole suite."""
    return pytest("tests")


def asan() -> Count:
    """Device code under AddressSanitizer."""
    arguments = ("--mode", "asan", "--hypothesis-profile", "quick", *DEVICE_TESTS)
    return pytest("asan", *arguments)


def instrumented() -> Count:
    """Device code with every memory access reported to the race detector of cutlass_ext.host."""
    arguments = ("--mode", "instrumented", "--hypothesis-profile", "quick", *DEVICE_TESTS)
    return pytest("instrumented", *arguments)


def cubin() -> Count:
    """One attention instance for each of sm_80 and sm_90: registers and spills."""
    return check(VENV / "python", "scripts/lib/cubin_report.py")


STAGES: dict[str, Callable[[], Count]] = {
    "environment": environment,
    "formatting": formatting,
    "tests": tests,
    "asan": asan,
    "instrumented": instrumented,
    "cubin": cubin,
}


def main() -> int:
    """Run the stages; 0 when nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", action="store_true", help="keep the kernels of the last run")
    parser.add_argument("--stages", default=",".join(STAGES), help="default: %(default)s")
    arguments = parser.parse_args()
    chosen = arguments.stages.split(",")
    unknown = [name for name in chosen if name not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; the stages are {', '.join(STAGES)}")

    if not arguments.warm:
        shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True, mode=0o700)

    total, seconds = Count(), {}
    for name in chosen:
        print(f"=== {name}", flush=True)
        start = time.monotonic()
        count = STAGES[name]()
        seconds[name] = time.monotonic() - start
        total += count
        print(
            f"=== {name}: {seconds[name]:.0f} s, {count.passed} passed, {count.failed} failed, "
            f"{count.skipped} skipped",
            flush=True,
        )
    for name, value in seconds.items():
        print(f"{name:>14} {value:7.1f} s")
    print(f"{'all':>14} {sum(seconds.values()):7.1f} s")
    print(f"ci: {total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
