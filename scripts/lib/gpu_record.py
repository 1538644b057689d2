"""The record of what was seen on a GPU: one file a GPU model, merged from partial runs.

`docs/gpu/<gpu name>.json` holds what each stage of `scripts/gpu_check` found and the hash of the
device headers that it found it for, so that a reader can tell whether it still speaks of them.
"""

import hashlib
import json
import re
from datetime import datetime, timezone
from pathlib import Path

from bench_report import cell_of

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "gpu"
SOURCES = ("cutlass_ext/include", "fmha/include")

# The part of a record that each stage fills; `build` leaves only its date.
SECTIONS = {"build": None, "test": "tests", "sanitize": "sanitizer", "bench": "bench"}


def sources_sha256(root: Path = ROOT) -> str:
    """Hash of the device headers: of each file's path and content, in the order of the paths."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def now() -> str:
    """This moment, as a stage's date."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def file_name(gpu: str) -> str:
    """The record's file for a GPU as its driver names it: `NVIDIA H200` → `NVIDIA_H200.json`."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", gpu).strip("_") + ".json"


def empty(gpu: str, driver: str, torch: str, cuda: str) -> dict:
    """A record in which no stage has run."""
    return {
        "gpu": gpu,
        "driver": driver,
        "torch": torch,
        "cuda": cuda,
        "stages": {},
        "tests": {"passed": None, "failed": None, "skipped": None},
        "sanitizer": {"memcheck": None, "racecheck": None, "initcheck": None},
        "bench": [],
    }


def add_stage(record: dict, stage: str, result: object) -> None:
    """Enter what a stage found, of the sources as they are now."""
    section = SECTIONS[stage]
    if section:
        record[section] = result
    record["stages"][stage] = {"date": now(), "sources_sha256": sources_sha256()}


def merge(older: dict, newer: dict) -> dict:
    """`older` with the stages of `newer` that are more recent.

    Benchmark rows of the same sources come together, whole cells of the newer run replacing those
    of the older: rows of one cell are always of one run, as ratios need.
    """
    if older["gpu"] != newer["gpu"]:
        raise ValueError(f"records of two GPUs: {older['gpu']} and {newer['gpu']}")
    merged = json.loads(json.dumps(older))
    for stage, seen in newer["stages"].items():
        known = older["stages"].get(stage)
        if known and known["date"] > seen["date"]:
            continue
        merged["stages"][stage] = seen
        merged.update({name: newer[name] for name in ("driver", "torch", "cuda")})
        section = SECTIONS[stage]
        if stage == "bench" and known and known["sources_sha256"] == seen["sources_sha256"]:
            measured = {cell_of(row) for row in newer["bench"]}
            kept = [row for row in older["bench"] if cell_of(row) not in measured]
            merged["bench"] = kept + newer["bench"]
        elif section:
            merged[section] = newer[section]
    return merged


def load(path: Path) -> dict | None:
    """The record in a file, or None where there is none."""
    return json.loads(path.read_text()) if path.exists() else None


def save(path: Path, record: dict) -> None:
    """Write a record; one benchmark row a line, so that changes read well."""
    rows = ",\n".join(f"    {json.dumps(row)}" for row in record["bench"])
    text = json.dumps({**record, "bench": []}, indent=2)
    text = text.replace('"bench": []', f'"bench": [\n{rows}\n  ]' if rows else '"bench": []')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def merge_file(path: Path, record: dict) -> None:
    """Merge a record into the file, which may not exist yet."""
    known = load(path)
    save(path, merge(known, record) if known else record)


def outdated(record: dict, root: Path = ROOT) -> list[str]:
    """A sentence for each stage that is missing or was run on other sources than these."""
    current = sources_sha256(root)
    said = []
    for stage in SECTIONS:
        seen = record["stages"].get(stage)
        if seen is None:
            said.append(f"{record['gpu']}: stage {stage} has not been run")
        elif seen["sources_sha256"] != current:
            said.append(f"{record['gpu']}: stage {stage} of {seen['date']} saw other sources")
    return said
