"""The record of GPU runs: its form, and a report where it speaks of other sources than these."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import gpu_record  # noqa: E402

RECORDS = sorted(gpu_record.RECORDS.glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record(path):
    record = gpu_record.load(path)
    assert set(record) == {
        *("gpu", "driver", "torch", "cuda", "stages", "tests", "sanitizer", "bench"),
    }
    assert path.name == gpu_record.file_name(record["gpu"])
    assert set(record["tests"]) == {"passed", "failed", "skipped"}
    assert set(record["sanitizer"]) == {"memcheck", "racecheck", "initcheck"}
    for seen in record["stages"].values():
        assert set(seen) == {"date", "sources_sha256"}
    for sentence in gpu_record.outdated(record):
        warnings.warn(sentence, stacklevel=1)


def stage(record: dict, name: str, date: str, sources: str) -> dict:
    record["stages"][name] = {"date": date, "sources_sha256": sources}
    return record


def row(cell: str, ms: float) -> dict:
    names = ("dtype", "precision", "B", "H", "Hkv", "M", "N", "K", "Kv", "bias", "bias_grad")
    sizes = dict.fromkeys((*names, "causal", "dropout"))
    return {**sizes, "suite": "niche", "cell": cell, "direction": "forward", "ms": ms}


def test_partial_records_merge():
    older = gpu_record.empty("A GPU", "1", "2.11", "13.0")
    older["tests"] = {"passed": 5, "failed": 0, "skipped": 1}
    older["bench"] = [row("vit", 1.0), row("odd", 2.0)]
    stage(stage(older, "test", "2026-01-01", "a"), "bench", "2026-01-01", "a")
    newer = gpu_record.empty("A GPU", "2", "2.12", "13.1")
    newer["bench"] = [row("vit", 0.5)]
    stage(newer, "bench", "2026-02-01", "a")
    merged = gpu_record.merge(older, newer)
    assert merged["tests"] == older["tests"] and merged["driver"] == "2"
    assert {r["cell"]: r["ms"] for r in merged["bench"]} == {"vit": 0.5, "odd": 2.0}
    # Rows of other sources are not mixed with these.
    stage(newer, "bench", "2026-02-01", "b")
    assert gpu_record.merge(older, newer)["bench"] == newer["bench"]
    with pytest.raises(ValueError, match="records of two GPUs: A GPU and B"):
        gpu_record.merge(older, gpu_record.empty("B", "1", "2.11", "13.0"))


def test_sources_are_hashed_by_path_and_content(tmp_path):
    (tmp_path / "fmha" / "include").mkdir(parents=True)
    header = tmp_path / "fmha" / "include" / "a.h"
    header.write_text("1")
    first = gpu_record.sources_sha256(tmp_path)
    header.write_text("2")
    assert gpu_record.sources_sha256(tmp_path) != first
    header.rename(header.with_name("b.h")).write_text("1")
    assert gpu_record.sources_sha256(tmp_path) != first
