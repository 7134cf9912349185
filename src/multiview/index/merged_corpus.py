"""The corpus of an index: passages from embeddings and, where an index is refreshed, from the old index too."""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import DTypeLike

from multiview.data.arrays import numbers, rows_in
from multiview.data.passages import ROW_GROUP, PassageRows
from multiview.data.shards import Rows
from multiview.encoding.embeddings import (
    KEPT_FIELD,
    QUERIES_FIELD,
    ROWS_PER_BLOCK,
    ROWS_SCHEMA,
    VIEW_DTYPE,
    VIEWS_FILE,
    Embeddings,
    map_views,
)
from multiview.errors import InputError
from multiview.index.stored_views import passages_of_views
from multiview.index.view_index import HEADER_FILE, PASSAGES_FILE, QUERIES_FILE

ADDED_FILE = "added.parquet"
"""File beside a refreshed index, with one row per passage: `added` is true if the passage came after the training."""

COMPARED_AT_ONCE = 4096
"""About how many views are compared at once where views are merged. Memory depends on it; results do not."""


class OldIndex:
    """Index before a refresh. Its vectors are mapped from the disk, as they are only copied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = json.loads((folder / HEADER_FILE).read_text())
        self.passages = pq.read_table(folder / PASSAGES_FILE)
        self.offsets: np.ndarray = self.passages["offset"].to_numpy()
        """Row of the first view of each passage [p] int64."""
        self.views = map_views(folder / VIEWS_FILE, self.header["views"], self.header["dim"])
        self.has_queries = (folder / QUERIES_FILE).is_file()

    @cached_property
    def added(self) -> np.ndarray:
        """Whether each passage was added since the index was trained [p] bool."""
        file = self.folder / ADDED_FILE
        if not file.is_file():
            return np.zeros(len(self.offsets), bool)
        return pq.read_table(file)["added"].to_numpy()


class MergedCorpus:
    """The passages of an index that is being built, from embeddings or kept from an old index.

    Their views are read from where they are stored.
    """

    def __init__(
        self,
        shards: Sequence[Embeddings],
        old: OldIndex | None = None,
        old_rows: np.ndarray | None = None,
        merge_views: float | None = None,
    ) -> None:
        """`old_rows` [p] is the row of each passage in the index `old`, or -1 for the passages of `shards`, in order.
        Without it, all passages are those of `shards`. With `merge_views`, the views of `shards` are those that
        `distinct_views` keeps; `old` must have been built with the same.

        Raises InputError where old and new views differ in width.
        """
        if old is None or old_rows is None:
            old, old_rows = None, np.full(sum(shard.passages for shard in shards), -1)
        self.old, self.shards, self._old_rows, self._new = old, shards, old_rows, old_rows < 0
        self.dim = shards[0].dim
        if old and old.header["dim"] != self.dim:
            raise InputError(
                f"{shards[0].folder}: {self.dim} wide, but the old index is {old.header['dim']} wide; encode with its model"
            )
        schema, tables = ROWS_SCHEMA, [shard.table for shard in shards]
        self._kept_rows: np.ndarray | None = None
        """Row, among all views of the shards, of each view that is kept; None where all are."""
        if merge_views is not None:
            kept = [distinct_views(shard, merge_views) for shard in shards]
            schema, tables = schema.append(KEPT_FIELD), list(map(_kept_views, tables, kept))
            self._kept_rows = np.flatnonzero(np.concatenate(kept))
        sizes = [int(numbers(table["views"]).sum()) for table in tables]
        if old:
            tables, sizes = [old.passages, *tables], [len(old.views), *sizes]
        before = old.passages.num_rows if old else 0
        sources = np.where(self._new, before + np.cumsum(self._new) - 1, old_rows)
        passages = pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])
        self.passages = with_offsets(passages.take(pa.array(sources)) if old else passages, schema)
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
        self._sources = [*([old.views] if old else []), *(shard.views for shard in shards)]
        self._source_firsts = np.cumsum([0, *map(len, self._sources)])

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

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the rows of each block and its views [rows, dim] float16: the same blocks however the views are stored."""
        for first in range(0, self.rows, ROWS_PER_BLOCK):
            rows = np.arange(first, min(first + ROWS_PER_BLOCK, self.rows))
            yield rows, self.read_rows(rows)

    def are_new(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether the view at each of `rows` [n] comes from the embeddings [n] bool."""
        return self._stored_rows(rows) >= self._old_views

    def read_rows(self, rows: np.ndarray, dtype: DTypeLike = VIEW_DTYPE) -> np.ndarray:
        """Views of `rows` [n, dim]."""
        stored, views = self._stored_rows(rows), np.empty((len(rows), self.dim), dtype)
        sources = np.searchsorted(self._source_firsts, stored, side="right") - 1
        for number in np.unique(sources):
            here = sources == number
            views[here] = self._sources[number][stored[here] - self._source_firsts[number]]
        return views

    def _stored_rows(self, rows: np.ndarray) -> np.ndarray:
        passages = passages_of_views(rows, self._offsets)
        stored = self._stored_firsts[passages] + rows - self._offsets[passages]
        if self._kept_rows is not None:
            new = stored >= self._old_views
            stored[new] = self._kept_rows[stored[new] - self._old_views] + self._old_views
        return stored

    def queries(self) -> Iterator[pa.Table] | None:
        """The queries that the passages were read with, in small tables; None where they were read without.

        Raises InputError where some passages were read with queries and others not.
        """
        folders = {each.has_queries: each.folder for each in (*self.shards, self.old) if each}
        if len(folders) > 1:
            raise InputError(
                f"{folders[True]}: these passages were read with queries, and those of {folders[False]} without: "
                "encode them alike, or all of them with refresh.full=true"
            )
        return self._merged_queries() if True in folders else None

    def _merged_queries(self) -> Iterator[pa.Table]:
        """The queries of all passages in order, `ROW_GROUP` passages per table."""
        schema = pa.schema([QUERIES_FIELD])
        new = Rows(shard.table.select(schema.names).cast(schema) for shard in self.shards)
        kept = PassageRows([self.old.folder / QUERIES_FILE]) if self.old else None
        for first in range(0, len(self._old_rows), ROW_GROUP):
            old_rows = self._old_rows[first : first + ROW_GROUP]
            is_new = old_rows < 0
            kept_rows = np.unique(old_rows[~is_new])
            tables = [table.cast(schema) for _, table in kept.tables(kept_rows)] if kept else []
            if is_new.any():
                tables.append(new.take(int(is_new.sum())))
            new_rows = len(kept_rows) + np.cumsum(is_new) - 1
            rows = np.where(is_new, new_rows, np.searchsorted(kept_rows, old_rows))
            yield pa.concat_tables(tables).take(pa.array(rows))


def distinct_views(shard: Embeddings, cosine: float) -> np.ndarray:
    """Returns which views of a shard to keep [rows] bool: the first of each passage, and each whose cosine with every
    earlier kept view of its passage is at most `cosine`.

    The result depends on the passage's views alone, whatever the shard: each product is summed by itself, in float64.
    """
    counts, firsts = numbers(shard.table["views"]).astype(np.int64), numbers(shard.table["offset"])
    position = np.arange(shard.rows) - np.repeat(firsts, counts)
    keep = np.ones(shard.rows, bool)
    _, at_once = np.unique(firsts // COMPARED_AT_ONCE, return_index=True)
    for start, stop in pairwise(np.unique([*firsts[at_once], shard.rows]).tolist()):
        views, rank, kept = shard.views[start:stop].astype(np.float64), position[start:stop], keep[start:stop]
        lengths, found = np.sqrt((views * views).sum(axis=1)), [np.empty((2, 0), np.int64)]
        for distance in range(1, rank.max(initial=0) + 1):
            later = np.flatnonzero(rank >= distance)
            earlier = later - distance
            same = (views[earlier] * views[later]).sum(axis=1) > cosine * lengths[earlier] * lengths[later]
            found.append(np.stack([earlier[same], later[same]]))
        earlier, later = np.concatenate(found, axis=1)
        for number in np.unique(rank[later]):
            here = rank[later] == number
            kept[later[here][kept[earlier[here]]]] = False
    return keep


def _kept_views(table: pa.Table, keep: np.ndarray) -> pa.Table:
    """The table of embeddings as if they held only the views in `keep` [rows] bool, with `KEPT_FIELD`."""
    bounds = np.append(numbers(table["offset"]), len(keep))
    kept = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(keep))
    views = pa.array(np.diff(np.append(0, np.cumsum(keep))[bounds]))
    counted = table.drop_columns("views").append_column("views", views)
    return with_offsets(counted.append_column(KEPT_FIELD, kept), ROWS_SCHEMA.append(KEPT_FIELD))


def with_offsets(table: pa.Table, schema: pa.Schema = ROWS_SCHEMA) -> pa.Table:
    """Returns a table in the columns of `schema`, with the row of each passage's first view as `offset`."""
    views = table["views"].to_numpy().astype(np.int64)
    offset = pa.array(np.cumsum(views) - views)
    columns = {name: offset if name == "offset" else table[name] for name in schema.names}
    return pa.table(columns).cast(schema).combine_chunks()
