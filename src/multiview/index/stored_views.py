"""Stored views, by their rows or block by block, and what passages score by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from multiview.errors import InputError

VIEWS_FILE = "views.f16"


class StoredViews(Protocol):
    """Views by row, as `encode` stored them."""

    dim: int

    def at(self, rows: np.ndarray, dtype: type[np.floating] = np.float32) -> np.ndarray:
        """Some views [rows, dim]."""
        ...

    def run(self, start: int, number: int) -> np.ndarray:
        """`number` views from row `start` on [number, dim] float32."""
        ...


class ViewBlocks(Protocol):
    """Views in order, read block by block, of which an index is built; such as a shard's `Embeddings`."""

    dim: int
    rows: int
    rows_per_block: int

    @property
    def blocks(self) -> int:
        """Number of blocks; the last may be shorter."""
        ...

    def read_block(self, number: int) -> np.ndarray:
        """Views of block `number` [rows, dim] float16. Raises InputError for a damaged one."""
        ...

    def read_blocks(self) -> Iterator[np.ndarray]:
        """All blocks in order."""
        ...


class FlatViews:
    """Those that an exact index holds anyway."""

    def __init__(self, faiss_index: Any) -> None:
        self._index = faiss_index
        self.dim: int = faiss_index.d

    def at(self, rows: np.ndarray, dtype: type[np.floating] = np.float32) -> np.ndarray:
        return self._index.reconstruct_batch(rows).astype(dtype, copy=False)

    def run(self, start: int, number: int) -> np.ndarray:
        return self._index.reconstruct_n(start, number)


class FileViews:
    """Those in the file beside an approximate index: a raw little-endian float16 matrix, memory-mapped."""

    def __init__(self, file: Path, rows: int, dim: int) -> None:
        """Raises InputError where the file is not there or has another size."""
        self.dim = dim
        size = file.stat().st_size if file.is_file() else 0
        if size != rows * dim * 2:
            raise InputError(
                f"{file}: {size} bytes, but {rows} views of {dim} float16 values are {rows * dim * 2}; "
                "delete this artifact's folder and run `index` again"
            )
        self._views = np.memmap(file, "<f2", "r", shape=(rows, dim))

    def at(self, rows: np.ndarray, dtype: type[np.floating] = np.float32) -> np.ndarray:
        return self._views[rows].astype(dtype)

    def run(self, start: int, number: int) -> np.ndarray:
        return self._views[start : start + number].astype(np.float32)


def best_of(
    stored: StoredViews, offsets: np.ndarray, counts: np.ndarray, query: np.ndarray, passages: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The max over all views of each passage, and the first view that has it: ([p] float64, [p] int64).

    `offsets` and `counts` [all passages] are their first rows and their views; `query` [dim] float64; `passages`
    [p] are numbers of passages with a view or more. Summed in float64, so that equal views score equally whatever
    stands beside them.
    """
    if not len(passages):
        return np.empty(0), np.empty(0, np.int64)
    views = counts[passages]
    firsts = np.cumsum(views) - views
    places = np.arange(views.sum())
    scores = stored.at(places + np.repeat(offsets[passages] - firsts, views), np.float64) @ query
    best = np.maximum.reduceat(scores, firsts)
    winners = np.where(scores == np.repeat(best, views), places, len(places))
    return best, np.minimum.reduceat(winners, firsts) - firsts


def equal_blocks(sources: Sequence[ViewBlocks], rows: int) -> Iterator[np.ndarray]:
    """The views of all sources in order, `rows` at a time [rows, dim] float16, the last block shorter: the same
    blocks however the views are spread over sources and their own blocks."""
    held = np.empty((0, sources[0].dim), "<f2")
    for source in sources:
        for block in source.read_blocks():
            held = np.concatenate([held, block])
            while len(held) >= rows:
                yield held[:rows]
                held = held[rows:]
    if len(held):
        yield held


def drawn_rows(total: int, number: int, seed: int) -> np.ndarray:
    """`number` of 0…total-1 at random, rising; all of them where there are no more."""
    if total <= number:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, number, replace=False, shuffle=False))
