"""Artifacts as local files: in place where the store is local, verified copies elsewhere."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from multiview import environment
from multiview.artifacts.record import File, Record, file_sha256
from multiview.artifacts.staged import Staged
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError


def stage(store: Store, record: Record, file: str | None = None, verify: bool = False) -> Staged:
    """An artifact's files, or one of them, on local disk.

    Copies are checked against the record as they arrive; files of a local store by size, and by
    sha256 with `verify`. Raises InputError for a file that is missing, short or altered.
    """
    files = [record.file(file)] if file else record.files
    digest = record.file(file).sha256 if file else record.digest
    local = isinstance(store, LocalStore)
    in_place = local and file is None
    # By content: artifacts of one step share their key.
    folder = scratch() / record.digest / (file or "whole")
    if in_place and isinstance(store, LocalStore):
        folder = store.root / record.data
    for entry in files:
        target = folder / entry.path
        if not local and target.is_file():  # staged and checked earlier by this process
            continue
        part = target.with_name(f"{target.name}.part")
        try:
            found = store.fetch(f"{record.data}/{entry.path}", part)
        except FileNotFoundError as error:
            raise InputError(broken_file(store, record, entry.path, "is missing")) from error
        _check(store, record, entry, found, verify or not local)
        if not local:
            part.replace(target)
        elif not in_place:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(found)
    return Staged(folder, digest, f"{store.url}/{record.folder}")


def verify(store: Store, record: Record) -> None:
    """Read every byte of an artifact against its record. Raises InputError at the first flaw."""
    stage(store, record, verify=True)


@functools.cache
def scratch() -> Path:
    """This process's scratch folder, under `MULTIVIEW_SCRATCH` if set; gone when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="multiview-", dir=os.environ.get(environment.SCRATCH)))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _check(store: Store, record: Record, entry: File, found: Path, verify: bool) -> None:
    size = found.stat().st_size
    if size != entry.bytes:
        problem = f"has {size} bytes instead of {entry.bytes}"
    elif verify and file_sha256(found) != entry.sha256:
        problem = "was altered (its sha256 differs)"
    else:
        return
    raise InputError(broken_file(store, record, entry.path, problem))


def broken_file(store: Store, record: Record, path: str, problem: str) -> str:
    """The line about a file that is not what its record says, with the way out."""
    return (
        f"{store.url}/{record.data}/{path} {problem}: remove the folder "
        f"{store.url}/{record.folder} and run again to rebuild it (step {record.step})"
    )
