"""Artifacts as local files: in place where the store is local, verified copies elsewhere.

A local store keeps in `<attempt>.verified.json` which files have been read and found as their record says, so that a
step reads each byte of its inputs once and not in every step. A file counts as unchanged while its size, time of
writing, time of its inode's change, and inode are the same: whatever writes to a file changes one of them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from multiview.artifacts.record import File, Record, file_sha256, way_out
from multiview.artifacts.scratch import scratch
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError

Stamp = list[int]
"""Size, time of writing, time of the inode's change (both in ns since 1970), inode, and device of a file."""
SETTLED = 50_000_000
"""Nanoseconds after which another write would get another time; clocks of file systems tick every 10 ms or less."""


def stamp(file: Path) -> Stamp:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def is_settled(found: Stamp) -> bool:
    """Whether any later write will give the file another stamp."""
    return time.time_ns() - max(found[1], found[2]) > SETTLED


def same_writing(first: Stamp, second: Stamp) -> bool:
    """Whether nothing was written between two stamps; new links or rights change the other time."""
    return first[:2] == second[:2] and first[3:] == second[3:]


def verified_file(data: str) -> str:
    """Returns the file, relative to the store, for the artifact whose files are in `data`."""
    return f"{data}.verified.json"


def read_stamps(store: LocalStore, data: str) -> dict[str, Stamp]:
    """Returns the stamps of an artifact's verified files by path; empty if there is no file, or a damaged one."""
    try:
        stamps = json.loads(store.read(verified_file(data)) or b"{}")
        return {str(path): list(found) for path, found in stamps.items()}
    except (ValueError, AttributeError, TypeError, OSError):
        return {}


def remember(store: LocalStore, data: str, stamps: Mapping[str, Stamp]) -> None:
    """Adds stamps of verified files; a store that cannot be written keeps none."""
    if stamps:
        merged = {**read_stamps(store, data), **stamps}
        with contextlib.suppress(OSError):
            store.replace(verified_file(data), json.dumps(merged, indent=1, sort_keys=True).encode() + b"\n")


@dataclass(frozen=True)
class StoredFile:
    """A file of an artifact that stays in its store, where it is read in parts."""

    store: Store
    path: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.store.url}/{self.path}"

    def read(self, start: int, stop: int) -> bytes:
        """Returns the bytes [start, stop), unchecked. Raises FileNotFoundError."""
        return self.store.read_part(self.path, start, stop)


@dataclass(frozen=True)
class LocalArtifact:
    """An artifact, or the requested file of it, on local disk.

    `digest` is the whole artifact's digest, or the sha256 of the requested file.
    """

    path: Path
    digest: str
    address: str = ""
    """The artifact's address, for steps that read its record."""
    files: tuple[tuple[Path, Stamp], ...] = ()
    """Files of a local store with their stamps when they were checked."""
    streamed: Mapping[str, StoredFile] = field(default_factory=dict)
    """Files by name that are not on local disk, but read in parts from the store."""


Check = Literal["writes", "changes", "bytes"]


def stage(
    store: Store,
    record: Record,
    file: str | None = None,
    check: Check = "changes",
    streamed: Collection[str] = (),
) -> LocalArtifact:
    """Returns an artifact's files, or one of them, on local disk; but its files of `streamed` stay in a bucket.

    Copies are checked against the record as they arrive. Files of a local store are checked by sha256 unless they have
    not changed since they were last found whole (`multiview.artifacts.staging`); with `check="bytes"` in any case,
    and with `check="writes"` only if they have changed since. Those of `streamed` are checked by their sizes. Raises InputError for a file that is missing, short or altered.
    """
    files = [record.file(file)] if file else record.files
    digest = record.file(file).sha256 if file else record.digest
    local = isinstance(store, LocalStore)
    in_place = local and file is None
    if in_place and isinstance(store, LocalStore):
        folder = store.root / record.data
    else:
        # The folder is named by digest, because all artifacts of one step have the same key.
        folder = scratch() / record.digest / (file or "whole")
    known = read_stamps(store, record.data) if isinstance(store, LocalStore) else {}
    whole: dict[str, Stamp] = {}
    stamps: list[tuple[Path, Stamp]] = []
    left: dict[str, StoredFile] = {}
    for entry in files:
        target = folder / entry.path
        if not local and target.is_file():  # staged and checked earlier by this process
            continue
        if not local and entry.path in streamed:
            left[entry.path] = _in_bucket(store, record, entry)
            continue
        part = target.with_name(f"{target.name}.part")
        try:
            local_file = store.fetch(f"{record.data}/{entry.path}", part)
        except FileNotFoundError as error:
            raise InputError(broken_file(store, record, entry.path, "is missing")) from error
        before = stamp(local_file)
        settled = is_settled(before)
        found = known.get(entry.path)
        unread = (check != "bytes" and found == before) or (check == "writes" and found is None)
        _check(store, record, entry, local_file, not local or not unread)
        if not local:
            part.replace(target)
            continue
        stamps.append((local_file, before))
        if not unread and settled and stamp(local_file) == before:
            whole[entry.path] = before
        if not in_place:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(local_file)
    if isinstance(store, LocalStore):
        remember(store, record.data, whole)
    return LocalArtifact(folder, digest, f"{store.url}/{record.folder}", tuple(stamps), left)


def _in_bucket(store: Store, record: Record, entry: File) -> StoredFile:
    """Returns a file that stays in its bucket."""
    path = f"{record.data}/{entry.path}"
    sizes = [found.bytes for found in store.entries(record.data) if found.path == path]
    if sizes != [entry.bytes]:
        problem = f"has {sizes[0]} bytes instead of {entry.bytes}" if sizes else "is missing"
        raise InputError(broken_file(store, record, entry.path, problem))
    return StoredFile(store, path, entry.bytes)


def verify(store: Store, record: Record) -> None:
    """Checks every byte of an artifact against its record. Raises InputError at the first flaw."""
    stage(store, record, check="bytes")


def _check(store: Store, record: Record, entry: File, local_file: Path, verify: bool) -> None:
    size = local_file.stat().st_size
    if size != entry.bytes:
        problem = f"has {size} bytes instead of {entry.bytes}"
    elif verify and file_sha256(local_file) != entry.sha256:
        problem = "was altered (its sha256 differs)"
    else:
        return
    raise InputError(broken_file(store, record, entry.path, problem))


def broken_file(store: Store, record: Record, path: str, problem: str) -> str:
    """Returns the error line for a file that does not match its record, with the way out."""
    file, address = f"{store.url}/{record.data}/{path}", f"{store.url}/{record.folder}"
    return f"{file} {problem}: {way_out(address)} to rebuild it (step {record.step})"
