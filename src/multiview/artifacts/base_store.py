"""The operations of a store, whatever keeps its files."""

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from multiview.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A file of a store."""

    path: str
    bytes: int
    modified: float
    """Time of the last write, in seconds since 1970."""


class Store(ABC):
    """A store's files, by their paths relative to `url`, with `/` as separator."""

    url: str

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Creates a file exclusively and whole; returns False if another writer's file already exists.

        Racing writers must write different bytes, as records do by naming their attempt.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Writes a file, or replaces it, atomically."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file; None if there is none."""

    def files(self, path: str) -> list[str]:
        """Returns the paths of all files below a folder, sorted; empty if there is no such folder."""
        return [entry.path for entry in self.entries(path)]

    @abstractmethod
    def entries(self, path: str) -> list[Entry]:
        """Returns all files below a folder with their sizes and times, sorted by path."""

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Returns the names of the folders in a folder, sorted; empty if there is no such folder."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a folder with its content; does nothing if it is gone."""

    @abstractmethod
    def workspace(self, path: str) -> Path:
        """Creates a local folder whose files `save` writes under `path`."""

    @abstractmethod
    def save(self, workspace: Path, path: str) -> None:
        """Makes the files of a workspace durable under `path`."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading from its beginning. Raises FileNotFoundError, at once or at the first read."""

    def check_exists(self) -> None:
        """Raises InputError for an empty store: its name is wrong, or nothing was made in it yet."""
        if not self.folders(""):
            raise InputError(f"store {self.url}: there is nothing; is it the right one?")

    def check_writable(self) -> None:
        """Raises InputError unless the store can create files exclusively."""
        probe = f"probe-{uuid.uuid4().hex}"
        try:
            first, second = self.create(probe, b"1"), self.create(probe, b"2")
            self.remove(probe)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"store {self.url} is not writable: {error}") from error
        if not first or second:
            raise InputError(
                f"store {self.url} does not enforce exclusive creation, so two runs could harm each "
                "other: use a local disk, or a gs:// or s3:// bucket that does"
            )
