"""Views as `encode` stored them, in a file or in a bucket, and the scores of passages by them."""

import hashlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np

from multiview.artifacts.staging import StoredFile
from multiview.config import JsonObject
from multiview.data.arrays import rows_in
from multiview.encoding.embeddings import VIEW_DTYPE, map_views
from multiview.errors import InputError, counted

# Harmless warnings of torch: views, which may be mapped, are only read, and sparse matrices only multiplied.
warnings.filterwarnings(
    "ignore", "The given NumPy array is not writable|Sparse CSR tensor support is in beta"
)

LONGEST_VIEW = "longest_view"
"""Field of an index's header: the largest Euclidean norm of its views, on which the rounding of their products depends."""

NORMS_AT_ONCE = 1024
"""Number of views whose norms are computed at once."""

SCORED_AT_ONCE, PAIRS_AT_ONCE = 1024, 1 << 14
"""Number of views that are scored in float64 at once, and of pairs of a passage and a question. Memory and speed depend on
them, results do not."""

HELD = 4
"""Blocks of `StreamedViews` kept in memory, including the one read ahead, which takes twice its size while it downloads.
Only speed and memory depend on it."""

Matrix: TypeAlias = "np.ndarray | StreamedViews"
"""Views [rows, dim] float16: in memory, mapped from a file, or in a bucket."""

REBUILD = "delete this artifact's folder and run `index` again"


def open_views(file: Path, header: JsonObject, streamed: StoredFile | None = None) -> Matrix:
    """Maps the views of an index with this header from a file, or reads them from a bucket where they are `streamed`.

    Raises InputError where the file is missing or has another size or, in a bucket, has no digests of its blocks.
    """
    shape = header["views"], header["dim"]
    if streamed is None:
        # The memory of the mapped file, without the cost of `np.memmap` per access.
        return np.asarray(map_views(file, *shape, REBUILD))
    rows_per_block, block_sha256 = header.get("rows_per_block", 1), header.get("block_sha256", ())
    return StreamedViews(streamed, shape, rows_per_block, block_sha256)


