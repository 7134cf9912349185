"""Artifacts as local files: in place where the store is local, verified copies elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from multiview.artifacts.record import File, Record, file_sha256, way_out
from multiview.artifacts.scratch import scratch
from multiview.artifacts.staged import Staged, StoredFile
from multiview.artifacts.store import LocalStore, Store
from multiview.artifacts.verified import Stamp, is_settled, read_stamps, remember, stamp
from multiview.errors import InputError

Check = Literal["size", "writes", "changes", "bytes"]


def stage(
    store: Store,
    record: Record,
    file: str | None = None,
    check: Check = "changes",
    streamed: Collection[str] = (),
) -> Staged:
    """Returns an artifact's files, or one of them, on local disk; but its files of `streamed` stay in a bucket.

    Copies are checked against the record as they arrive. Files of a local store are checked by sha256 unless they have
    not changed since they were last found whole (`multiview.artifacts.verified`); with `check="bytes"` in any case,
    with `check="writes"` only if they have changed since, and with `check="size"` by their sizes alone, as those of
    `streamed` are in any case. Raises InputError for a file that is missing, short or altered.
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
        unread = (
            check == "size" or (check != "bytes" and found == before) or (check == "writes" and found is None)
        )
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
    return Staged(folder, digest, f"{store.url}/{record.folder}", tuple(stamps), left)


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
