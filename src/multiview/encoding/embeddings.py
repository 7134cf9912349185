"""The format of embeddings, with its writer and its reader: the views of one shard of passages in three files.

- `views.f16`: a raw matrix [rows, dim] of little-endian float16, one row per view, in the order of the passages.
- `rows.parquet`: one row per passage, `ROWS_SCHEMA`; with `QUERIES_FIELD` where passages were read with queries.
- `embeddings.json`: the header, with dim, rows, passages, the digest of the model, and a sha256 per block of
  `rows_per_block` rows, so that a block can be read and checked by itself.

An index has `views.f16` and, with `ROWS_SCHEMA`, `passages.parquet` in the same format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.record import Record
from multiview.config import Encode, JsonObject
from multiview.errors import InputError, counted

VIEWS_FILE = "views.f16"
ROWS_FILE = "rows.parquet"
HEADER_FILE = "embeddings.json"

VIEW_DTYPE = np.dtype("<f2")
ROWS_SCHEMA = pa.schema(
    [("id", pa.string()), ("content_hash", pa.string()), ("offset", pa.int64()), ("views", pa.int32())]
)
"""Columns of `rows.parquet`: `offset` is the row of a passage's first view, `views` the number of its views."""

QUERIES_FIELD = pa.field("queries", pa.list_(pa.string()))
"""One more column of `rows.parquet` where passages were read with queries: a passage's queries as drawn, with repeats.
Each distinct one has a view, in this order."""

KEPT_FIELD = pa.field("kept", pa.list_(pa.bool_()))
"""A further column of an index's `passages.parquet` with `index.merge_views`: which of a passage's rows in the
embeddings the index keeps. `offset` and `views` count only these."""

ROWS_PER_BLOCK = 4096
"""Rows that share a digest, and are all read to check any of them; also passages per row group of `rows.parquet`."""

REBUILD = "delete this artifact's folder and run `encode` again"


def encoded_with(index: Record, device: str) -> Encode:
    """Returns the settings that an index was encoded with, to encode its questions with them on `device`.

    They are those of its record, without the ones that this version does not have.
    """
    known = {
        name: value for name, value in index.config.get("encode", {}).items() if name in Encode.model_fields
    }
    return Encode.model_validate(known | {"device": device})


def of_passages(encode: JsonObject) -> JsonObject:
    """Returns the settings of section encode in a record's form without the one that changes questions alone."""
    return {name: value for name, value in encode.items() if name != "question_length"}


