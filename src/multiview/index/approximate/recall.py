"""Recall of an approximate index, measured against a search that reads every stored view."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from multiview.config import JsonObject
from multiview.index.exact import ALL_VIEWS
from multiview.index.stored_views import passages_of_views, sampled_rows
from multiview.steps.events import Events

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

RECALL_CUTS = (10, 100)
"""The cut-offs k of the recall."""

MEASURED = 200
"""The most random views that are searched for."""


def measure(index: ViewIndex, seed: int, events: Events) -> JsonObject:
    """Searches `index` for random views as if they were questions.

    Returns the number of views, and for an approximate index recall by metric name. Reports the fact
    `questions_per_second`, from a search for all views at once, and the recall as metrics. The passage of the view
    itself is left out, since a view finds itself. Questions are distributed differently from
    views: `evaluate` measures recall by questions.
    """
    rows = sampled_rows(len(index.views), MEASURED, seed)
    if not len(rows):
        return {"views": 0}
    queries = index.views.take(rows, axis=0).astype(np.float32)
    begun = time.perf_counter()
    found = index.search(queries, max(RECALL_CUTS) + 1).passages
    events.fact("questions_per_second", round(len(rows) / (time.perf_counter() - begun), 1))
    if index.exact:
        return {"views": len(rows)}
    exact = index.search_views([ALL_VIEWS], queries, max(RECALL_CUTS) + 1)[0].passages
    sources = passages_of_views(rows, index.offsets)
    return {"views": len(rows), **report_recall(without(found, sources), without(exact, sources), events)}


def measure_questions(index: ViewIndex, queries: np.ndarray, found: np.ndarray, events: Events) -> None:
    """Reports the recall of an approximate index for questions [q, dim], for which it found passages [q, depth].

    Samples as many questions as there were views when the index was measured after it was built. Each stored view is
    read once and scored for all of them.
    """
    sampled = sampled_rows(len(queries), index.header["measured"]["views"], index.header["seed"])
    if len(sampled):
        depth = found.shape[1]
        exact = index.search_views([ALL_VIEWS], queries[sampled], depth)[0].passages
        report_recall(found[sampled], exact, events)


def report_recall(found: np.ndarray, exact: np.ndarray, events: Events) -> dict[str, float]:
    """Reports passage recall at those `RECALL_CUTS` that the depth allows; returns it by metric name."""
    recall = {
        f"index_recall_at_{k}": passage_recall(found, exact, k) for k in RECALL_CUTS if k <= found.shape[1]
    }
    for name, value in recall.items():
        events.metric(name, value)
    return recall


def without(passages: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """`passages` [q, k+1] without each question's `excluded` passage [q], or without the last where it is not found [q, k]."""
    drop = passages == excluded[:, None]
    drop[~drop.any(axis=1), -1] = True
    return passages[~drop].reshape(len(passages), passages.shape[1] - 1)


def passage_recall(found: np.ndarray, exact: np.ndarray, k: int) -> float:
    """Mean share of the k passages of `exact` [q, ≥k] that are among the first k of `found`; -1 is padding."""
    found, exact = found[:, :k], exact[:, :k]
    real = exact >= 0
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2) & real
    return float((hits.sum(axis=1) / np.maximum(1, real.sum(axis=1))).mean())
