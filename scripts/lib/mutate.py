"""Do the tests notice a missing barrier, wait or guard?

Faults are found by pattern in the component headers and planted one at a time in a temporary copy
of the repository, where the tests that reach the header run on the CPU: first the one that mirrors
it, then the others, as compiled plainly and, where that notices nothing, with the race check.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutate_equivalent import EQUIVALENT

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = Path("cutlass_ext/include/cutlass_ext")
TESTS = Path("cutlass_ext/tests")
# Host execution is what finds the faults; launch code has none of these.
LEFT_OUT = ("host", "device", "gemm/device")
MODES = ("plain", "instrumented")

# kind, what stands in the code, what comes in its place
CALLS = (
    ("barrier", re.compile(r"__syncthreads\(\);"), ""),
    ("barrier", re.compile(r"__syncwarp\([^()]*\);"), ""),
    ("wait", re.compile(r"(?:\w+(?:::|\.))*gmem_wait\(\);"), "__syncthreads();"),
    ("wait", re.compile(r"(?:\w+(?:::|\.))*gmem_wait\(\);"), ""),
    ("wait", re.compile(r"(?:\w+::)*cp_async_wait<[^;]*>\(\);"), ""),
    ("wait", re.compile(r"(?:\w+::)*cp_async_fence\(\);"), ""),
    ("mask", re.compile(r"(?:\w+(?:->|\.))+clear_mask\([^;]*\);"), ""),
    ("zero fill", re.compile(r"(?:\w+(?:->|\.))+clear\(\);"), ""),
    ("zero fill", re.compile(r"SharedMemoryClearOption::kZfill"), "SharedMemoryClearOption::kNone"),
    ("guard", re.compile(r"(?:\w+(?:->|\.))+valid\(\)"), "true"),
)
# Names that the compiler knows the value of, as the code here writes them.
CONSTANT = re.compile(
    r"k[A-Z]\w*|true|false|cutlass|sizeof_bits|typename|value|Instruction|Element[ABC]"
)
COMPARISON = re.compile(r" (?:<|<=|>|>=|==|!=) ")
# Loops, and what is decided when the header is compiled.
NO_GUARD = re.compile(r"\b(?:for|while|static_assert|assert|constexpr|template|using|#)\b|^\s*#")


@dataclass(frozen=True)
class Mutant:
    """A header with one place changed."""

    header: str
    """Below INCLUDE."""
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.header}:{self.line} {self.kind}: {self.old} -> {self.new or 'nothing'}"

    def text(self, original: str) -> str:
        """The header's text with the fault in it."""
        lines = original.splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.new + line[self.end :]
        return "".join(lines)

    def why_equivalent(self) -> str | None:
        """Why no test can notice it, where that is known."""
        return EQUIVALENT.get((self.header, self.old, self.new))


def _operand_start(code: str, operator: int) -> int:
    """Where the comparison begins whose operator stands there."""
    depth, i = 0, operator
    while i > 0:
        c = code[i - 1]
        if c in ")]":
            depth += 1
        elif c in "([" and depth == 0:
            break
        elif c in "([":
            depth -= 1
        elif depth == 0 and (c in ",;!?{" or code[:i].endswith(("&& ", "|| ", "= ", "return "))):
            break
        i -= 1
    return i + len(code[i:operator]) - len(code[i:operator].lstrip())


def _operand_end(code: str, operator: int) -> int:
    """Where it ends."""
    depth, i = 0, operator
    while i < len(code):
        c = code[i]
        if c in "([":
            depth += 1
        elif c in ")]" and depth == 0:
            break
        elif c in ")]":
            depth -= 1
        elif depth == 0 and (c in ",;?{" or code[i:].startswith((" &&", " ||", " :", " ?"))):
            break
        i += 1
    return i


def _faults(code: str) -> Iterator[tuple[str, int, int, str]]:
    """kind, begin, end and replacement of each fault that a line of code has room for."""
    for kind, pattern, new in CALLS:
        for match in pattern.finditer(code):
            yield kind, match.start(), match.end(), new
    if NO_GUARD.search(code):
        return
    for match in COMPARISON.finditer(code):
        start, end = _operand_start(code, match.start()), _operand_end(code, match.end())
        # Comparisons with nothing choose what to do, not how far memory reaches.
        if match.group().strip() in ("==", "!=") and code[match.end() : end] in ("0", "nullptr"):
            continue
        if all(CONSTANT.fullmatch(name) for name in re.findall(r"[A-Za-z_]\w*", code[start:end])):
            continue
        for new in ("true", "false"):
            yield "guard", start, end, new


def mutants(root: Path) -> list[Mutant]:
    """All faults, by header and line."""
    found = []
    for path in sorted((root / INCLUDE).rglob("*.h")):
        header = path.relative_to(root / INCLUDE)
        if header.parent.as_posix().startswith(LEFT_OUT):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0].rstrip()
            for kind, start, end, new in _faults(code):
                old = code[start:end]
                found.append(Mutant(header.as_posix(), number, kind, start, end, old, new))
    return found


def _included(text: str) -> set[str]:
    return set(re.findall(r'"([\w/]+\.h)"', text))