class EmbeddingsWriter:
    """Writes the embeddings of one shard: passages in their order, the views of all passages in any order.

    A context manager, which completes the files unless it is left by an exception::

        with EmbeddingsWriter(folder, dim=2, model=digest) as writer:
            row = writer.add_passage("p1", content_hash("", "Tesla."), views=3)
            writer.write_views("p1", row, vectors)
    """

    def __init__(self, folder: Path, dim: int, model: str, queries: bool = False) -> None:
        """`model` is the digest of the model; `queries` says whether the passages' queries are written too."""
        self.passages = 0
        self.rows = 0
        self._folder, self._dim, self._model = folder, dim, model
        self._row_bytes = dim * VIEW_DTYPE.itemsize
        self._schema = ROWS_SCHEMA.append(QUERIES_FIELD) if queries else ROWS_SCHEMA
        self._pending: list[tuple[object, ...]] = []
        self._table = pq.ParquetWriter(folder / ROWS_FILE, self._schema, compression="zstd")
        self._views = (folder / VIEWS_FILE).open("wb")

    def add_passage(self, id: str, content_hash: str, views: int, queries: Sequence[str] = ()) -> int:
        """Adds the next passage, which has `views` views; returns the row of the first one."""
        first = self.rows
        columns = (id, content_hash, first, views, list(queries))
        self._pending.append(columns[: len(self._schema)])
        self.passages += 1
        self.rows += views
        if len(self._pending) == ROWS_PER_BLOCK:
            self._flush()
        return first

    def write_views(self, passage_id: str, row: int, vectors: np.ndarray) -> None:
        """Writes `vectors` [n, dim] of a passage, starting at `row`. Raises InputError where float16 cannot hold them."""
        with np.errstate(over="ignore"):
            views = vectors.astype(VIEW_DTYPE)
        if np.isnan(vectors).any():
            raise InputError(
                f"passage {passage_id!r}: its vector contains NaN; the model has diverged: train with a lower train.learning_rate"
            )
        if not np.isfinite(views).all():
            raise InputError(
                f"passage {passage_id!r}: its vector does not fit into float16; train with model.normalise=true, or for fewer steps"
            )
        self._views.seek(row * self._row_bytes)
        self._views.write(views.tobytes())

    def __enter__(self) -> EmbeddingsWriter:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._flush()
        self._table.close()
        self._views.close()
        if error_type is None:
            self._write_header()

    def _flush(self) -> None:
        if self._pending:
            columns = [list(column) for column in zip(*self._pending, strict=True)]
            self._table.write_table(pa.table(columns, schema=self._schema))
            self._pending.clear()

    def _write_header(self) -> None:
        header = {
            "dim": self._dim,
            "rows": self.rows,
            "passages": self.passages,
            "rows_per_block": ROWS_PER_BLOCK,
            "block_sha256": list(_digests(self._folder / VIEWS_FILE, ROWS_PER_BLOCK * self._row_bytes)),
            "model": self._model,
        }
        (self._folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")


class Embeddings:
    """The embeddings of one shard, memory-mapped: blocks of views, each checked as it is read."""

    def __init__(self, folder: Path) -> None:
        """Opens `folder`. Raises InputError where a file is missing or the files do not fit together."""
        self.folder = folder
        header = self._read_header()
        self.dim = int(header["dim"])
        self.rows = int(header["rows"])
        self.passages = int(header["passages"])
        self.rows_per_block = int(header["rows_per_block"])
        self.block_sha256: list[str] = header["block_sha256"]
        self.model: str = header["model"]
        self.views = map_views(folder / VIEWS_FILE, self.rows, self.dim, REBUILD)
        """All views [rows, dim] float16, memory-mapped and *not* checked."""
        if self.blocks != -(-self.rows // self.rows_per_block):
            raise InputError(
                f"{folder / HEADER_FILE}: {counted(self.blocks, 'block digest')} for {counted(self.rows, 'view')}; {REBUILD}"
            )

    @property
    def blocks(self) -> int:
        """Number of blocks; the last block may be shorter."""
        return len(self.block_sha256)

    @cached_property
    def table(self) -> pa.Table:
        """`rows.parquet`. Raises InputError where its passages do not add up to the views."""
        path = existing(self.folder / ROWS_FILE, REBUILD)
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
                f"{path}: its passages do not add up to {counted(self.rows, 'view')} of {counted(self.passages, 'passage')}; {REBUILD}"
            )
        return table

    @property
    def has_queries(self) -> bool:
        """Whether the passages were read with queries."""
        return QUERIES_FIELD.name in self.table.column_names

    def read_block(self, number: int) -> np.ndarray:
        """Returns the views of block `number` [rows, dim] float16, checked against the block's sha256.

        Raises InputError if the bytes are not those that were written, or a value is not finite.
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

    def _read_header(self) -> JsonObject:
        path = existing(self.folder / HEADER_FILE, REBUILD)
        try:
            header = json.loads(path.read_text())
        except ValueError as error:
            raise InputError(f"{path}: not JSON ({error}); {REBUILD}") from None
        missing = {"dim", "rows", "passages", "rows_per_block", "block_sha256", "model"} - set(header)
        if missing:
            raise InputError(f"{path}: lacks {', '.join(sorted(missing))}; {REBUILD}")
        return header


def map_views(file: Path, rows: int, dim: int, way_out: str) -> np.ndarray:
    """Maps a file of views into memory as a matrix [rows, dim] float16; its values are not checked.

    Raises InputError, which ends with `way_out`, if the file is missing or has another size.
    """
    size, expected = existing(file, way_out).stat().st_size, rows * dim * VIEW_DTYPE.itemsize
    if size != expected:
        raise InputError(
            f"{file}: {size} bytes, but {counted(rows, 'view')} of {dim} float16 values, {expected} bytes; {way_out}"
        )
    if not rows:
        return np.empty((0, dim), VIEW_DTYPE)  # an empty file cannot be mapped
    return np.memmap(file, VIEW_DTYPE, "r", shape=(rows, dim))


def existing(path: Path, way_out: str) -> Path:
    """Returns `path`. Raises InputError, which ends with `way_out`, where there is no such file."""
    if not path.is_file():
        raise InputError(f"{path}: missing; {way_out}")
    return path


def _digests(file: Path, block_bytes: int) -> Iterator[str]:
    with file.open("rb") as views:
        while block := views.read(block_bytes):
            yield hashlib.sha256(block).hexdigest()
