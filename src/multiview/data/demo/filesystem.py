"""The demo corpus as `demo://train.json` and `demo://dev.json`, generated when read; `pyproject.toml` registers it."""

import hashlib
from functools import cached_property
from io import BytesIO
from typing import Any

from fsspec import AbstractFileSystem

from multiview.config import JsonObject
from multiview.data.demo.corpus import demo_files


class DemoFileSystem(AbstractFileSystem):
    """A read-only file system of one folder with two files."""

    protocol = "demo"

    @cached_property
    def _files(self) -> dict[str, bytes]:
        return demo_files()

    def ls(self, path: str, detail: bool = True, **kwargs: object) -> list[Any]:
        """Returns the files in the root, or the one at `path`, with its sha256 as `ETag`. Raises FileNotFoundError."""
        path = str(self._strip_protocol(path)).strip("/")
        files = {name: content for name, content in self._files.items() if path in ("", name)}
        if not files:
            raise FileNotFoundError(path)
        entries: list[JsonObject] = [
            {"name": name, "size": len(content), "type": "file", "ETag": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        ]
        return entries if detail else list(files)

    def _open(self, path: str, mode: str = "rb", *args: object, **kwargs: object) -> Any:
        if mode != "rb":
            raise OSError(f"demo://{path} is read-only")
        return BytesIO(self._files[self.ls(path, detail=False)[0]])
