"""The cache folder: one entry a translation unit, one library per content of the files it read.

    <root>/kernels/<name>-<key>/        an entry; the key covers source, commands and compilers
        lock                            held by the process that builds the entry
        manifest.json                   which library answers to which content of the files read
        work-*/, failed/                a build in progress or killed; the last that failed
        <content>/<name>.so, build.log  a finished library and its compiler's output

A library appears in one rename and is listed after it, so a process that is killed leaves at worst
a `work-*` folder, which the entry's next builder removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# Libraries kept per entry: going back and forth between two branches needs two.
_KEPT_LIBRARIES = 4


class CacheError(RuntimeError):
    """The cache folder can't be used; the message says why and what to do."""


def root() -> Path:
    """The cache folder, `CUTLASS_EXT_CACHE` or `~/.cache/cutlass_ext`; made if there is none.

    Its libraries are code that gets loaded, so nobody else may be able to put one there: a folder
    that belongs to another user, or that others may write, raises CacheError.
    """
    path = Path(os.environ.get("CUTLASS_EXT_CACHE") or "~/.cache/cutlass_ext").expanduser()
    path = path.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise CacheError(
            f"The cache folder {path} can't be made ({error.strerror}): "
            "set CUTLASS_EXT_CACHE to a folder of your own."
        ) from None
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"The cache folder {path} belongs to another user (uid {status.st_uid}): "
            "set CUTLASS_EXT_CACHE to a folder of your own."
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            f"The cache folder {path} may be written by other users: run `chmod 700 {path}`, "
            "or set CUTLASS_EXT_CACHE to a folder of your own."
        )
    return path


def write_atomically(path: Path, text: str) -> None:
    """Replaces `path` by `text` in one rename: a reader sees the old text or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class Snapshot:
    """Times, sizes and hashes of files, each asked of the file system once.

    Valid for one look at the cache: instances of one family read the same few hundred headers.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._hashes: dict[str, str | None] = {}

    def stamp(self, path: str) -> tuple[int, int] | None:
        """(modification time in ns, size), or None where there is no such file."""
        if path not in self._stamps:
            try:
                status = os.stat(path)
                self._stamps[path] = (status.st_mtime_ns, status.st_size)
            except OSError:
                self._stamps[path] = None
        return self._stamps[path]

    def content(self, path: str) -> str | None:
        """SHA-256 of the file, or None where it can't be read."""
        if path not in self._hashes:
            try:
                self._hashes[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except OSError:
                self._hashes[path] = None
        return self._hashes[path]


# A file that a compiler read: path, modification time in ns, size, SHA-256.
FileRecord = tuple[str, int, int, str]


class Found(NamedTuple):
    """A library in the cache."""

    path: Path
    by_times: bool
    """False where files had to be read, because their times are not the recorded ones."""


@dataclass(frozen=True)
class Entry:
    """The cache's entry of one translation unit."""

    folder: Path
    name: str

    def library(self, content: str) -> Path:
        """Path of the library for one content of the files read."""
        return self.folder / content / f"{self.name}.so"

    @property
    def failed(self) -> Path:
        """What the last failed build left: its source and the compiler's output."""
        return self.folder / "failed"

    def find(self, snapshot: Snapshot) -> Found | None:
        """The library built from the files as they are now, or None.

        Files are compared by time and size; only where those changed is a file read again.
        """
        rows = self._read()
        for same, by_times in ((self._same_stamp, True), (self._same_content, False)):
            for row in rows:
                if all(same(record, snapshot) for record in row["files"]):
                    library = self.library(row["content"])
                    return Found(library, by_times) if library.exists() else None
        return None

    def refresh(self, snapshot: Snapshot) -> None:
        """Records the present times of files whose content is the same. The lock must be held."""
        rows = self._read()
        for row in rows:
            if all(self._same_content(record, snapshot) for record in row["files"]):
                row["files"] = [
                    (path, *snapshot.stamp(path), digest) for path, _, _, digest in row["files"]
                ]
        self._write(rows)

    def publish(self, built: Path, files: Iterable[str], snapshot: Snapshot, since_ns: int) -> Path:
        """Moves the folder `built` into place and lists it; returns the library's path.

        A file that was written after the compiler started (`since_ns`) may have been read in
        either state: such a library serves its caller, but is not listed for the next one.
        The lock must be held.
        """
        records: list[FileRecord] = []
        settled = True
        for path in sorted(set(files)):
            stamp, digest = snapshot.stamp(path), snapshot.content(path)
            if stamp is None or digest is None:
                settled = False
                continue
            settled = settled and stamp[0] < since_ns
            records.append((path, *stamp, digest))
        content = hashlib.sha256(
            json.dumps([(path, digest) for path, _, _, digest in records]).encode()
        ).hexdigest()[:16]
        target = self.folder / content
        if target.exists():
            shutil.rmtree(target)
        os.rename(built, target)
        rows = [row for row in self._read() if row["content"] != content]
        if settled:
            rows.insert(0, {"content": content, "files": records})
        for row in rows[_KEPT_LIBRARIES:]:
            shutil.rmtree(self.folder / row["content"], ignore_errors=True)
        self._write(rows[:_KEPT_LIBRARIES])
        return self.library(content)

    @contextlib.contextmanager
    def lock(self, *, wait: bool) -> Iterator[bool]:
        """Holds the entry for building; yields False where another holds it and `wait` is False.

        The lock is the operating system's: it ends with the process that holds it.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def make_work_folder(self) -> Path:
        """A new folder to build in; removes what earlier builds left, killed or failed.

        The lock must be held.
        """
        for left in (*self.folder.glob("work-*"), self.failed):
            shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self.folder, prefix="work-"))

    @staticmethod
    def _same_stamp(record: FileRecord, snapshot: Snapshot) -> bool:
        path, mtime, size, _ = record
        return snapshot.stamp(path) == (mtime, size)

    @classmethod
    def _same_content(cls, record: FileRecord, snapshot: Snapshot) -> bool:
        path, _, _, digest = record
        return cls._same_stamp(record, snapshot) or snapshot.content(path) == digest

    def _read(self) -> list[dict]:
        try:
            return json.loads((self.folder / "manifest.json").read_text())
        except (OSError, ValueError):
            return []

    def _write(self, rows: list[dict]) -> None:
        write_atomically(self.folder / "manifest.json", json.dumps(rows))
