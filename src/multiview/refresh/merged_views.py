"""The views of a refreshed corpus in its order: kept views from an older index, new ones from embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from multiview.encoding.embeddings import ROWS_PER_BLOCK, VIEW_DTYPE, Embeddings
from multiview.index.stored_views import StoredViews, passages_of_views


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
