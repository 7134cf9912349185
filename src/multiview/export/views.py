"""The views of an index with what they represent, in batches of Arrow: what every export of an index is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from multiview.artifacts.staging import stage
from multiview.data.passages import SCHEMA, PassageRows, passages_of, shard_files
from multiview.errors import InputError
from multiview.index.indexed_passages import IndexedPassage, IndexedView
from multiview.index.view_index import ViewIndex
from multiview.model.layouts import Layout
from multiview.serving.retriever import check_length, load_artifacts

VIEWS_AT_ONCE = 4096
"""Views per batch at most, unless one passage alone has more."""

COLUMNS = "columns"
"""The column with the corpus's own columns, as a struct; absent where the corpus has none."""


@dataclass(frozen=True)
class IndexName:
    """What an export says about the index that it was made from."""

    index: str
    """The index's folder in its store, `index/KEY`: a store may be moved."""
    digest: str
    """The index's digest, a sha256."""
    model: str
    """The digest of the model that made the views."""
    passages: str
    """The digest of the passages: an index has the same digest whatever the corpus's own columns say."""


class IndexViews:
    """The views of an index in index order, each with its passage's id, its span, its snippet and the corpus's own columns.

    >>> views = IndexViews.open(address)
    >>> first = next(views.batches())
    >>> first.column("passage_id")[0].as_py(), first.column("vector").type
    ('p0', FixedSizeListType(fixed_size_list<element: float not null>[64]))
    """

    def __init__(self, name: IndexName, index: ViewIndex, layout: Layout, corpus: PassageRows) -> None:
        """`corpus` has the passages of `index` in the same order; `layout` is that of the model that made the views.

        Raises InputError where index and corpus differ in their number of passages.
        """
        check_length(name.index, index, corpus)
        self.name = name
        self.index = index
        self.layout = layout
        self.corpus = corpus

    @classmethod
    def open(cls, address: str) -> IndexViews:
        """Opens the index at `address`, with the model and the passages that its record names.

        Files in a bucket are copied; every file is checked by sha256 unless it has not changed since it was last
        checked. Raises InputError where there is no index at `address`, or an artifact that its record names is missing
        or altered.
        """
        # Imported only now, because importing torch takes seconds.
        from multiview.model.encoder import load_layout

        artifacts = load_artifacts(address)
        index, model, passages = (stage(*each).path for each in artifacts)
        (_, record), (_, made_by), (_, corpus) = artifacts
        opened = ViewIndex.load(index)
        opened.check_model(made_by.digest)
        name = IndexName(record.folder, record.digest, made_by.digest, corpus.digest)
        return cls(name, opened, load_layout(model), PassageRows(shard_files(passages)))

    def __len__(self) -> int:
        """Number of views."""
        return len(self.index.stored)

    @property
    def passages(self) -> int:
        """Number of passages, those without a view included."""
        return len(self.index)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.index.stored.dim

    @cached_property
    def columns(self) -> list[pa.Field]:
        """The corpus's own columns, such as url or date."""
        return [field for field in self.corpus.schema if field.name not in SCHEMA.names]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `batches`, one row per view (docs/export.md). Vectors are the stored float16, widened; a span is
        null for the title's view, for that of an empty snippet, and where views represent no part of the text."""
        fields = [
            pa.field("passage_id", pa.string(), nullable=False),
            pa.field("view", pa.int32(), nullable=False),
            pa.field("vector", vector_type(self.dim), nullable=False),
            pa.field("span_start", pa.int32()),
            pa.field("span_end", pa.int32()),
            pa.field("snippet", pa.string()),
            pa.field("query", pa.string()),
            pa.field("title", pa.string(), nullable=False),
            pa.field("content_hash", pa.string(), nullable=False),
        ]
        if self.columns:
            fields.append(pa.field(COLUMNS, pa.struct(self.columns), nullable=False))
        return pa.schema(fields)

    def batches(self, rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the views of all passages, or of the passages at `rows` (rising), in index order, one row per view.

        A batch holds whole passages, and at most `VIEWS_AT_ONCE` views unless one passage has more. Memory holds one batch and
        one row group of the corpus. Raises InputError where the corpus or the layout is not the index's.
        """
        rows = np.arange(self.passages) if rows is None else rows
        for group_rows, table in self.corpus.tables(rows):
            self._check_ids(group_rows, table)
            for first, stop in _bounds(self.index.view_counts[group_rows], VIEWS_AT_ONCE):
                if batch := self._batch(group_rows[first:stop], table.slice(first, stop - first)):
                    yield batch

    def _check_ids(self, rows: np.ndarray, table: pa.Table) -> None:
        if self.index.ids.take(pa.array(rows)).to_pylist() != table.column("id").to_pylist():
            raise InputError(
                f"{self.name.index}: its passages {rows[0]} to {rows[-1]} are not those of its corpus: build the index again"
            )

    def _batch(self, rows: np.ndarray, table: pa.Table) -> pa.RecordBatch | None:
        """The views of the passages at `rows`, which `table` holds; None where they have no views."""
        counts = self.index.view_counts[rows]
        if not counts.sum():
            return None
        queries = self.index.queries(rows.tolist())
        views: list[IndexedView] = []
        for row, count, passage in zip(rows.tolist(), counts.tolist(), passages_of(table), strict=True):
            views += IndexedPassage(row, passage, {}, queries[row], count, self.layout).views
        vectors = np.concatenate(
            [
                self.index.stored.read_range(int(self.index.offsets[row]), count)
                for row, count in zip(rows.tolist(), counts.tolist(), strict=True)
            ]
        )
        spans = [view.span or (None, None) for view in views]
        # Each passage's row, once per view.
        repeated = table.take(pa.array(np.repeat(np.arange(len(rows)), counts))).combine_chunks()
        columns: list[pa.Array] = [
            _one_chunk(repeated, "id"),
            pa.array([view.number + 1 for view in views], pa.int32()),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=vector_type(self.dim)),
            pa.array([start for start, _ in spans], pa.int32()),
            pa.array([stop for _, stop in spans], pa.int32()),
            pa.array([view.snippet for view in views], pa.string()),
            pa.array([view.query for view in views], pa.string()),
            _one_chunk(repeated, "title"),
            _one_chunk(repeated, "content_hash"),
        ]
        if self.columns:
            own = [_one_chunk(repeated, field.name) for field in self.columns]
            columns.append(pa.StructArray.from_arrays(own, fields=self.columns))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def vector_type(dim: int) -> pa.DataType:
    """The type of a view's vector: `dim` values of float32, none of them null."""
    return pa.list_(pa.field("element", pa.float32(), nullable=False), dim)


def _bounds(counts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Positions [first, stop) of consecutive passages with at most `most` views together, or of one passage with more."""
    first, held = 0, 0
    for position, count in enumerate(counts.tolist()):
        if held and held + count > most:
            yield first, position
            first, held = position, 0
        held += count
    if first < len(counts):
        yield first, len(counts)


def _one_chunk(table: pa.Table, name: str) -> pa.Array:
    """A column as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
