"""Exact top-k passages from a search over views (SPEC, "Retrieval").

A passage's score is the max over its views' scores. Asking a view index for k views gives fewer
than k passages, and no fixed number of views is enough when scores tie, so the search fetches more
until the answer can no longer change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FETCH_FACTOR = 1.5
"""Views fetched at first, as a multiple of k. Only speed depends on it."""

FETCHED_AT_ONCE = 1 << 22
"""Most (question, view) pairs held at once: 4 Mi pairs are 50 MB in faiss and about as much here."""


class ViewSearcher(Protocol):
    """What is asked of a faiss index: rows in order of falling score, -1 where there are too few."""

    ntotal: int

    def search(self, x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class TopPassages:
    """The best passages of each question, best first.

    `passages` [q, k] int64 are passage numbers, -1 where the corpus has fewer than k; `scores` [q, k]
    float32, -inf there; `views` [q, k] int32 say which of its views gave a passage its score, from 0
    (the first of those that tie), -1 there. `exact`: no other passage scores better; an approximate index
    (`multiview.index.approximate`) does not know.
    """

    passages: np.ndarray
    scores: np.ndarray
    views: np.ndarray
    exact: bool = True

    @classmethod
    def empty(cls, questions: int, k: int, exact: bool = True) -> TopPassages:
        """Padding throughout, to be filled in."""
        shape = (questions, k)
        return cls(
            np.full(shape, -1, np.int64),
            np.full(shape, -np.inf, np.float32),
            np.full(shape, -1, np.int32),
            exact,
        )


def top_passages(
    searcher: ViewSearcher,
    offsets: np.ndarray,
    rank: np.ndarray,
    queries: np.ndarray,
    k: int,
    *,
    fetched_at_once: int = FETCHED_AT_ONCE,
    report_done: Callable[[int], None] = lambda done: None,
) -> TopPassages:
    """The k passages with the highest max over views, exact given the view scores of `searcher`.

    `offsets` [p] int64 is each passage's first row among the views, rising; `rank` [p] is the place of
    each passage's id in string order: of passages that tie, the smaller id comes first. `queries` [q, dim]
    float32. `tell_done(n)` hears how many questions are settled.

    A question is settled when k distinct passages have been seen and the last view fetched scores
    strictly below the k-th of them (every view that could change the answer has then been seen), or when
    there are no more views. The others are asked again, whole, for twice as many views: the scores of two
    calls are never compared, because a matrix product rounds differently for another batch.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise ValueError("a question's vector holds a value that is not finite")
    top = TopPassages.empty(len(queries), k)
    pending = np.arange(len(queries))
    fetch = min(searcher.ntotal, max(k, int(np.ceil(FETCH_FACTOR * k))))
    if fetch == 0:
        return top
    settled = 0
    while len(pending):
        unsettled: list[int] = []
        size = max(1, fetched_at_once // fetch)
        for start in range(0, len(pending), size):
            chunk = pending[start : start + size]
            scores, rows = searcher.search(queries[chunk], fetch)
            for question, row_scores, row_numbers in zip(chunk.tolist(), scores, rows, strict=True):
                passages, best, views = best_views(row_scores, row_numbers, offsets, rank)
                all_seen = fetch == searcher.ntotal
                if not all_seen and (len(passages) < k or row_scores[-1] >= best[k - 1]):
                    unsettled.append(question)
                    continue
                found = min(k, len(passages))
                top.passages[question, :found] = passages[:k]
                top.scores[question, :found] = best[:k]
                top.views[question, :found] = views[:k]
                settled += 1
            report_done(settled)
        pending = np.asarray(unsettled, dtype=np.int64)
        fetch = min(searcher.ntotal, 2 * fetch)
    return top


def best_views(
    scores: np.ndarray, rows: np.ndarray, offsets: np.ndarray, rank: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Passages of one question's fetched views, best first: (passages, scores, winning views).

    `scores` and `rows` [f]; rows of -1 (faiss had no more views) are dropped. Order: score falling, then
    `rank` of the passage, then view, so that a passage's first appearance is its best, first view.
    """
    real = rows >= 0
    scores, rows = scores[real], rows[real]
    # A passage without views shares its offset with the next one; "right" finds the one that has the row.
    passages = np.searchsorted(offsets, rows, side="right") - 1
    views = rows - offsets[passages]
    order = np.lexsort((views, rank[passages], -scores))
    _, first = np.unique(passages[order], return_index=True)
    chosen = order[np.sort(first)]
    return passages[chosen], scores[chosen], views[chosen]


def rank_of(ids: pa.Array) -> np.ndarray:
    """Place of each id in string order (by code point) [p] int64: what breaks ties between passages."""
    order = pc.call_function("array_sort_indices", [ids]).to_numpy()
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.arange(len(ids))
    return rank