def _reaches(root: Path, test: Path) -> set[str]:
    """The component headers that a test compiles, harness headers followed."""
    open_, seen, reached = list(_included((root / test).read_text())), set(), set()
    while open_:
        name = open_.pop()
        if name in seen:
            continue
        seen.add(name)
        harness = root / TESTS / "harness" / name
        component = root / INCLUDE.parent / name
        for path in (harness, component):
            if path.is_file():
                open_ += _included(path.read_text())
        if component.is_file():
            reached.add(name.removeprefix("cutlass_ext/"))
    return reached


def tests_of(root: Path) -> dict[str, list[str]]:
    """The test files that reach each header, the one that mirrors it first, device level last."""
    tests = sorted(
        path.relative_to(root)
        for folder in ("epilogue", "gemm", "transform")
        for path in (root / TESTS / folder).rglob("test_*.py")
    )
    # These name their kernels in Python, so that no include leads there.
    device_level = [test for test in tests if test.parent.name == "device"]
    reached = {test: _reaches(root, test) for test in tests}
    result = {}
    for path in sorted((root / INCLUDE).rglob("*.h")):
        header = path.relative_to(root / INCLUDE)
        name = f"test_{header.stem}.py"
        chosen = [test for test in tests if header.as_posix() in reached[test]]
        chosen.sort(key=lambda test: (test.name not in (name, name.replace("_iterator", "")), test))
        if header.parts[:2] in (("gemm", "kernel"), ("epilogue", "warp")) or not chosen:
            chosen += device_level
        result[header.as_posix()] = [test.as_posix() for test in chosen]
    return result


class Copy:
    """A temporary copy of the tree, with a cache of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mutate-"))
        self.root = self.folder / "tree"
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, self.root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        # The profile asked for, without the search for a smaller example after a failure.
        with (self.root / "conftest.py").open("a") as conftest:
            conftest.write(
                "\nfrom hypothesis import Phase\n"
                'for _name in ("quick", "ci"):\n'
                "    _phases = (Phase.explicit, Phase.generate)\n"
                "    _parent = settings.get_profile(_name)\n"
                '    settings.register_profile(f"mutate-{_name}", _parent, phases=_phases,\n'
                "                              derandomize=True, database=None)\n"
            )

    def remove(self) -> None:
        """Deletes it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, test: str, mode: str, profile: str, limit: float) -> tuple[str, str]:
        """`passed`, `failed`, `refused` (by the compiler) or `timed out`; the tests' output."""
        environment = os.environ | {
            "PYTHONPATH": str(self.root / "python"),
            "CUTLASS_EXT_CACHE": str(self.folder / "cache"),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--tb=line", "--mode", mode, "--hypothesis-profile", f"mutate-{profile}", test]
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "timed out", ""
        if done.returncode == 0:
            return "passed", done.stdout
        refused = "can't be built for" in done.stdout
        return ("refused" if refused else "failed"), done.stdout + done.stderr


def verdict(copy: Copy, mutant: Mutant, tests: list[str], profile: str, limit: float) -> str:
    """How the fault was noticed, or that it survived."""
    path = copy.root / INCLUDE / mutant.header
    original = path.read_text()
    path.write_text(mutant.text(original))
    try:
        for mode in MODES:
            for test in tests:
                outcome, _ = copy.run(test, mode, profile, limit)
                if outcome != "passed":
                    how = {"failed": "caught", "refused": "refused", "timed out": "hangs"}[outcome]
                    return f"{how} by {Path(test).name}, {mode}"
        return "SURVIVED" if tests else "SURVIVED: no test reaches it"
    finally:
        path.write_text(original)


def main() -> int:
    """Lists or tries the chosen faults."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="list the faults, plant none")
    parser.add_argument("--only", metavar="PATTERN", default="", help="regular expression")
    parser.add_argument("--profile", choices=("quick", "ci"), default="quick")
    parser.add_argument("--tests", type=int, default=3, help="at most so many test files a header")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one test file")
    parser.add_argument("--seconds", type=float, help="begin no fault after so many seconds")
    options = parser.parse_args()
    chosen = [mutant for mutant in mutants(ROOT) if re.search(options.only, str(mutant))]
    tests = {header: names[: options.tests] for header, names in tests_of(ROOT).items()}
    if options.list:
        for mutant in chosen:
            why = mutant.why_equivalent()
            names = ", ".join(Path(test).stem for test in tests[mutant.header]) or "no test"
            print(f"{mutant}  [{f'equivalent: {why}' if why else names}]")
        return 0
    started = time.monotonic()
    copy = Copy()
    survivors, tried = [], 0
    try:
        for test in sorted({test for mutant in chosen for test in tests[mutant.header][:1]}):
            outcome, output = copy.run(test, MODES[0], options.profile, options.limit)
            if outcome != "passed":
                print(f"{test}: {outcome} without any fault\n{output[-2000:]}")
                return 2
        for mutant in chosen:
            why = mutant.why_equivalent()
            if why:
                print(f"{mutant}: equivalent: {why}", flush=True)
                continue
            if options.seconds and time.monotonic() - started > options.seconds:
                print(f"{mutant}: not tried", flush=True)
                continue
            tried += 1
            result = verdict(copy, mutant, tests[mutant.header], options.profile, options.limit)
            print(f"{mutant}: {result}", flush=True)
            if result.startswith("SURVIVED"):
                survivors.append(mutant)
    finally:
        copy.remove()
    print(f"{tried} planted, {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
