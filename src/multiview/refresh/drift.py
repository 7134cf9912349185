"""Drift of a trained index: views that were added since its training, and their error in the index."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multiview.config import Refresh
from multiview.index.faiss_index import FaissIndex
from multiview.index.stored_views import sampled_rows
from multiview.refresh.merged_views import MergedViews

SAMPLED = 4096
"""The most views to measure the error of, among the added views and again among the other views."""


@dataclass(frozen=True)
class Drift:
    """The drift of an index since its training."""

    added: float
    """Share of the index's views that were added since its training."""
    error: float | None = None
    """Mean squared error of the added views in the index, as a multiple of the other views' error. None where there
    is nothing to compare, or faiss cannot decode the index's views."""
    deviation: float = 0.0
    """Standard error of `error` over the added views: large where they are few."""


def drift(index: FaissIndex, views: MergedViews, added: np.ndarray, seed: int) -> Drift:
    """Returns the drift of a trained faiss `index` once it holds `views`.

    `added` [rows] bool marks the views added since its training. The index's content is not read: the error is
    measured by how its quantizers encode random views, added ones and others.
    """
    share = float(added.mean()) if len(added) else 0.0
    if not 0 < share < 1:
        return Drift(share)
    new, old = (squared_errors(index, _sample(views, which, seed)) for which in (added, ~added))
    if new is None or old is None or not old.any():  # views that are stored as they are have no error
        return Drift(share)
    deviation = new.std(ddof=1) / math.sqrt(len(new)) if len(new) > 1 else math.inf
    return Drift(share, float(new.mean() / old.mean()), float(deviation / old.mean()))


def squared_errors(index: FaissIndex, views: np.ndarray) -> np.ndarray | None:
    """Returns the squared distance of each of `views` [n, dim] float32 to its decoded code in `index` [n] float64; None
    for a kind of index that cannot decode."""
    try:
        stored = index.sa_decode(index.sa_encode(views))
    except RuntimeError:
        return None
    return np.square(stored.astype(np.float64) - views).sum(axis=1)


def why_retrain(found: Drift, settings: Refresh) -> str:
    """Returns the limit that a drift exceeds, in words; empty where it exceeds none."""
    if found.added > settings.retrain_added:
        return (
            f"{found.added:.1%} of the views were added since the index was trained "
            f"(refresh.retrain_added={settings.retrain_added:g})"
        )
    if found.error is not None and found.error - 2 * found.deviation > settings.retrain_error:
        return (
            f"views added since the index was trained have {found.error:.2f} times the squared error of the others "
            f"(refresh.retrain_error={settings.retrain_error:g})"
        )
    return ""


def _sample(views: MergedViews, which: np.ndarray, seed: int) -> np.ndarray:
    rows = np.flatnonzero(which)
    return views.read_rows(rows[sampled_rows(len(rows), SAMPLED, seed)]).astype(np.float32)
