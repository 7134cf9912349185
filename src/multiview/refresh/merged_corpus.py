"""The index that is refreshed, and where its passages stand in the new corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, PassageRows
from multiview.data.shards import Rows
from multiview.encoding.embeddings import QUERIES_FIELD, Embeddings
from multiview.errors import InputError
from multiview.index.approximate.kinds import EXACT, read
from multiview.index.build import SCHEMA, Content, placed, queries_of, with_queries
from multiview.index.faiss_library import faiss
from multiview.index.stored_views import StoredViews
from multiview.index.view_index import HEADER_FILE, INDEX_FILE, PASSAGES_FILE, QUERIES_FILE, stored_views
from multiview.refresh.merged_views import CheckedViews, GatheredViews

ADDED_FILE = "added.parquet"
"""Beside an index that was refreshed since it was trained: a row a passage, whether it was `added` since."""


@dataclass(frozen=True)
class OldIndex:
    """An index as a step wrote it; its vectors are read when they are asked for."""

    folder: Path
    header: dict[str, Any]
    passages: pa.Table
    """Its `passages.parquet`."""

    @classmethod
    def open(cls, folder: Path) -> OldIndex:
        header = json.loads((folder / HEADER_FILE).read_text())
        return cls(folder, header, pq.read_table(folder / PASSAGES_FILE))

    @property
    def kind(self) -> str:
        return self.header["kind"]

    @property
    def with_queries(self) -> bool:
        return (self.folder / QUERIES_FILE).is_file()

    @cached_property
    def counts(self) -> np.ndarray:
        """Views of each passage [p] int64."""
        return self.passages["views"].to_numpy().astype(np.int64)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Row of the first view of each passage [p] int64."""
        return self.passages["offset"].to_numpy()

    @cached_property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the index was trained [p] bool."""
        file = self.folder / ADDED_FILE
        if not file.is_file():
            return np.zeros(len(self.counts), bool)
        return pq.read_table(file)["added"].to_numpy()

    def views(self) -> StoredViews:
        """Its views as `encode` stored them, left on disk."""
        exact = self.kind == EXACT
        mapped = read(self.folder / INDEX_FILE, {"on_disk": True, "lists": None}) if exact else None
        return stored_views(self.folder, mapped, self.header)

    def read(self) -> Any:
        """The faiss index, in memory."""
        return faiss.read_index(str(self.folder / INDEX_FILE))


@dataclass(frozen=True)
class Refreshed:
    """The new corpus, of which some passages are kept from an old index, and the others are in embeddings."""

    numbers: np.ndarray
    """Of each passage its number in the old index, or -1 [p] int64."""
    old: OldIndex | None
    """None where nothing is kept."""
    shards: Sequence[Embeddings]
    """The passages that are not kept, in order."""

    @cached_property
    def new(self) -> np.ndarray:
        """Which passages are not kept [p] bool."""
        return self.numbers < 0

    @cached_property
    def passages(self) -> pa.Table:
        """Rows of an index's `passages.parquet`."""
        columns = [name for name in SCHEMA.names if name != "offset"]
        tables = [table.select(columns) for table in self._sources]
        return placed(pa.concat_tables(tables).take(pa.array(self._places)))

    @cached_property
    def counts(self) -> np.ndarray:
        """Views of each passage [p] int64."""
        return self.passages["views"].to_numpy().astype(np.int64)

    @cached_property
    def views(self) -> GatheredViews:
        """All views, in order."""
        dims = [self.old.header["dim"]] if self.old else []
        for shard in self.shards:
            if dims and shard.dim != dims[0]:
                raise InputError(
                    f"{shard.folder}: {shard.dim} wide, but the old index is {dims[0]} wide; encode with its model"
                )
        sizes = [shard.rows for shard in self.shards]
        firsts = [self.old.offsets] if self.old else []
        for shard, before in zip(self.shards, np.cumsum(sizes) - sizes, strict=True):
            firsts.append(shard.table["offset"].to_numpy() + before)
        return GatheredViews(
            self.shards[0].dim,
            self.counts,
            np.concatenate(firsts)[self._places],
            self.new,
            self.old.views() if self.old else None,
            CheckedViews(self.shards),
        )

    @cached_property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the old index was trained [p] bool."""
        assert self.old is not None
        return np.where(self.new, True, self.old.added[self.numbers])

    def old_rows(self) -> np.ndarray:
        """Of each view of the old index its row in the new one, or -1 [old views] int64."""
        assert self.old is not None
        kept = np.flatnonzero(~self.new)
        counts = self.counts[kept]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.full(self.old.counts.sum(), -1)
        offsets = self.passages["offset"].to_numpy()
        rows[np.repeat(self.old.offsets[self.numbers[kept]], counts) + within] = (
            np.repeat(offsets[kept], counts) + within
        )
        return rows

    def content(self, model: str) -> Content:
        """What the new index is made of. Raises InputError where some passages were read with queries and others not."""
        return Content(model, self.passages, [self.views], self._queries())

    @property
    def _sources(self) -> list[pa.Table]:
        return [*([self.old.passages] if self.old else []), *(shard.table for shard in self.shards)]

    @cached_property
    def _places(self) -> np.ndarray:
        """Of each passage its row among those of the old index and then those of the shards."""
        before = self.old.passages.num_rows if self.old else 0
        return np.where(self.new, before + np.cumsum(self.new) - 1, self.numbers)

    def _queries(self) -> Iterator[pa.Table] | None:
        asked = with_queries(self.shards)
        if self.old and self.old.with_queries != asked:
            one, other = ("with", "without") if asked else ("without", "with")
            raise InputError(
                f"{self.shards[0].folder}: these passages were read {one} queries, and those of the old index {other}: "
                "encode them alike, or all of them with refresh.full=true"
            )
        if not asked:
            return None
        return self._gathered_queries(self.old) if self.old else queries_of(self.shards)

    def _gathered_queries(self, old: OldIndex) -> Iterator[pa.Table]:
        """Some passages at a time."""
        kept, new = PassageRows([old.folder / QUERIES_FILE]), Rows(queries_of(self.shards))
        schema = pa.schema([QUERIES_FIELD])
        for first in range(0, len(self.numbers), ROW_GROUP):
            numbers = self.numbers[first : first + ROW_GROUP]
            wanted = np.unique(numbers[numbers >= 0])
            tables = [table.cast(schema) for _, table in kept.tables(wanted)]
            if fresh := int((numbers < 0).sum()):
                tables.append(new.take(fresh))
            at = len(wanted) + np.cumsum(numbers < 0) - 1
            yield pa.concat_tables(tables).take(
                pa.array(np.where(numbers < 0, at, np.searchsorted(wanted, numbers)))
            )
