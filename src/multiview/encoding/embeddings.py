"""Reading the embeddings of a shard: memory-mapped, and checked block by block."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.errors import InputError

VIEWS_FILE = "views.f16"
ROWS_FILE = "rows.parquet"
HEADER_FILE = "embeddings.json"
REBUILD = "delete this artifact's folder and run `encode` again"
QUERIES_FIELD = pa.field("queries", pa.list_(pa.string()))
"""A further column of `rows.parquet` where passages were read with queries: the distinct ones, a view each."""


class Embeddings:
    """One shard's views as `encode` wrote them.

    `views.f16` is a raw little-endian float16 matrix [rows, dim], rows in passage order; `rows.parquet`
    gives each passage's rows; `embeddings.json` describes both and holds a sha256 for every block of
    `rows_per_block` rows, so that reading one block checks that block and nothing else.
    """

    def __init__(self, folder: Path) -> None:
        """Open `folder`; raises InputError when a file is missing or its size does not fit the others."""
        self.folder = folder
        self.header: dict[str, Any] = self._read_header()
        self.dim = int(self.header["dim"])
        self.rows = int(self.header["rows"])
        self.passages = int(self.header["passages"])
        self.rows_per_block = int(self.header["rows_per_block"])
        self.block_sha256: list[str] = self.header["block_sha256"]
        self.model: str = self.header["model"]
        self._check_size()

    @property
    def blocks(self) -> int:
        """Number of blocks; the last may be shorter."""
        return len(self.block_sha256)

    @cached_property
    def table(self) -> pa.Table:
        """`rows.parquet`: id, content_hash, offset, views; raises InputError where they do not add up."""
        path = self._existing(ROWS_FILE)
        table = pq.read_table(path)
        views = table["views"].to_numpy().astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(views)])
        if (
            table.num_rows != self.passages
            or offsets[-1] != self.rows
            or (views < 0).any()
            or not np.array_equal(table["offset"].to_numpy(), offsets[:-1])
        ):
            raise InputError(
                f"{path}: its passages do not add up to {self.rows} views of {self.passages} passages; {REBUILD}"
            )
        return table

    @cached_property
    def views(self) -> np.ndarray:
        """All views [rows, dim] float16, memory-mapped and *not* checked."""
        if not self.rows:
            return np.empty((0, self.dim), "<f2")
        return np.memmap(self.folder / VIEWS_FILE, dtype="<f2", mode="r", shape=(self.rows, self.dim))

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16, checked against its sha256.

        Raises InputError when the bytes are not those that were written, or a value is not finite.
        """
        start = number * self.rows_per_block
        block = self.views[start : start + self.rows_per_block]
        path = self.folder / VIEWS_FILE
        if hashlib.sha256(block.data).hexdigest() != self.block_sha256[number]:
            raise InputError(f"{path}: block {number} is not what was written (sha256 differs); {REBUILD}")
        if not np.isfinite(block).all():
            row = start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise InputError(
                f"{path}: row {row} is not finite in float16; the model diverged or its vectors exceed 65504: "
                "train it again or set model.normalise"
            )
        return block

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order, each checked as it is read."""
        return map(self.read_block, range(self.blocks))

    def _read_header(self) -> dict[str, Any]:
        path = self._existing(HEADER_FILE)
        try:
            header = json.loads(path.read_text())
        except ValueError as error:
            raise InputError(f"{path}: not JSON ({error}); {REBUILD}") from None
        missing = {"dim", "rows", "passages", "rows_per_block", "block_sha256", "model"} - set(header)
        if missing:
            raise InputError(f"{path}: lacks {', '.join(sorted(missing))}; {REBUILD}")
        return header

    def _check_size(self) -> None:
        path = self._existing(VIEWS_FILE)
        size = path.stat().st_size
        if size != self.rows * self.dim * 2:
            raise InputError(
                f"{path}: {size} bytes, but {self.rows} views of {self.dim} float16 values are {self.rows * self.dim * 2}; {REBUILD}"
            )
        if self.blocks != -(-self.rows // self.rows_per_block):
            raise InputError(
                f"{self.folder / HEADER_FILE}: {self.blocks} block digests for {self.rows} views; {REBUILD}"
            )

    def _existing(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise InputError(f"{path}: missing; {REBUILD}")
        return path
