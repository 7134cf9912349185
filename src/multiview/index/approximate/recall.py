"""Recall of an approximate index, measured against a search that reads every stored view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multiview.index.exact import ALL_VIEWS
from multiview.index.stored_views import sampled_rows
from multiview.steps.events import Events

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

RECALL_CUTS = (10, 100)
"""The cut-offs k of the recall."""

MEASURED = 200
"""The most questions that are searched for."""


def measure(index: ViewIndex, queries: np.ndarray, found: np.ndarray, events: Events) -> None:
    """Reports the recall of an approximate index for some of the questions [q, dim], for which it found passages [q, depth].

    The metrics are passage recall at those `RECALL_CUTS` that the depth allows. Each stored view is read once and scored
    for all of these questions.
    """
    sampled = sampled_rows(len(queries), MEASURED, index.header["seed"])
    if not len(sampled):
        return
    exact = index.search_views([ALL_VIEWS], queries[sampled], found.shape[1])[0].passages
    for k in RECALL_CUTS:
        if k <= found.shape[1]:
            events.metric(f"index_recall_at_{k}", passage_recall(found[sampled], exact, k))


def passage_recall(found: np.ndarray, exact: np.ndarray, k: int) -> float:
    """Mean share of the k passages of `exact` [q, ≥k] that are among the first k of `found`; -1 is padding."""
    found, exact = found[:, :k], exact[:, :k]
    real = exact >= 0
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2) & real
    return float((hits.sum(axis=1) / np.maximum(1, real.sum(axis=1))).mean())
