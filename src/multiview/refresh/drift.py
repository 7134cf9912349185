"""How far an index has drifted from what it was trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiview.config import Refresh
from multiview.index.stored_views import drawn_rows
from multiview.refresh.merged_views import GatheredViews

SAMPLED = 4096
"""Most views whose error is looked at, of those added and of those trained on."""


@dataclass(frozen=True)
class Drift:
    """`added`: share of an index's views that were added since it was trained. `error`: their mean squared error in
    the index, as a multiple of that of the others; none where there is none to compare, or faiss cannot tell."""

    added: float
    error: float | None = None
    deviation: float = 0.0
    """Standard error of `error`, by the views that were added: of few of them it says little."""


def drift(index: Any, views: GatheredViews, added: np.ndarray, seed: int) -> Drift:
    """The drift of a trained faiss `index` once it holds `views`, of which `added` [rows] bool were not there when
    it was trained. What it holds is not looked at, only what its quantizers make of random views of both."""
    share = float(added.mean()) if len(added) else 0.0
    if not 0 < share < 1:
        return Drift(share)
    came, were = (squared_errors(index, _drawn(views, of, seed)) for of in (added, ~added))
    if came is None or were is None or not were.any():  # views that are stored as they are have no error
        return Drift(share)
    deviation = came.std(ddof=1) / math.sqrt(len(came)) if len(came) > 1 else math.inf
    return Drift(share, float(came.mean() / were.mean()), float(deviation / were.mean()))


def squared_errors(index: Any, views: np.ndarray) -> np.ndarray | None:
    """The squared distance of each of `views` [n, dim] float32 to what `index` stores of it [n] float64; none for a
    kind that cannot be decoded."""
    try:
        stored = index.sa_decode(index.sa_encode(views))
    except RuntimeError:
        return None
    return np.square(stored.astype(np.float64) - views).sum(axis=1)


def why_retrain(found: Drift, settings: Refresh) -> str:
    """Which limit a drift is past, in words; empty for none."""
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


def _drawn(views: GatheredViews, of: np.ndarray, seed: int) -> np.ndarray:
    rows = np.flatnonzero(of)
    return views.at(rows[drawn_rows(len(rows), SAMPLED, seed)]).astype(np.float32)
