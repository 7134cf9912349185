"""Means over passages of a quantity between two views, where passages may have different views."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

PASSAGES_AT_ONCE = 1024


def pair_means(blocks: Iterable[np.ndarray], view_count: int) -> np.ndarray:
    """Means [views, views] float64 over the passages that have both views, NaN where none has; `blocks` hold the values of
    some passages [p, views, views], NaN where a passage lacks a view."""
    sums, counts = np.zeros((view_count, view_count)), np.zeros((view_count, view_count), np.int64)
    for values in blocks:
        sums += np.nansum(values, axis=0)
        counts += (~np.isnan(values)).sum(axis=0)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def mean_cosines(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean cosine [views, views] float64 of views i and j over the passages that have both; NaN where no passage has.
    `vectors` [v, dim] are those of all passages, `counts` [p] their number per passage."""
    views, stops = int(counts.max()), np.cumsum(counts)

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, len(counts), PASSAGES_AT_ONCE):
            block = counts[start : start + PASSAGES_AT_ONCE]
            stop = stops[start + len(block) - 1]
            yield view_cosines(vectors[stop - block.sum() : stop], block, views)

    return pair_means(blocks(), views)


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
