"""The views of an index and what they represent, as batches of Arrow: what every export of an index is made from."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from multiview.artifacts.staging import stage
from multiview.data.passages import ROW_GROUP, SCHEMA, PassageRows, content_hash, shard_files
from multiview.errors import naming
from multiview.index.indexed_passages import IndexedPassage, IndexedPassages
from multiview.index.view_index import ViewIndex, ranking
from multiview.model.layouts.base import Layout
from multiview.serving.retriever import load_artifacts

VIEWS_AT_ONCE = 4096
"""Most views per batch, unless one passage alone has more."""


@dataclass(frozen=True)
class IndexName:
    """What an export says about the index that it was made from."""

    index: str
    """The index's folder in its store, `index/KEY`; not its address, because a store may be moved."""
    digest: str
    model: str
    """The digest of the model that made the views."""
    passages: str
    """The digest of the passages, since that of the index does not depend on the corpus's own columns."""


class IndexViews:
    """The views of an index in index order, with their passages.

    >>> views = IndexViews.open(address)
    >>> first = next(views.batches())
    >>> first.column("passage_id")[0].as_py(), first.column("vector").type
    ('p0', FixedSizeListType(fixed_size_list<element: float not null>[64]))
    """

    def __init__(self, name: IndexName, index: ViewIndex, layout: Layout, corpus: PassageRows) -> None:
        """`corpus` has the passages of `index` in the same order; `layout` is that of the model that made the views."""
        self.name = name
        self.index = index
        self.layout = layout
        self.corpus = corpus
        self.dim: int = index.views.shape[1]
        """Length of a vector."""
        self.ranking = ranking(index.header)
        """How the index ranks passages, such as `hybrid`; empty where it does by its views alone, as an export does."""
        self.notice = f"the index ranks by {self.ranking}; its export by views alone" if self.ranking else ""
        """The warning that an export ranks otherwise than its index; empty if it does not."""

    @classmethod
    def open(cls, address: str) -> Self:
        """Opens the index at `address`, with the model and the passages that its record names. Every file is checked by
        sha256 unless it has not changed since it was last checked. Raises InputError where there is no index at
        `address`, or an artifact that its record names is missing or altered."""
        # Imported only now, because importing torch takes seconds.
        from multiview.model.encoder import load_layout

        artifacts = load_artifacts(address)
        index, model, passages = (stage(*each).path for each in artifacts)
        record, made_by, corpus = (each.record for each in artifacts)
        opened = ViewIndex.load(index)
        opened.check_model(made_by.digest)
        name = IndexName(record.folder, record.digest, made_by.digest, corpus.digest)
        return cls(name, opened, load_layout(model), PassageRows(shard_files(passages)))

    @cached_property
    def columns(self) -> list[pa.Field]:
        """The corpus's own columns, such as url or date."""
        return [field for field in self.corpus.schema if field.name not in SCHEMA.names]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `batches`, one row per view (docs/export.md). Vectors are the stored float16, widened."""
        element = pa.field("element", pa.float32(), nullable=False)
        fields = [
            pa.field("passage_id", pa.string(), nullable=False),
            pa.field("view", pa.int32(), nullable=False),
            pa.field("vector", pa.list_(element, self.dim), nullable=False),
            pa.field("span_start", pa.int32()),
            pa.field("span_end", pa.int32()),
            pa.field("snippet", pa.string()),
            pa.field("query", pa.string()),
            pa.field("title", pa.string(), nullable=False),
            pa.field("content_hash", pa.string(), nullable=False),
        ]
        if self.columns:
            fields.append(pa.field("columns", pa.struct(self.columns), nullable=False))
        return pa.schema(fields)

    def read(self) -> Iterator[IndexedPassage]:
        """Yields the passages that have views, with their columns and views; memory holds one row group of the corpus.
        Raises InputError if the corpus or the layout is not the index's."""
        rows = np.flatnonzero(self.index.view_counts)
        with naming(self.name.index):
            passages = IndexedPassages(self.index, self.layout, self.corpus)
            for start in range(0, len(rows), ROW_GROUP):
                yield from passages.read(rows[start : start + ROW_GROUP])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the views in index order, one row per view; a batch has whole passages (see `VIEWS_AT_ONCE`)."""
        held: list[IndexedPassage] = []
        views = 0
        for indexed in self.read():
            if held and views + indexed.view_count > VIEWS_AT_ONCE:
                yield self._batch(held)
                held, views = [], 0
            held.append(indexed)
            views += indexed.view_count
        if held:
            yield self._batch(held)

    def _batch(self, passages: list[IndexedPassage]) -> pa.RecordBatch:
        views = [(indexed, view) for indexed in passages for view in indexed.views]
        hashes = [content_hash(each.passage.title, each.passage.text) for each in passages]
        vectors = np.concatenate([self.index.views_of(each.row) for each in passages])
        spans = [view.span or (None, None) for _, view in views]
        columns: list[Any] = [
            [indexed.passage.id for indexed, _ in views],
            [view.number + 1 for _, view in views],
            pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.ravel()), type=self.schema.field("vector").type
            ),
            [start for start, _ in spans],
            [stop for _, stop in spans],
            [view.snippet for _, view in views],
            [view.query for _, view in views],
            [indexed.passage.title for indexed, _ in views],
            np.repeat(hashes, [each.view_count for each in passages]),
        ]
        if self.columns:
            columns.append([indexed.columns for indexed, _ in views])
        by_name = dict(zip(self.schema.names, columns, strict=True))
        return pa.RecordBatch.from_pydict(by_name, schema=self.schema)
