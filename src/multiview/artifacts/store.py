"""A store: the local folder or bucket prefix under which all artifacts live.

Two operations carry everything else: `create`, which makes a file exclusively and whole, and
`replace`, which overwrites one atomically. A file system that has no exclusive create is refused.
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

from multiview import environment, names
from multiview.artifacts.credentials import PROTOCOLS, credentials_told
from multiview.errors import InputError

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)


PART, PARTS = 8 << 20, 10_000
"""Bytes of a large file that go to or come from a bucket in one request, and the most requests that S3 allows."""
OPTIONS = {"gs": {}, "s3": {"default_block_size": PART, "max_concurrency": 4}}
"""What s3fs does by itself, ten times 50 MB at once and their copies, is more than small pods have."""


@dataclass(frozen=True)
class Entry:
    """A file of a store."""

    path: str
    bytes: int
    modified: float
    """When it was written last, in seconds since 1970."""


class Store(ABC):
    """Files by path relative to `url`, all with `/`."""

    url: str

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Create a file exclusively and whole; False if another's is there already.

        Those who race must write different bytes, as records do, which name their attempt.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Write a file, or replace it, atomically."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    @abstractmethod
    def files(self, path: str) -> list[str]:
        """Paths of all files below a folder, sorted; empty if there is no such folder."""

    @abstractmethod
    def entries(self, path: str) -> list[Entry]:
        """All files below a folder with their sizes and times, sorted by path."""

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Names of the folders in a folder, sorted; empty if there is no such folder."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a folder with all it holds; nothing happens if it is gone."""

    @abstractmethod
    def workspace(self, path: str) -> Path:
        """A new local folder whose files `save` will leave under `path`."""

    @abstractmethod
    def save(self, workspace: Path, path: str) -> None:
        """Make the files of a workspace durable under `path`."""

    @abstractmethod
    def fetch(self, path: str, target: Path) -> Path:
        """A local copy of one file: the file itself where the store is local.

        Raises FileNotFoundError.
        """

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """One file, to be read from its beginning in pieces, without a copy of it here.

        Raises FileNotFoundError, here or at the first read.
        """

    def check_writable(self) -> None:
        """Raise InputError unless files can be created exclusively here."""
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
    """A store in a local folder. Exclusive creation is by `os.link`, which is atomic."""

    def __init__(self, root: Path):
        self.root = root.absolute()
        self.url = str(self.root)

    def create(self, path: str, data: bytes) -> bool:
        target = self.root / path
        temporary = self._temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            # A network file system may repeat a link whose answer was lost: then it is ours.
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
        found = (p for p in (self.root / path).rglob("*") if p.is_file())
        return sorted(p.relative_to(self.root).as_posix() for p in found)

    def entries(self, path: str) -> list[Entry]:
        found = []
        for file in self.files(path):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                told = (self.root / file).stat()
                found.append(Entry(file, told.st_size, told.st_mtime))
        return found

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
            # What lies there decides, because a request whose answer was lost is sent again and then
            # refused, and because servers of S3 name a refusal differently: s3fs knows AWS's name alone.
            there = self.read(path)
            if there is None:
                raise
            return there == data
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
            found = self._ask("find", path)
        except FileNotFoundError:
            return []
        return sorted(name[len(self.root) + 1 :] for name in found)

    def entries(self, path: str) -> list[Entry]:
        try:
            found = self._ask("find", path, detail=True)
        except FileNotFoundError:
            return []
        return [
            # gcsfs says mtime, s3fs LastModified.
            Entry(
                name[len(self.root) + 1 :],
                told["size"],
                (told.get("mtime") or told["LastModified"]).timestamp(),
            )
            for name, told in sorted(found.items())
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
        return Path(tempfile.mkdtemp(prefix="multiview-", dir=os.environ.get(environment.SCRATCH)))

    def save(self, workspace: Path, path: str) -> None:
        for file in sorted(p for p in workspace.rglob("*") if p.is_file()):
            relative = file.relative_to(workspace).as_posix()
            part = PART * max(1, -(-file.stat().st_size // (PART * PARTS)))
            with credentials_told(self.url):
                self.fs.put_file(str(file), f"{self.root}/{path}/{relative}", chunksize=part)

    def fetch(self, path: str, target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._ask("get_file", path, str(target))
        return target

    def open(self, path: str) -> BinaryIO:
        return self._ask("open", path, "rb", block_size=PART, cache_type="readahead")

    def _ask(self, operation: str, path: str, *given: Any, **options: Any) -> Any:
        """What fsspec's `operation` makes of a path; InputError where credentials are missing or do not suffice."""
        with credentials_told(self.url):
            return getattr(self.fs, operation)(f"{self.root}/{path}", *given, **options)


def open_store(url: str) -> Store:
    """The store at a local folder or a `gs://` or `s3://` URL.

    Raises InputError for any other file system: none of them is known to create exclusively.
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
