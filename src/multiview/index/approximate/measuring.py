"""What an approximate index misses, against a search that reads every stored view."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from multiview import names
from multiview.index.stored_views import StoredViews, drawn_rows
from multiview.steps.events import Events

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

READ_AT_ONCE = 1 << 16
"""Views that are scored at once."""
AT = (10, 100)
"""Depths of the recall."""


def measure(index: ViewIndex, number: int, seed: int, events: Events) -> dict[str, Any]:
    """Ask `index` for `number` random views as if they were questions: their number, and recall by metric's name.

    Tells the fact `questions_per_second`, all asked for at once, and the recall of an approximate index, as
    metrics: of the other passages, since a view finds its own. Questions lie elsewhere than views: `evaluate`
    measures by them.
    """
    rows = drawn_rows(int(index.views.sum()), number, seed)
    if not len(rows):
        return {"views": 0}
    queries = index.stored.at(rows)
    own = np.searchsorted(index.offsets, rows, side="right") - 1
    begun = time.perf_counter()
    found = index.search(queries, max(AT) + 1).passages
    events.fact("questions_per_second", round(len(rows) / (time.perf_counter() - begun), 1))
    if index.exact:
        return {"views": len(rows)}
    best = exact_passages(index.stored, index.offsets, index.views, queries, max(AT) + 1)
    return {"views": len(rows), **tell_recall(without(found, own), without(best, own), events)}


def measure_questions(index: ViewIndex, queries: np.ndarray, found: np.ndarray, events: Events) -> None:
    """Tell the recall of an approximate index by questions [q, dim], for which it found passages [q, depth].

    As many are drawn as its build was measured by: each view is read once and scored for all of them.
    """
    drawn = drawn_rows(len(queries), index.header["measured"]["views"], index.header["seed"])
    if len(drawn):
        best = exact_passages(index.stored, index.offsets, index.views, queries[drawn], found.shape[1])
        tell_recall(found[drawn], best, events)


def tell_recall(found: np.ndarray, exact: np.ndarray, events: Events) -> dict[str, float]:
    """Tell passage recall at those of `AT` that the depth allows; by metric's name."""
    recall = {names.index_recall_at(k): passage_recall(found, exact, k) for k in AT if k <= found.shape[1]}
    for name, value in recall.items():
        events.metric(name, value)
    return recall


def exact_passages(
    stored: StoredViews, offsets: np.ndarray, counts: np.ndarray, queries: np.ndarray, k: int
) -> np.ndarray:
    """The k passages with the highest max over views [q, k] int64, -1 where there are fewer; ties fall anyhow.

    Every view is read once, some passages at a time, and scored in float32; `queries` [q, dim] float32.
    """
    best = np.full((len(queries), k), -np.inf, np.float32)
    numbers = np.full((len(queries), k), -1, np.int64)
    with_views = np.flatnonzero(counts)
    ends = (offsets + counts)[with_views]
    start = 0
    while start < len(with_views):
        first = offsets[with_views[start]]
        stop = max(start + 1, int(np.searchsorted(ends, first + READ_AT_ONCE, side="right")))
        these = with_views[start:stop]
        views = stored.run(int(first), int(ends[stop - 1] - first))
        scores = np.maximum.reduceat(queries @ views.T, offsets[these] - first, axis=1)
        best = np.concatenate([best, scores], axis=1)
        numbers = np.concatenate([numbers, np.broadcast_to(these, scores.shape)], axis=1)
        kept = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, numbers = (np.take_along_axis(of, kept, axis=1) for of in (best, numbers))
        start = stop
    return numbers


def without(numbers: np.ndarray, own: np.ndarray) -> np.ndarray:
    """`numbers` [q, k+1] without each question's `own` [q] passage, or without the last where it is not there [q, k]."""
    drop = numbers == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    return numbers[~drop].reshape(len(numbers), numbers.shape[1] - 1)


def passage_recall(found: np.ndarray, exact: np.ndarray, k: int) -> float:
    """Mean share of the k passages of `exact` [q, ≥k] that are among the first k of `found`; -1 is no passage."""
    found, exact = found[:, :k], exact[:, :k]
    there = exact >= 0
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2) & there
    return float((hits.sum(axis=1) / np.maximum(1, there.sum(axis=1))).mean())
