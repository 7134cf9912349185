"""A store: the local folder or bucket prefix of all artifacts.

Two operations are the base of everything else: `create`, which creates a file exclusively and whole, and
`replace`, which overwrites a file atomically. A file system without exclusive creation is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from multiview import names
from multiview.artifacts.credentials import PROTOCOLS, credentials_explained
from multiview.artifacts.scratch import scratch
from multiview.errors import InputError

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)


PART, PARTS = 8 << 20, 10_000
"""Bytes per request of a large file to or from a bucket, and the largest number of requests that S3 allows."""
OPTIONS = {"gs": {}, "s3": {"default_block_size": PART, "max_concurrency": 4}}
"""Options of the file systems. The defaults of s3fs, ten parts of 50 MB at once and their copies, need more memory than
small pods have."""


@dataclass(frozen=True)
class Entry:
    """A file of a store."""

    path: str
    bytes: int
    modified: float
    """Time of the last write, in seconds since 1970."""


class Store(ABC):
    """Files by path relative to `url`, with `/` as separator."""

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

    @abstractmethod
    def files(self, path: str) -> list[str]:
        """Returns the paths of all files below a folder, sorted; empty if there is no such folder."""

    @abstractmethod
    def entries(self, path: str) -> list[Entry]:
        """Returns all files below a folder with their sizes and times, sorted by path."""

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Returns the names of the folders in a folder, sorted; empty if there is no such folder."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a folder with its content; nothing happens if it is gone."""

    @abstractmethod
    def workspace(self, path: str) -> Path:
        """Creates a local folder whose files `save` writes under `path`."""

    @abstractmethod
    def save(self, workspace: Path, path: str) -> None:
        """Makes the files of a workspace durable under `path`."""

    @abstractmethod
    def fetch(self, path: str, target: Path) -> Path:
        """Returns a local copy of one file, or the file itself if the store is local.

        Raises FileNotFoundError.
        """

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Opens one file for reading in pieces from its beginning, without a local copy.

        Raises FileNotFoundError, at once or at the first read.
        """

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


class LocalStore(Store):
    """A store in a local folder. Exclusive creation uses `os.link`, which is atomic."""

    def __init__(self, root: Path):
        self.root = root.absolute()
        self.url = str(self.root)

    def create(self, path: str, data: bytes) -> bool:
        target = self.root / path
        temporary = self._temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            # A network file system may repeat a link after a lost answer: then the existing link is ours.
            return temporary.stat().st_nlink == 2
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            raise InputError(
                f"store {self.url} has no hard links ({error.strerror}), so artifacts cannot be "
                "published safely: use another disk, or a gs:// or s3:// bucket"
            ) from error
        finally:
            temporary.unlink()
        _sync(target.parent)
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self.root / path
        self._temporary(target, data).replace(target)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def files(self, path: str) -> list[str]:
        files = (p for p in (self.root / path).rglob("*") if p.is_file())
        return sorted(p.relative_to(self.root).as_posix() for p in files)

    def entries(self, path: str) -> list[Entry]:
        entries = []
        for file in self.files(path):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                status = (self.root / file).stat()
                entries.append(Entry(file, status.st_size, status.st_mtime))
        return entries

    def folders(self, path: str) -> list[str]:
        folder = self.root / path
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def workspace(self, path: str) -> Path:
        folder = self.root / path
        folder.mkdir(parents=True)
        return folder

    def save(self, workspace: Path, path: str) -> None:
        if workspace != self.root / path:
            raise ValueError(f"{workspace} is not the workspace of {path}")
        for file in sorted(workspace.rglob("*")):
            _sync(file)
        for folder in (workspace, workspace.parent, workspace.parent.parent):
            _sync(folder)

    def fetch(self, path: str, target: Path) -> Path:
        file = self.root / path
        if not file.is_file():
            raise FileNotFoundError(f"{self.url}/{path}")
        return file

    def open(self, path: str) -> BinaryIO:
        return (self.root / path).open("rb")

    def _temporary(self, target: Path, data: bytes) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary


class BucketStore(Store):
    """A store on `gs://` or `s3://`.

    Exclusive creation is Cloud Storage's `ifGenerationMatch=0` and S3's `If-None-Match: *`.
    """

    def __init__(self, url: str):
        protocol = PROTOCOLS[url.partition("://")[0]]
        self.fs, root = fsspec.url_to_fs(url, use_listings_cache=False, **OPTIONS[protocol])
        self.root = root.rstrip("/")
        self.url = f"{protocol}://{self.root}"

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._ask("pipe_file", path, data, mode="create")
        except OSError:
            # The existing file decides. A request is repeated after a lost answer and then refused, and
            # servers of S3 name a refusal differently: s3fs knows only AWS's name.
            existing = self.read(path)
            if existing is None:
                raise
            return existing == data
        return True

    def replace(self, path: str, data: bytes) -> None:
        self._ask("pipe_file", path, data)

    def read(self, path: str) -> bytes | None:
        try:
            return self._ask("cat_file", path)
        except FileNotFoundError:
            return None

    def files(self, path: str) -> list[str]:
        try:
            objects = self._ask("find", path)
        except FileNotFoundError:
            return []
        return sorted(name[len(self.root) + 1 :] for name in objects)

    def entries(self, path: str) -> list[Entry]:
        try:
            objects = self._ask("find", path, detail=True)
        except FileNotFoundError:
            return []
        return [
            # The time is `mtime` in gcsfs and `LastModified` in s3fs.
            Entry(
                name[len(self.root) + 1 :],
                details["size"],
                (details.get("mtime") or details["LastModified"]).timestamp(),
            )
            for name, details in sorted(objects.items())
        ]

    def folders(self, path: str) -> list[str]:
        try:
            entries = self._ask("ls", path, detail=True)
        except FileNotFoundError:
            return []
        folders = (e["name"].rstrip("/") for e in entries if e["type"] == "directory")
        return sorted(name.rsplit("/", 1)[-1] for name in folders)

    def remove(self, path: str) -> None:
        for file in self.files(path) or [path]:
            try:
                self._ask("rm_file", file)
            except FileNotFoundError:
                continue

    def workspace(self, path: str) -> Path:
        return Path(tempfile.mkdtemp(prefix="attempt-", dir=scratch()))

    def save(self, workspace: Path, path: str) -> None:
        for file in sorted(p for p in workspace.rglob("*") if p.is_file()):
            relative = file.relative_to(workspace).as_posix()
            part = PART * max(1, -(-file.stat().st_size // (PART * PARTS)))
            with credentials_explained(self.url):
                self.fs.put_file(str(file), f"{self.root}/{path}/{relative}", chunksize=part)

    def fetch(self, path: str, target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._ask("get_file", path, str(target))
        return target

    def open(self, path: str) -> BinaryIO:
        return self._ask("open", path, "rb", block_size=PART, cache_type="readahead")

    def _ask(self, operation: str, path: str, *arguments: object, **options: object) -> Any:
        """Returns the result of fsspec's `operation` on a path. Raises InputError for missing or insufficient credentials."""
        with credentials_explained(self.url):
            return getattr(self.fs, operation)(f"{self.root}/{path}", *arguments, **options)


def open_store(url: str) -> Store:
    """Returns the store at a local folder or a `gs://` or `s3://` URL.

    Raises InputError for any other file system, because none is known to create files exclusively.
    """
    protocol, separator, _ = url.partition("://")
    if not separator or protocol in ("file", "local"):
        return LocalStore(Path(fsspec.url_to_fs(url)[1]))
    if protocol in PROTOCOLS:
        try:
            return BucketStore(url)
        except ImportError as error:
            raise InputError(f"store {url} needs s3fs: pip install '{names.DISTRIBUTION}[s3]'") from error
        except Exception as error:
            raise InputError(f"store {url} cannot be opened: {error}") from error
    raise InputError(
        f"store {url}: {protocol}:// cannot create files exclusively here; use a local folder, gs:// or s3://"
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
