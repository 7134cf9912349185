"""A store in a bucket."""

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from multiview.artifacts.base_store import Entry, Store
from multiview.artifacts.scratch import scratch
from multiview.artifacts.servers import PROTOCOLS, errors_explained, file_system

PART, PARTS = 8 << 20, 10_000
"""Bytes per request of a large file to or from a bucket, and the largest number of requests that S3 allows."""
OPTIONS = {"gs": {}, "s3": {"default_block_size": PART, "max_concurrency": 4}}
"""Options of the file systems. The defaults of s3fs, ten parts of 50 MB at once and their copies, need more memory than
small pods have."""


class BucketStore(Store):
    """A store on `gs://` or `s3://`.

    Exclusive creation is Cloud Storage's `ifGenerationMatch=0` and S3's `If-None-Match: *`.
    """

    def __init__(self, url: str):
        protocol = PROTOCOLS[url.partition("://")[0]]
        self.fs, root = file_system(url, use_listings_cache=False, **OPTIONS[protocol])
        self.root = root.rstrip("/")
        self.url = f"{protocol}://{self.root}"
        if protocol == "s3":
            import s3fs.core

            # S3 asks to try again while another exclusive write of the same file is under way.
            s3fs.core.set_custom_error_handler(lambda error: "ConditionalRequestConflict" in str(error))

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._ask("pipe_file", path, data, mode="create")
        except Exception:
            # The existing file decides. A request whose answer was lost is repeated and then refused, and
            # S3 servers differ in the error of a refusal: s3fs knows only that of AWS.
            existing = self.read(path)
            if existing is None:
                raise
            return existing == data
        return True

    def replace(self, path: str, data: bytes) -> None:
        self._ask("pipe_file", path, data)

    def read(self, path: str) -> bytes | None:
        return self._found("cat_file", path)

    def entries(self, path: str) -> list[Entry]:
        objects = self._found("find", path, detail=True) or {}
        return [
            # The time is `mtime` in gcsfs and `LastModified` in s3fs.
            Entry(
                name[len(self.root) + 1 :],
                details["size"],
                (details.get("mtime") or details["LastModified"]).timestamp(),
            )
            for name, details in sorted(objects.items())
            # s3fs names the folder itself where its first file is written while it looks. Tools that copy or mount
            # buckets make empty objects that are called like folders.
            if details["type"] != "directory" and not name.endswith("/")
        ]

    def folders(self, path: str) -> list[str]:
        entries = self._found("ls", path, detail=True) or ()
        folders = {e["name"].rstrip("/") for e in entries if e["type"] == "directory"}
        own = f"{self.root}/{path}".rstrip("/")  # gcsfs lists a folder's own object in it
        return sorted(name.rsplit("/", 1)[-1] for name in folders - {own})

    def remove(self, path: str) -> None:
        for file in self.files(path) or [path]:
            self._found("rm_file", file)

    def workspace(self, path: str) -> Path:
        return Path(tempfile.mkdtemp(prefix="attempt-", dir=scratch()))

    def save(self, workspace: Path, path: str) -> None:
        for file in sorted(p for p in workspace.rglob("*") if p.is_file()):
            relative = file.relative_to(workspace).as_posix()
            part = PART * max(1, -(-file.stat().st_size // (PART * PARTS)))
            try:
                with errors_explained(self.url):
                    self.fs.put_file(str(file), f"{self.root}/{path}/{relative}", chunksize=part)
            except Exception:
                # As in `create`: the parts were joined, the answer was lost, and the repetition found no parts.
                written = self._found("info", f"{path}/{relative}")
                if written is None or written["size"] != file.stat().st_size:
                    raise

    def fetch(self, path: str, target: Path) -> None:
        """Copies one file to local disk. Raises FileNotFoundError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self._ask("get_file", path, str(target))

    def open(self, path: str) -> BinaryIO:
        return self._ask("open", path, "rb", block_size=PART, cache_type="readahead")

    def _ask(self, operation: str, path: str, *arguments: object, **options: object) -> Any:
        """Returns the result of fsspec's `operation` on a path. Raises InputError without access or an answer."""
        with errors_explained(self.url):
            return getattr(self.fs, operation)(f"{self.root}/{path}", *arguments, **options)

    def _found(self, operation: str, path: str, **options: object) -> Any:
        """Returns the result of `_ask`; None if there is nothing at the path."""
        try:
            return self._ask(operation, path, **options)
        except FileNotFoundError:
            return None
