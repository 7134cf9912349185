"""A step's inputs: a local folder with the digest of its content, or the digest alone."""

from dataclasses import dataclass
from pathlib import Path

from multiview.artifacts.verified import Stamp


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


@dataclass(frozen=True)
class Recorded:
    """An artifact that a step names in its record without reading all of it: not on local disk."""

    digest: str
    address: str = ""
