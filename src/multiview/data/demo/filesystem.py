"""The demo corpus behind the URLs `demo://train.json` and `demo://dev.json`, for whoever reads files.

It is made where it is read, so that the demo needs no download and no upload, on a laptop or in a
pod. `pyproject.toml` registers the protocol with fsspec.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from io import BytesIO
from typing import Any

from fsspec import AbstractFileSystem

from multiview.data.demo.corpus import demo_files


class DemoFileSystem(AbstractFileSystem):
    """Read-only; one folder with two files."""

    protocol = "demo"

    @cached_property
    def _files(self) -> dict[str, bytes]:
        return demo_files()

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The files in the root, or the one that `path` names. Raises FileNotFoundError for others."""
        path = str(self._strip_protocol(path)).strip("/")
        names = [name for name in self._files if path in ("", name)]
        if not names:
            raise FileNotFoundError(path)
        return [self._describe(name) for name in names] if detail else names

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """A file with its sha256 as `ETag`, or the root."""
        path = str(self._strip_protocol(path)).strip("/")
        if not path:
            return {"name": "", "size": 0, "type": "directory"}
        return self.ls(path)[0]

    def _describe(self, name: str) -> dict[str, Any]:
        content = self._files[name]
        etag = hashlib.sha256(content).hexdigest()
        return {"name": name, "size": len(content), "type": "file", "ETag": etag}

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if mode != "rb":
            raise OSError(f"demo://{path} is read-only")
        return BytesIO(self._files[self.ls(path, detail=False)[0]])
