"""Views as `encode` stored them, read by their rows or block by block, and the scores of passages by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from multiview import environment
from multiview.artifacts.staged import StoredFile
from multiview.config import JsonObject
from multiview.data.ranges import stable_order
from multiview.encoding.embeddings import VIEW_DTYPE, map_views
from multiview.errors import InputError
from multiview.index.products import tensor
from multiview.index.streamed_views import Matrix, StreamedViews

SCORED_AT_ONCE = 1024
"""Number of views that are scored in float64 at once. Only speed depends on it."""

REBUILD = "delete this artifact's folder and run `index` again"


class StoredViews:
    """Views as `encode` stored them, in float16, which may be memory-mapped or in a bucket; read by their rows."""

    def __init__(self, matrix: Matrix) -> None:
        """`matrix` [rows, dim] float16."""
        self.matrix = matrix
        self.dim: int = matrix.shape[1]

    @classmethod
    def open(cls, file: Path, header: JsonObject, streamed: StoredFile | None = None) -> StoredViews:
        """Maps the views of an index with this header from a file, or reads them from a bucket where they are `streamed`.

        Raises InputError where the file is missing or has another size, and for views in a bucket without digests.
        """
        rows, dim = header["views"], header["dim"]
        if streamed is None:
            # The memory of the mapped file, without the cost of `np.memmap` per access.
            return cls(np.asarray(map_views(file, rows, dim, REBUILD)))
        if "block_sha256" not in header:
            raise InputError(
                f"{streamed}: is of a version without digests of its blocks, so it cannot be read in parts: {REBUILD}, "
                f"or give {environment.SCRATCH} room for a copy, without {environment.STREAMED}"
            )
        return cls(
            StreamedViews(streamed, (rows, dim), header["rows_per_block"], header["block_sha256"], REBUILD)
        )

    @property
    def streamed(self) -> bool:
        """Whether the views are in a bucket."""
        return isinstance(self.matrix, StreamedViews)

    def __len__(self) -> int:
        """Number of views."""
        return len(self.matrix)

    def read_rows(self, rows: np.ndarray) -> np.ndarray:
        """The views of `rows` [n, dim] float16."""
        return self.matrix.take(rows, axis=0)

    def read_range(self, start: int, count: int) -> np.ndarray:
        """`count` views from row `start` on [count, dim] float32."""
        return self.matrix[start : start + count].astype(np.float32)


class ViewBlocks(Protocol):
    """Views in order, read block by block, from which an index is built, such as the `Embeddings` of a shard."""

    dim: int
    rows: int
    rows_per_block: int

    @property
    def blocks(self) -> int:
        """Number of blocks; the last block may be shorter."""
        ...

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16. Raises InputError where the block is damaged."""
        ...

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order."""
        ...


def passages_of_views(view_rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Row of the passage that each view belongs to [n] int64.

    `offsets` [p] is the row of each passage's first view, rising.
    """
    # A passage without views shares its offset with the next one; "right" finds the one that has the view.
    return np.searchsorted(offsets, view_rows, side="right") - 1


