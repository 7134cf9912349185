"""What a step sees of its inputs: a local folder and the digest of what should lie in it, or the digest alone."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Staged:
    """An artifact, or the part of it that a step asked for, on local disk.

    `digest` is the whole artifact's digest, or the sha256 of the one file asked for.
    """

    path: Path
    digest: str
    address: str = ""
    """Where its record is, for steps that look at what it was made from."""


@dataclass(frozen=True)
class Recorded:
    """An artifact that a step names in its record without reading all of it: not on local disk."""

    digest: str
    address: str = ""
