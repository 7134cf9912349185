"""A refreshed corpus: passages that an older index holds already, and passages that were encoded anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
from multiview.index.build import query_tables, with_offsets
from multiview.index.stored_views import StoredViews, passages_of_views
from multiview.index.view_index import HEADER_FILE, PASSAGES_FILE, QUERIES_FILE

ADDED_FILE = "added.parquet"
"""File beside a refreshed index, with one row per passage: `added` is true if the passage came after the training."""


class OldIndex:
    """An index as a step wrote it, whose vectors stay on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = json.loads((folder / HEADER_FILE).read_text())
        self.passages = pq.read_table(folder / PASSAGES_FILE)
        self.offsets: np.ndarray = self.passages["offset"].to_numpy()
        """Row of the first view of each passage [p] int64."""
        self.views = StoredViews.open(folder / VIEWS_FILE, self.header)
        self.has_queries = (folder / QUERIES_FILE).is_file()

    @cached_property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the index was trained [p] bool."""
        file = self.folder / ADDED_FILE
        if not file.is_file():
            return np.zeros(len(self.offsets), bool)
        return pq.read_table(file)["added"].to_numpy()


class MergedCorpus:
    """A new corpus, whose passages are kept from an old index or come from embeddings.

    Its views are read block by block, in the order of the corpus, from where they are stored (`ViewBlocks`). One block
    of the embeddings is held, so that rows should be read in rising order.
    """

    rows_per_block = ROWS_PER_BLOCK

    def __init__(self, old_rows: np.ndarray, old: OldIndex | None, shards: Sequence[Embeddings]) -> None:
        """`old_rows` [p] is the row of each passage in the index `old`, or -1 for the passages of `shards`, in order.

        `old` is None where no passage is kept. Raises InputError where old and new views differ in width.
        """
        self.old, self.shards, self._old_rows, self._new = old, shards, old_rows, old_rows < 0
        self.dim = shards[0].dim
        if old and old.header["dim"] != self.dim:
            raise InputError(
                f"{shards[0].folder}: {self.dim} wide, but the old index is {old.header['dim']} wide; encode with its model"
            )
        tables, sizes = [shard.table for shard in shards], [shard.rows for shard in shards]
        if old:
            tables, sizes = [old.passages, *tables], [len(old.views), *sizes]
        kept = old.passages.num_rows if old else 0
        sources = np.where(self._new, kept + np.cumsum(self._new) - 1, old_rows)
        columns = [name for name in ROWS_SCHEMA.names if name != "offset"]
        self.passages = with_offsets(
            pa.concat_tables([table.select(columns) for table in tables]).take(pa.array(sources))
        )
        """Rows of an index's `passages.parquet`."""
        self.view_counts = self.passages["views"].to_numpy().astype(np.int64)
        """Number of views of each passage [p] int64."""
        self.rows = int(self.view_counts.sum())
        self._offsets = self.passages["offset"].to_numpy()
        # Stored rows count the old index's views, then those of the shards.
        befores = np.cumsum(sizes) - sizes
        firsts = [table["offset"].to_numpy() + before for table, before in zip(tables, befores, strict=True)]
        self._stored_firsts = np.concatenate(firsts)[sources]
        self._old_views = len(old.views) if old else 0
        self._blocks = [(shard, number) for shard in shards for number in range(shard.blocks)]
        block_sizes = [
            min(shard.rows_per_block, shard.rows - number * shard.rows_per_block)
            for shard, number in self._blocks
        ]
        self._block_firsts = self._old_views + np.cumsum([0, *block_sizes])
        self._held: tuple[int, np.ndarray] | None = None

    @property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the old index was trained [p] bool."""
        assert self.old is not None
        return np.where(self._new, True, self.old.added[self._old_rows])

    def moved_view_rows(self) -> np.ndarray:
        """New row of each view of the old index, or -1 where its passage is not kept [old views] int64."""
        assert self.old is not None
        kept = np.flatnonzero(~self._new)
        counts, moved = self.view_counts[kept], np.full(self._old_views, -1)
        moved[rows_in(self.old.offsets[self._old_rows[kept]], counts)] = rows_in(self._offsets[kept], counts)
        return moved

    @property
    def blocks(self) -> int:
        """Number of blocks; the last block may be shorter."""
        return -(-self.rows // self.rows_per_block)

    def block_rows(self, number: int) -> np.ndarray:
        """Returns the rows of block `number`."""
        first = number * self.rows_per_block
        return np.arange(first, min(first + self.rows_per_block, self.rows))

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16. Raises InputError where embeddings are damaged."""
        return self.read_rows(self.block_rows(number))

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order."""
        return map(self.read_block, range(self.blocks))

    def are_new(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether the view at each of `rows` [n] comes from the embeddings [n] bool."""
        return self._stored_rows(rows) >= self._old_views

    def read_rows(self, rows: np.ndarray) -> np.ndarray:
        """Views of `rows` [n, dim] float16. Raises InputError where a block of the embeddings is damaged."""
        stored = self._stored_rows(rows)
        blocks = np.searchsorted(self._block_firsts, stored, side="right") - 1
        views = np.empty((len(rows), self.dim), VIEW_DTYPE)
        for number in np.unique(blocks).tolist():
            here = blocks == number
            views[here] = self._read(number, stored[here])
        return views

    def _stored_rows(self, rows: np.ndarray) -> np.ndarray:
        passages = passages_of_views(rows, self._offsets)
        return self._stored_firsts[passages] + rows - self._offsets[passages]

    def _read(self, number: int, stored: np.ndarray) -> np.ndarray:
        """Views at `stored` rows of a block of the embeddings, or of the old index, which is number -1."""
        if number < 0:
            assert self.old is not None
            return self.old.views.read_rows(stored)
        if self._held is None or self._held[0] != number:
            shard, number_in_shard = self._blocks[number]
            self._held = number, shard.read_block(number_in_shard)
        return self._held[1][stored - self._block_firsts[number]]

    def queries(self) -> Iterator[pa.Table] | None:
        """The queries that the passages were read with; None where they were read without.

        Raises InputError where some passages were read with queries and others not.
        """
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
        for first in range(0, len(self._old_rows), ROW_GROUP):
            old_rows = self._old_rows[first : first + ROW_GROUP]
            is_new = old_rows < 0
            kept_rows = np.unique(old_rows[~is_new])
            tables = [table.cast(schema) for _, table in kept.tables(kept_rows)]
            if is_new.any():
                tables.append(new.take(int(is_new.sum())))
            new_rows = len(kept_rows) + np.cumsum(is_new) - 1
            rows = np.where(is_new, new_rows, np.searchsorted(kept_rows, old_rows))
            yield pa.concat_tables(tables).take(pa.array(rows))