def score_rows(views: Matrix, rows: np.ndarray, queries: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Returns the scores [m] float64 of the views of `rows` [m], which rise, with the queries of `questions` [m].

    `views` [v, dim] float16; `queries` [q, dim] float64. See `score_views`.
    """
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    return _inner_products(views, rows.take(firsts), queries, np.append(firsts, len(rows)), questions)


def score_views(views: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Returns the inner products [n] float64 of `views` [n, dim] float16 with `query` [dim] float64.

    The order of each sum is the same whatever the other views and queries, so that equal views score equally, to the bit.
    """
    rows = np.arange(len(views))
    return _inner_products(
        views, rows, query[None], np.arange(len(views) + 1), np.zeros(len(views), np.int64)
    )


def _inner_products(
    views: Matrix, rows: np.ndarray, queries: np.ndarray, starts: np.ndarray, questions: np.ndarray
) -> np.ndarray:
    """Returns the inner products [m] of pairs: those of the i-th view of `rows` with the queries questions[starts[i]:starts[i + 1]]."""
    import torch

    _have_torch_warn_of_sparse_tensors()
    size = min(len(rows), SCORED_AT_ONCE), views.shape[1]
    single, double = torch.empty(size), torch.empty(size, dtype=torch.float64)
    products, asked = np.empty(len(questions)), torch.from_numpy(queries).T
    zeros = torch.zeros(len(questions), dtype=torch.float64)
    for first in range(0, len(rows), SCORED_AT_ONCE):
        some = rows[first : first + SCORED_AT_ONCE]
        starts_of = starts[first : first + len(some) + 1]
        here = slice(starts_of[0], starts_of[-1])
        pairs = torch.sparse_csr_tensor(
            torch.from_numpy(starts_of - starts_of[0]),
            torch.from_numpy(questions[here]),
            zeros[here],
            (len(some), len(queries)),
            check_invariants=False,
        )
        # By way of float32, since torch has no vector instructions from float16 to float64.
        follow = some[-1] - some[0] + 1 == len(some)
        stored = tensor(views[some[0] : some[-1] + 1] if follow else views.take(some, axis=0))
        converted = double[: len(some)].copy_(single[: len(some)].copy_(stored))
        products[here] = torch.sparse.sampled_addmm(pairs, converted, asked, beta=0).values().numpy()
    return products


@cache
def _have_torch_warn_of_sparse_tensors() -> None:
    """Has torch say that they are a beta, which it does once, where nobody hears it."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, 1).to_sparse_csr()


def score_passages(
    stored: StoredViews,
    offsets: np.ndarray,
    view_counts: np.ndarray,
    query: np.ndarray,
    passage_rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores passages by the max over their views; returns the scores [n] float64 and the first views that have them [n] int64.

    `offsets` and `view_counts` [all passages] are the row of each passage's first view and the number of its views;
    `query` [dim] float64; each passage of `passage_rows` [n] has a view or more. Equal views score equally beside any
    other views (see `score_views`).
    """
    if not len(passage_rows):
        return np.empty(0), np.empty(0, np.int64)
    counts = view_counts[passage_rows]
    firsts = np.cumsum(counts) - counts  # of each passage among the views that are read
    positions = np.arange(counts.sum())
    view_rows = positions + np.repeat(offsets[passage_rows] - firsts, counts)
    scores = score_views(stored.read_rows(view_rows), query)
    highest = np.maximum.reduceat(scores, firsts)
    winners = np.where(scores == np.repeat(highest, counts), positions, len(positions))
    return highest, np.minimum.reduceat(winners, firsts) - firsts


def score_pairs(
    stored: StoredViews,
    offsets: np.ndarray,
    view_counts: np.ndarray,
    queries: np.ndarray,
    questions: np.ndarray,
    passage_rows: np.ndarray,
) -> np.ndarray:
    """Scores pairs of a question and a passage by the max over the passage's views; returns the scores [n] float64.

    `questions` [n] are rows of `queries` [q, dim] float64; `offsets`, `view_counts` and `passage_rows` [n] are as
    in `score_passages`. Views are read in their order. Scores are those of `score_passages`, to the bit.
    """
    if not len(passage_rows):
        return np.empty(0)
    # Each pair once: torch refuses a pair that occurs twice.
    pairs, numbers = np.unique(questions * len(offsets) + passage_rows, return_inverse=True)
    asked, passages = np.divmod(pairs, len(offsets))
    counts = view_counts[passages]
    firsts = np.cumsum(counts) - counts
    view_rows = np.arange(counts.sum()) + np.repeat(offsets[passages] - firsts, counts)
    order = stable_order(view_rows)
    scores = np.empty(len(view_rows))
    scores[order] = score_rows(stored.matrix, view_rows[order], queries, np.repeat(asked, counts)[order])
    return np.maximum.reduceat(scores, firsts)[numbers]


def equal_blocks(sources: Sequence[ViewBlocks], rows: int) -> Iterator[np.ndarray]:
    """The views of all sources in order, `rows` at a time [rows, dim] float16, the last block shorter: the same
    blocks however the views are spread over sources and their own blocks."""
    held = np.empty((0, sources[0].dim), VIEW_DTYPE)
    for source in sources:
        for block in source.read_blocks():
            held = np.concatenate([held, block])
            while len(held) >= rows:
                yield held[:rows]
                held = held[rows:]
    if len(held):
        yield held


def sampled_rows(total: int, count: int, seed: int) -> np.ndarray:
    """`count` random rows of 0…total-1, in rising order; all rows where `total` is not larger."""
    if total <= count:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False, shuffle=False))
