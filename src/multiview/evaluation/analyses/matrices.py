"""Means over passages of a quantity between two views, where passages may have different views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from multiview.index.stored_views import Matrix


PASSAGES_AT_ONCE = 1024


class PairMeans:
    """A running mean [views, views] in float64 over the passages that have both views."""

    def __init__(self, view_count: int) -> None:
        self._sums = np.zeros((view_count, view_count))
        self._counts = np.zeros((view_count, view_count), np.int64)

    def add(self, values: np.ndarray) -> None:
        """Adds values of passages [p, views, views], NaN where a passage lacks a view."""
        self._sums += np.nansum(values, axis=0)
        self._counts += (~np.isnan(values)).sum(axis=0)

    def means(self) -> np.ndarray:
        """The means [views, views] float64; NaN where no passage has both views."""
        return np.divide(
            self._sums, self._counts, out=np.full(self._sums.shape, np.nan), where=self._counts > 0
        )


def mean_cosines(vectors: Matrix, counts: np.ndarray) -> np.ndarray:
    """Mean cosine [views, views] float64 of views i and j over the passages that have both; NaN where no passage has.
    `vectors` [v, dim] are those of all passages, `counts` [p] their number per passage."""
    means, stops = PairMeans(views := int(counts.max())), np.cumsum(counts)
    for start in range(0, len(counts), PASSAGES_AT_ONCE):
        block = counts[start : start + PASSAGES_AT_ONCE]
        stop = stops[start + len(block) - 1]
        means.add(view_cosines(vectors[stop - block.sum() : stop], block, views))
    return means.means()


def view_cosines(vectors: np.ndarray, counts: np.ndarray, view_count: int) -> np.ndarray:
    """Cosines [p, views, views] float64 between the views of passages, given as to `mean_cosines`; NaN for missing views."""
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    padded = np.full((len(counts), view_count, vectors.shape[1]), np.nan)
    padded[np.arange(view_count) < counts[:, None]] = np.divide(
        vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0
    )
    return padded @ padded.transpose(0, 2, 1)


def between_views(means: np.ndarray) -> np.ndarray:
    """The values [pairs] of a matrix [views, views] that two different views have, without NaN."""
    values = means[~np.eye(len(means), dtype=bool)]
    return values[~np.isnan(values)]


def off_diagonal(name: str, means: np.ndarray) -> dict[str, float]:
    """Metrics `name`, `name_min` and `name_max`: mean, minimum and maximum over the pairs i ≠ j that have a value."""
    values = between_views(means)
    if not len(values):
        return {}
    return {name: values.mean(), f"{name}_min": values.min(), f"{name}_max": values.max()}


def table_of(means: np.ndarray) -> pa.Table:
    """A table with one row per view i and one column `view_j` per view j; null where there is no value."""
    columns = {
        f"view_{j + 1}": pa.array(column, pa.float64(), from_pandas=True) for j, column in enumerate(means.T)
    }
    return pa.table({"view": pa.array(range(1, len(means) + 1), pa.int32()), **columns})
