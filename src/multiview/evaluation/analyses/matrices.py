"""Means over passages of a quantity between two views, where passages may have different views."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


class PairMeans:
    """A running mean [views, views] in float64 over the passages that have both views."""

    def __init__(self, view_count: int) -> None:
        self.view_count = view_count
        self._sums = np.zeros((view_count, view_count))
        self._counts = np.zeros((view_count, view_count), np.int64)

    def add(self, values: np.ndarray, present: np.ndarray) -> None:
        """Adds values of passages [p, views, views]; `present` [p, views] bool says which views the passages have."""
        both = present[:, :, None] & present[:, None, :]
        self._sums += np.where(both, values, 0).sum(axis=0)
        self._counts += both.sum(axis=0)

    def means(self) -> np.ndarray:
        """The means [views, views] float64; NaN where no passage has both views."""
        return np.divide(
            self._sums, self._counts, out=np.full(self._sums.shape, np.nan), where=self._counts > 0
        )


def add_cosines(means: PairMeans, vectors: np.ndarray, counts: np.ndarray) -> None:
    """Adds the cosines between the views of passages: `vectors` [views, dim] of all of them, `counts` [p] of each."""
    present = np.arange(means.view_count) < counts[:, None]
    means.add(view_cosines(vectors, counts, means.view_count), present)


def view_cosines(vectors: np.ndarray, counts: np.ndarray, view_count: int) -> np.ndarray:
    """Cosines [p, views, views] float64 between the views of passages, 0 for missing views.

    `vectors` [v, dim] are those of all passages, `counts` [p] their number per passage.
    """
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    padded = np.zeros((len(counts), view_count, vectors.shape[1]))
    padded[np.arange(view_count) < counts[:, None]] = np.divide(
        vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0
    )
    return padded @ padded.transpose(0, 2, 1)


def off_diagonal(name: str, means: np.ndarray) -> dict[str, float]:
    """Metrics `name`, `name_min` and `name_max`: mean, minimum and maximum over the pairs i ≠ j that have a value."""
    values = means[~np.eye(len(means), dtype=bool)]
    values = values[~np.isnan(values)]
    if not len(values):
        return {}
    return {name: values.mean(), f"{name}_min": values.min(), f"{name}_max": values.max()}


def table_of(means: np.ndarray) -> pa.Table:
    """A table with one row per view i and one column `view_j` per view j; null where there is no value."""
    columns = {
        f"view_{j + 1}": pa.array(column, pa.float64(), from_pandas=True) for j, column in enumerate(means.T)
    }
    return pa.table({"view": pa.array(range(1, len(means) + 1), pa.int32()), **columns})
