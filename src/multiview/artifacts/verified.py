"""Which files of an artifact have been read and found as their record says, and have not changed since.

A local store keeps this in `<attempt>.verified.json` beside the files, so that a step reads each byte of its inputs
once and not in every step. A file counts as unchanged while its size, time of writing, time of its inode's change,
and inode are the same: whatever writes to a file changes one of them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

from multiview.artifacts.local_store import LocalStore

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
    """Returns the stamps of an artifact's verified files by path; none where there is no file, or it is damaged."""
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
