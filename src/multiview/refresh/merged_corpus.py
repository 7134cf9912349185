"""A refreshed corpus: passages that an older index holds already, and passages that were encoded anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import JsonObject
from multiview.data.arrays import rows_in
from multiview.data.passages import ROW_GROUP, PassageRows
from multiview.data.shards import Rows
from multiview.encoding.embeddings import (
    QUERIES_FIELD,
    ROWS_PER_BLOCK,
    ROWS_SCHEMA,
    VIEW_DTYPE,
    VIEWS_FILE,
    Embeddings,
)
from multiview.errors import InputError
from multiview.index.approximate.kinds import read_index
from multiview.index.build import IndexContent, query_tables, with_offsets
from multiview.index.faiss_index import FaissObject
from multiview.index.stored_views import StoredViews, passages_of_views
from multiview.index.view_index import (
    HEADER_FILE,
    INDEX_FILE,
    PASSAGES_FILE,
    QUERIES_FILE,
)

ADDED_FILE = "added.parquet"
"""File beside a refreshed index, with one row per passage: `added` is true if the passage came after the training."""


@dataclass(frozen=True)
class OldIndex:
    """An index as a step wrote it, whose vectors are read where they are needed."""

    folder: Path
    header: JsonObject
    passages: pa.Table
    """The index's `passages.parquet`."""

    @classmethod
    def open(cls, folder: Path) -> OldIndex:
        header = json.loads((folder / HEADER_FILE).read_text())
        return cls(folder, header, pq.read_table(folder / PASSAGES_FILE))

    @property
    def kind(self) -> str:
        return self.header["kind"]

    @property
    def has_queries(self) -> bool:
        """Whether its passages were read with queries."""
        return (self.folder / QUERIES_FILE).is_file()

    @cached_property
    def view_counts(self) -> np.ndarray:
        """Number of views of each passage [p] int64."""
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
            return np.zeros(len(self.view_counts), bool)
        return pq.read_table(file)["added"].to_numpy()

    def stored_views(self) -> StoredViews:
        """Returns the index's views as `encode` stored them, left on disk."""
        return StoredViews.open(self.folder / VIEWS_FILE, self.header)

    def read(self) -> FaissObject:
        """Returns the faiss index, in memory."""
        return read_index(self.folder / INDEX_FILE)


