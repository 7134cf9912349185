"""A step's inputs: a local folder with the digest of its content, or the digest alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from multiview.artifacts.base_store import Store
from multiview.artifacts.verified import Stamp


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
class Staged:
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


@dataclass(frozen=True)
class Recorded:
    """An artifact that a step names in its record without reading all of it: not on local disk."""

    digest: str
    address: str = ""
