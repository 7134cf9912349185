"""Artifacts as local files: in place where the store is local, verified copies elsewhere.

A local store keeps in `<attempt>.verified.json` which files have been read and found as their record says, so that a
step need not read a file again to check it. A file counts as unchanged while its size, time of writing, time of its
inode's change, inode and device are the same: whatever writes to a file changes one of them.
"""

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from multiview.artifacts.record import DamagedRecord, File, Record, file_sha256, way_out
from multiview.artifacts.scratch import scratch
from multiview.artifacts.store import BucketStore, LocalStore, Store

Stamp = list[int]
"""Size, time of writing, time of the inode's change (both in ns since 1970), inode, and device of a file."""
SETTLED = 50_000_000
"""Nanoseconds after which another write would get another time; file systems' clocks tick at least every 10 ms."""
Check = Literal["writes", "changes", "bytes"]


def stamp(file: Path) -> Stamp:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def is_settled(found: Stamp) -> bool:
    """Whether any later write will give the file another stamp."""
    return time.time_ns() - max(found[1], found[2]) > SETTLED


def same_writing(first: Stamp, second: Stamp) -> bool:
    """Whether nothing was written between two stamps; the inode's time is ignored: links and permissions change it."""
    return first[:2] == second[:2] and first[3:] == second[3:]


def verified_file(data: str) -> str:
    """Returns the path, in the store, of the file with the stamps of the artifact in `data`."""
    return f"{data}.verified.json"


def read_stamps(store: LocalStore, data: str) -> dict[str, Stamp]:
    """Returns the stamps of an artifact's verified files by path; empty if they were not kept or cannot be read."""
    try:
        stamps = json.loads(store.read(verified_file(data)) or b"{}")
        return {str(path): list(found) for path, found in stamps.items()}
    except (ValueError, AttributeError, TypeError, OSError):
        return {}


def remember(store: LocalStore, data: str, stamps: Mapping[str, Stamp]) -> None:
    """Adds stamps of verified files; does nothing if the store cannot be written to."""
    if stamps:
        merged = {**read_stamps(store, data), **stamps}
        with contextlib.suppress(OSError):
            store.replace(verified_file(data), json.dumps(merged, indent=1, sort_keys=True).encode() + b"\n")


@dataclass(frozen=True)
class LocalArtifact:
    """An artifact, or the requested file of it, on local disk."""

    path: Path
    digest: str
    """The whole artifact's digest, or the sha256 of the requested file."""
    address: str = ""
    """The artifact's address, for steps that read its record."""
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)
    """Stamps of the files of a local store when they were checked."""


def stage(store: Store, record: Record, file: str | None = None, check: Check = "changes") -> LocalArtifact:
    """Returns an artifact's files, or one of them, on local disk.

    Copies are checked by sha256 as they arrive. Files of a local store are checked by size, and by sha256 unless they
    were found whole and have not changed since; with `check="bytes"` always, and with `check="writes"` only if they
    have changed since they were found whole. Raises DamagedRecord for a file that is missing, short or altered.
    """
    files = [record.file(file)] if file else record.files
    digest, address = files[0].sha256 if file else record.digest, f"{store.url}/{record.folder}"
    if isinstance(store, LocalStore):
        stamps = _check_in_place(store, record, files, check)
        folder = _link(store, record, file) if file else store.root / record.data
        return LocalArtifact(folder, digest, address, stamps)
    assert isinstance(store, BucketStore)
    folder = copy_folder(record, file)
    _copy(store, record, files, folder)
    return LocalArtifact(folder, digest, address)


def to_copy(store: Store, record: Record, file: str | None = None) -> dict[Path, int]:
    """Returns the sizes of the files that `stage` would copy from a bucket, by their places in the scratch folder."""
    if isinstance(store, LocalStore):
        return {}
    folder, files = copy_folder(record, file), [record.file(file)] if file else record.files
    return {target: each.bytes for each in files if not (target := folder / each.path).is_file()}


def copy_folder(record: Record, file: str | None = None) -> Path:
    """Returns the scratch folder of an artifact, or of one of its files. It is named by digest, because all outputs of a
    step share one key."""
    return scratch() / record.digest / (file or "whole")


def _link(store: LocalStore, record: Record, file: str) -> Path:
    link = copy_folder(record, file) / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(store.root / record.data / file)
    except OSError:  # a file system without links
        shutil.copyfile(store.root / record.data / file, link)
    return copy_folder(record, file)


def verify(store: Store, record: Record) -> None:
    """Checks every byte of an artifact against its record. Raises DamagedRecord at the first flaw."""
    stage(store, record, check="bytes")


def _check_in_place(
    store: LocalStore, record: Record, files: Iterable[File], check: Check
) -> dict[Path, Stamp]:
    """Checks files of a local store; returns their stamps at the time of the check."""
    known, whole, stamps = read_stamps(store, record.data), {}, {}
    for entry in files:
        try:
            path = store.file(f"{record.data}/{entry.path}")
        except FileNotFoundError as error:
            raise DamagedRecord(broken_file(store, record, entry.path, "is missing")) from error
        stamps[path] = before = stamp(path)
        settled, found = is_settled(before), known.get(entry.path)
        unread = (check != "bytes" and found == before) or (check == "writes" and found is None)
        _check(store, record, entry, path, read=not unread)
        if not unread and settled and stamp(path) == before:
            whole[entry.path] = before
    remember(store, record.data, whole)
    return stamps


def _copy(store: BucketStore, record: Record, files: Iterable[File], folder: Path) -> None:
    """Copies files into `folder`."""
    for entry in files:
        path, target = f"{record.data}/{entry.path}", folder / entry.path
        part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")  # another thread may stage it too
        if target.is_file():  # staged and checked earlier by this process
            continue
        try:
            store.fetch(path, part)
            _check(store, record, entry, part, read=True)
            part.replace(target)
        except FileNotFoundError as error:
            raise DamagedRecord(broken_file(store, record, entry.path, "is missing")) from error
        finally:
            part.unlink(missing_ok=True)


def _check(store: Store, record: Record, entry: File, path: Path, read: bool) -> None:
    flaw = entry.flaw(path.stat().st_size) or (read and entry.flaw(entry.bytes, file_sha256(path)))
    if flaw:
        raise DamagedRecord(broken_file(store, record, entry.path, flaw))


def broken_file(store: Store, record: Record, path: str, problem: str) -> str:
    """Returns the error line for a file that does not match its record, with the way out."""
    file, address = f"{store.url}/{record.data}/{path}", f"{store.url}/{record.folder}"
    return f"{file} {problem}: {way_out(address)} to rebuild it (step {record.step})"