@dataclass(frozen=True)
class MergedCorpus:
    """A new corpus: some passages are kept from an old index, the others are in embeddings."""

    old_rows: np.ndarray
    """Row of each passage in the old index, or -1 where the passage is not kept [p] int64."""
    old: OldIndex | None
    """None where no passage is kept."""
    shards: Sequence[Embeddings]
    """The passages that are not kept, in order."""

    @cached_property
    def new(self) -> np.ndarray:
        """Which passages are not kept [p] bool."""
        return self.old_rows < 0

    @cached_property
    def passages(self) -> pa.Table:
        """Rows of an index's `passages.parquet`."""
        columns = [name for name in ROWS_SCHEMA.names if name != "offset"]
        tables = [table.select(columns) for table in self._sources]
        return with_offsets(pa.concat_tables(tables).take(pa.array(self._source_rows)))

    @cached_property
    def view_counts(self) -> np.ndarray:
        """Number of views of each passage [p] int64."""
        return self.passages["views"].to_numpy().astype(np.int64)

    @cached_property
    def views(self) -> MergedViews:
        """All views, in order. Raises InputError where old and new views differ in width."""
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
        return MergedViews(
            self.shards[0].dim,
            self.view_counts,
            np.concatenate(firsts)[self._source_rows],
            self.new,
            self.old.stored_views() if self.old else None,
            CheckedViews(self.shards),
        )

    @cached_property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the old index was trained [p] bool."""
        assert self.old is not None
        return np.where(self.new, True, self.old.added[self.old_rows])

    def moved_view_rows(self) -> np.ndarray:
        """New row of each view of the old index, or -1 where its passage is not kept [old views] int64."""
        assert self.old is not None
        kept = np.flatnonzero(~self.new)
        counts = self.view_counts[kept]
        offsets = self.passages["offset"].to_numpy()
        moved = np.full(self.old.view_counts.sum(), -1)
        moved[rows_in(self.old.offsets[self.old_rows[kept]], counts)] = rows_in(offsets[kept], counts)
        return moved

    def content(self, model: str) -> IndexContent:
        """The content of the new index. Raises InputError where some passages were read with queries and others not."""
        return IndexContent(model, self.passages, [self.views], self._queries())

    @property
    def _sources(self) -> list[pa.Table]:
        return [*([self.old.passages] if self.old else []), *(shard.table for shard in self.shards)]

    @cached_property
    def _source_rows(self) -> np.ndarray:
        """Row of each passage in the tables of `_sources`: the old index's passages, then the shards' [p] int64."""
        old = self.old.passages.num_rows if self.old else 0
        return np.where(self.new, old + np.cumsum(self.new) - 1, self.old_rows)

    def _queries(self) -> Iterator[pa.Table] | None:
        with_queries = all(shard.has_queries for shard in self.shards)
        if self.old and self.old.has_queries != with_queries:
            new, old = ("with", "without") if with_queries else ("without", "with")
            raise InputError(
                f"{self.shards[0].folder}: these passages were read {new} queries, and those of the old index {old}: "
                "encode them alike, or all of them with refresh.full=true"
            )
        if not with_queries:
            return None
        return self._merged_queries(self.old) if self.old else query_tables(self.shards)

    def _merged_queries(self, old: OldIndex) -> Iterator[pa.Table]:
        """The queries of all passages in order, at most `ROW_GROUP` passages per table."""
        kept, new = PassageRows([old.folder / QUERIES_FILE]), Rows(query_tables(self.shards))
        schema = pa.schema([QUERIES_FIELD])
        for first in range(0, len(self.old_rows), ROW_GROUP):
            old_rows = self.old_rows[first : first + ROW_GROUP]
            is_new = old_rows < 0
            kept_rows = np.unique(old_rows[~is_new])
            tables = [table.cast(schema) for _, table in kept.tables(kept_rows)]
            if is_new.any():
                tables.append(new.take(int(is_new.sum())))
            new_rows = len(kept_rows) + np.cumsum(is_new) - 1
            rows = np.where(is_new, new_rows, np.searchsorted(kept_rows, old_rows))
            yield pa.concat_tables(tables).take(pa.array(rows))


class CheckedViews:
    """The views of several shards, one shard after another, each block checked when it is first read.

    One block is held at a time, so that rows should be read in rising order.
    """

    def __init__(self, shards: Sequence[Embeddings]) -> None:
        self._blocks = [(shard, number) for shard in shards for number in range(shard.blocks)]
        sizes = [
            min(shard.rows_per_block, shard.rows - number * shard.rows_per_block)
            for shard, number in self._blocks
        ]
        self._firsts = np.cumsum([0, *sizes])
        self._held: tuple[int, np.ndarray] | None = None

    def read_rows(self, rows: np.ndarray) -> np.ndarray:
        """Views of rising `rows` [n, dim] float16. Raises InputError where a block is damaged."""
        bounds = np.searchsorted(rows, self._firsts)
        return np.concatenate(
            [
                self._block(number)[rows[bounds[number] : bounds[number + 1]] - self._firsts[number]]
                for number in np.flatnonzero(np.diff(bounds)).tolist()
            ]
        )

    def _block(self, number: int) -> np.ndarray:
        if self._held is None or self._held[0] != number:
            shard, number_in_shard = self._blocks[number]
            self._held = number, shard.read_block(number_in_shard)
        return self._held[1]


class MergedViews:
    """Views in the order of a corpus, read block by block from where they are stored (`ViewBlocks`)."""

    rows_per_block = ROWS_PER_BLOCK

    def __init__(
        self,
        dim: int,
        view_counts: np.ndarray,
        stored_firsts: np.ndarray,
        new: np.ndarray,
        old_views: StoredViews | None,
        new_views: CheckedViews,
    ) -> None:
        """`view_counts` [p] is the number of views per passage. A passage's views are stored one after another from row
        `stored_firsts` [p], in `new_views` where `new` [p] is true, else in `old_views`."""
        self.dim = dim
        self._offsets = np.cumsum(view_counts) - view_counts
        self.rows = int(view_counts.sum())
        self._stored_firsts, self._new = stored_firsts, new
        self._old_views, self._new_views = old_views, new_views

    @property
    def blocks(self) -> int:
        """Number of blocks; the last block may be shorter."""
        return -(-self.rows // self.rows_per_block)

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16. Raises InputError where embeddings are damaged."""
        return self.read_rows(self.block_rows(number))

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order."""
        return map(self.read_block, range(self.blocks))

    def block_rows(self, number: int) -> np.ndarray:
        """Returns the rows of block `number`."""
        first = number * self.rows_per_block
        return np.arange(first, min(first + self.rows_per_block, self.rows))

    def are_new(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether the view at each of `rows` [n] comes from the embeddings [n] bool."""
        return self._new[passages_of_views(rows, self._offsets)]

    def read_rows(self, rows: np.ndarray) -> np.ndarray:
        """Views of rising `rows` [n, dim] float16."""
        passages = passages_of_views(rows, self._offsets)
        stored_rows = self._stored_firsts[passages] + rows - self._offsets[passages]
        new = self._new[passages]
        views = np.empty((len(rows), self.dim), VIEW_DTYPE)
        if new.any():
            views[new] = self._new_views.read_rows(stored_rows[new])
        if not new.all():
            assert self._old_views is not None
            views[~new] = self._old_views.read_rows(stored_rows[~new])
        return views
