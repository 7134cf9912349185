"""The views of a refreshed corpus in its order: kept ones from an older index, new ones from embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from multiview.encoding.embeddings import ROWS_PER_BLOCK, VIEW_DTYPE, Embeddings
from multiview.index.stored_views import StoredViews


class CheckedViews:
    """The views of several shards, one after another, read for rising rows: each block is checked as it is come to."""

    def __init__(self, shards: Sequence[Embeddings]) -> None:
        self._blocks = [(shard, number) for shard in shards for number in range(shard.blocks)]
        sizes = [
            min(shard.rows_per_block, shard.rows - number * shard.rows_per_block)
            for shard, number in self._blocks
        ]
        self._firsts = np.cumsum([0, *sizes])
        self._read: tuple[int, np.ndarray] | None = None

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Views of rising `rows` [n, dim] float16. Raises InputError for a damaged block."""
        bounds = np.searchsorted(rows, self._firsts)
        return np.concatenate(
            [
                self._block(number)[rows[bounds[number] : bounds[number + 1]] - self._firsts[number]]
                for number in np.flatnonzero(np.diff(bounds)).tolist()
            ]
        )

    def _block(self, number: int) -> np.ndarray:
        if self._read is None or self._read[0] != number:
            shard, within = self._blocks[number]
            self._read = number, shard.read_block(within)
        return self._read[1]


class GatheredViews:
    """Views in the order of a corpus, gathered block by block from where they are stored (`ViewBlocks`)."""

    rows_per_block = ROWS_PER_BLOCK

    def __init__(
        self,
        dim: int,
        counts: np.ndarray,
        firsts: np.ndarray,
        new: np.ndarray,
        old_views: StoredViews | None,
        new_views: CheckedViews,
    ) -> None:
        """Of each passage: its views (`counts` [p]), the row of the first where they are stored (`firsts` [p]), and
        whether that is in `new_views` or in `old_views` (`new` [p])."""
        self.dim = dim
        self._offsets = np.cumsum(counts) - counts
        self.rows = int(counts.sum())
        self._firsts, self._new = firsts, new
        self._old_views, self._new_views = old_views, new_views

    @property
    def blocks(self) -> int:
        """Number of blocks; the last may be shorter."""
        return -(-self.rows // self.rows_per_block)

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16. Raises InputError for damaged embeddings."""
        return self.at(self.rows_of(number))

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order."""
        return map(self.read_block, range(self.blocks))

    def rows_of(self, number: int) -> np.ndarray:
        """The rows of a block."""
        first = number * self.rows_per_block
        return np.arange(first, min(first + self.rows_per_block, self.rows))

    def are_new(self, rows: np.ndarray) -> np.ndarray:
        """Whether the views of some rows come from the embeddings [n] bool."""
        return self._new[self._passages(rows)]

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Views of rising `rows` [n, dim] float16."""
        passages = self._passages(rows)
        stored, new = self._firsts[passages] + rows - self._offsets[passages], self._new[passages]
        views = np.empty((len(rows), self.dim), VIEW_DTYPE)
        if new.any():
            views[new] = self._new_views.at(stored[new])
        if not new.all():
            assert self._old_views is not None
            views[~new] = self._old_views.at(stored[~new], np.float16)
        return views

    def _passages(self, rows: np.ndarray) -> np.ndarray:
        # A passage without views shares its offset with the next one; "right" finds the one that has the row.
        return np.searchsorted(self._offsets, rows, side="right") - 1
