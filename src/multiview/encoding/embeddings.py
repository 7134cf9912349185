"""The format of embeddings, with its writer and its reader: the views of one shard of passages in three files.

- `views.f16`: a raw matrix [rows, dim] of little-endian float16, one row per view, in the order of the passages.
- `rows.parquet`: one row per passage, `ROWS_SCHEMA`; with `QUERIES_FIELD` where passages were read with queries.
- `embeddings.json`: the header, with dim, rows, passages and the digest of the model.

An index has `views.f16` and, with `ROWS_SCHEMA`, `passages.parquet` in the same format.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.record import Record
from multiview.config import Encode, JsonObject
from multiview.errors import InputError

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
"""Passages per row group of `rows.parquet`, and views that are read into an index at once."""


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

    def __init__(
        self, folder: Path, dim: int, model: str, queries: bool = False, compute: str = "float32"
    ) -> None:
        """`model` is the digest of the model, which computes by `compute`; `queries` says whether the passages' queries are
        written too."""
        self.passages = 0
        self.rows = 0
        self._folder, self._dim, self._model = folder, dim, model
        # Where float16 overflows, as it does in some models, the model is right.
        self._overflow = "set encode.compute=bfloat16; else " if compute == "float16" else ""
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
                f"passage {passage_id!r}: its vector contains NaN; {self._overflow}the model has diverged: train with a lower train.learning_rate"
            )
        if not np.isfinite(views).all():
            raise InputError(
                f"passage {passage_id!r}: its vector does not fit into float16; {self._overflow}train with model.normalise=true, or for fewer steps"
            )
        self._views.seek(row * self._row_bytes)
        self._views.write(views.tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self._flush()
        self._table.close()
        self._views.close()
        if error_type is None:
            size = {"dim": self._dim, "rows": self.rows, "passages": self.passages}
            header = json.dumps({**size, "model": self._model}, indent=1, sort_keys=True)
            (self._folder / HEADER_FILE).write_text(f"{header}\n")

    def _flush(self) -> None:
        if self._pending:
            columns = [list(column) for column in zip(*self._pending, strict=True)]
            self._table.write_table(pa.table(columns, schema=self._schema))
            self._pending.clear()


class Embeddings:
    """The embeddings of one shard, memory-mapped. Their files are those that were written: staging compares every byte."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        header = json.loads((folder / HEADER_FILE).read_text())
        self.dim, self.rows, self.passages = header["dim"], header["rows"], header["passages"]
        self.model: str = header["model"]
        self.views = map_views(folder / VIEWS_FILE, self.rows, self.dim)
        """All views [rows, dim] float16."""

    @cached_property
    def table(self) -> pa.Table:
        """`rows.parquet`."""
        return pq.read_table(self.folder / ROWS_FILE)

    @property
    def has_queries(self) -> bool:
        """Whether the passages were read with queries."""
        return QUERIES_FIELD.name in self.table.column_names


def map_views(file: Path, rows: int, dim: int) -> np.ndarray:
    """Maps a file of views into memory as a matrix [rows, dim] float16."""
    if not rows:
        return np.empty((0, dim), VIEW_DTYPE)  # an empty file cannot be mapped
    # The memory of the mapped file, without the cost of `np.memmap` per access.
    return np.asarray(np.memmap(file, VIEW_DTYPE, "r", shape=(rows, dim)))