def passages_of_views(view_rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Row of the passage that each view belongs to [n] int64.

    `offsets` [p] is the row of each passage's first view, ascending.
    """
    # A passage without views shares its offset with the next one; "right" finds the one that has the view.
    return np.searchsorted(offsets, view_rows, side="right") - 1


def score_rows(views: Matrix, rows: np.ndarray, queries: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Returns the scores [m] float64 of the views at `rows` [m], in ascending order, with the queries `questions` [m].

    `views` [v, dim] float16; `queries` [q, dim] float64. No pair may occur twice.
    """
    import torch

    starts = np.append(np.flatnonzero(np.diff(rows, prepend=-1)), len(rows))
    rows = rows.take(starts[:-1])
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
        stored = torch.from_numpy(views[some[0] : some[-1] + 1] if follow else views.take(some, axis=0))
        converted = double[: len(some)].copy_(single[: len(some)].copy_(stored))
        products[here] = torch.sparse.sampled_addmm(pairs, converted, asked, beta=0).values().numpy()
    return products


def score_passages(
    views: Matrix, firsts: np.ndarray, counts: np.ndarray, queries: np.ndarray, questions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores pairs of a passage and a question by the max over the passage's views; returns the scores [n] float64 and
    which view has each, the first of those that tie [n] int64.

    A passage's views are `counts` [n] rows of `views` from `firsts` [n] on, at least one; `questions` [n] are rows of
    `queries` [q, dim]. No pair may occur twice. Views are read once, in their order. The order of each sum is the same
    whatever the other views and queries, so that equal views score equally, to the bit.
    """
    best, winners, order = np.empty(len(firsts)), np.empty(len(firsts), np.int64), firsts.argsort()
    queries = queries.astype(np.float64)
    for first in range(0, len(order), PAIRS_AT_ONCE):
        some = order[first : first + PAIRS_AT_ONCE]
        rows, starts = rows_in(firsts[some], counts[some]), np.cumsum(counts[some]) - counts[some]
        by_row, scores = rows.argsort(), np.empty(len(rows))
        scores[by_row] = score_rows(
            views, rows[by_row], queries, np.repeat(questions[some], counts[some])[by_row]
        )
        best[some] = np.maximum.reduceat(scores, starts)
        ties = scores == np.repeat(best[some], counts[some])
        positions = np.where(ties, np.arange(len(rows)), len(rows))
        winners[some] = np.minimum.reduceat(positions, starts) - starts
    return best, winners


def sampled_rows(total: int, count: int, seed: int) -> np.ndarray:
    """`count` random rows of 0…total-1, in ascending order; all rows where `total` is not larger."""
    if total <= count:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False, shuffle=False))


def longest_view(views: Matrix, before: float = 0.0) -> float:
    """Returns the largest norm of `views` [v, dim] float16, or `before` if larger. Reads views once, block by block."""
    import torch

    for start in range(0, len(views), NORMS_AT_ONCE):
        # By way of float32, as in `score_rows`.
        some = torch.from_numpy(views[start : start + NORMS_AT_ONCE]).float().double()
        before = max(before, math.sqrt(some.square_().sum(dim=1).max().item()))
    return before


class StreamedViews:
    """Views [rows, dim] float16 of a file in a store, read by slices or rows, like an array.

    Reading is fast for successive slices and for ascending rows: a block is read, checked against its digest and held,
    while another thread reads the next.
    """

    def __init__(
        self,
        file: StoredFile,
        shape: tuple[int, int],
        rows_per_block: int,
        block_sha256: Sequence[str],
    ) -> None:
        """`block_sha256` are the digests of the blocks, each of `rows_per_block` views but the last. Raises
        InputError where the file has another size than these views."""
        expected = shape[0] * shape[1] * VIEW_DTYPE.itemsize
        if file.bytes != expected or len(block_sha256) != -(-shape[0] // rows_per_block):
            raise InputError(
                f"{file}: {file.bytes} bytes and {counted(len(block_sha256), 'block digest')}, but "
                f"{counted(shape[0], 'view')} of {shape[1]} float16 values, {expected} bytes; {REBUILD}"
            )
        self.shape = shape
        self.rows_per_block = rows_per_block
        self._none = np.empty((0, shape[1]), VIEW_DTYPE)
        self._file, self._block_sha256 = file, block_sha256
        self._held: OrderedDict[int, Future[np.ndarray]] = OrderedDict()
        """The blocks by number, the one that was asked for last at the end."""
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(HELD, thread_name_prefix="streamed-views")

    def __len__(self) -> int:
        """Number of views."""
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Views [n, dim] float16 of successive rows. Raises InputError where a block of them is damaged or gone."""
        start, stop, _ = rows.indices(len(self))
        size = self.rows_per_block
        parts = [
            self._block(number, number + 1)[max(0, start - number * size) : stop - number * size]
            for number in range(start // size, -(-stop // size))
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([self._none, *parts])

    def take(self, rows: np.ndarray, axis: Literal[0] = 0) -> np.ndarray:
        """Views [n, dim] float16 of `rows` [n]. Raises InputError where a block of them is damaged or gone."""
        views = np.empty((len(rows), self.shape[1]), VIEW_DTYPE)
        blocks, places = np.divmod(rows, self.rows_per_block)
        numbers = np.unique(blocks).tolist()
        for number, following in zip(numbers, [*numbers, None][1:], strict=True):
            here = blocks == number
            views[here] = self._block(number, following)[places[here]]
        return views

    def _block(self, number: int, following: int | None) -> np.ndarray:
        """Returns a block, and has the `following` one read meanwhile. A failed read is not repeated while held."""
        with self._lock:
            for each in (number, following):
                if each is not None and each < len(self._block_sha256):
                    if each not in self._held:
                        self._held[each] = self._threads.submit(self._read, each)
                    self._held.move_to_end(each)
            while len(self._held) > HELD:
                self._held.popitem(last=False)
            block = self._held[number]
        return block.result()

    def _read(self, number: int) -> np.ndarray:
        start = number * self.rows_per_block
        rows = min(self.rows_per_block, len(self) - start)
        row_bytes = self.shape[1] * VIEW_DTYPE.itemsize
        try:
            block = self._file.read(start * row_bytes, (start + rows) * row_bytes)
        except FileNotFoundError:
            raise InputError(f"{self._file}: is gone since this step began; run again") from None
        if hashlib.sha256(block).hexdigest() != self._block_sha256[number]:
            raise InputError(
                f"{self._file}: block {number} is not what was written (sha256 differs); {REBUILD}"
            )
        return np.frombuffer(block, VIEW_DTYPE).reshape(rows, self.shape[1])
