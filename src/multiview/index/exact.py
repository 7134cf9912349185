"""Exact top-k passages from a search over views.

A passage's score is the max over its views' scores. Asking an index for k views gives fewer than k passages, and no
fixed number of views is enough when scores tie, so the search fetches more views until the answer can no longer change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.index.faiss_index import ViewSearcher
from multiview.index.stored_views import passages_of_views

FETCH_FACTOR = 1.5
"""Views that are fetched at first, as a multiple of k. Only speed depends on it."""

FETCHED_AT_ONCE = 1 << 22
"""Most (question, view) pairs held at once: 4 Mi pairs are 50 MB in faiss and about as much here."""


@dataclass(frozen=True)
class TopPassages:
    """The best passages of each question, best first; padded where a question has fewer than k."""

    passages: np.ndarray
    """[q, k] int64: rows of the passages in the index, -1 for padding."""
    scores: np.ndarray
    """[q, k] float32: -inf for padding."""
    winning_views: np.ndarray
    """[q, k] int32: which of a passage's views has its score, from 0, the first of those that tie; -1 for padding."""
    exact: bool = True
    """Whether no other passage scores better; not known for an approximate index (`multiview.index.approximate`)."""

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

    def hits(self, question: int) -> list[tuple[int, float, int]]:
        """(passage row, score, winning view) of one question's passages, best first, without padding."""
        real = self.passages[question] >= 0
        columns = (self.passages, self.scores, self.winning_views)
        return list(zip(*(column[question][real].tolist() for column in columns), strict=True))


def top_passages(
    searcher: ViewSearcher,
    offsets: np.ndarray,
    tie_order: np.ndarray,
    queries: np.ndarray,
    k: int,
    *,
    fetched_at_once: int = FETCHED_AT_ONCE,
    report_done: Callable[[int], None] = lambda done: None,
) -> TopPassages:
    """The k passages with the highest max over views, exact given the view scores of `searcher`.

    `offsets` [p] int64 is the row of each passage's first view, rising; `tie_order` [p] is the position of each
    passage's id in string order: of passages that tie, the one with the smaller id comes first. `queries` [q, dim]
    float32. `report_done` is called with the number of settled questions.

    A question is settled when k distinct passages have been seen and the last view fetched scores strictly below
    the k-th of them (every view that could change the answer has then been seen), or when there are no more views.
    The other questions are searched again from the start, for twice as many views: scores of two calls are never
    compared, because a matrix product rounds differently for another batch.
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
            for question, view_scores, view_rows in zip(chunk.tolist(), scores, rows, strict=True):
                passages, passage_scores, winners = rank_passages(view_scores, view_rows, offsets, tie_order)
                all_seen = fetch == searcher.ntotal
                if not all_seen and (len(passages) < k or view_scores[-1] >= passage_scores[k - 1]):
                    unsettled.append(question)
                    continue
                count = min(k, len(passages))
                top.passages[question, :count] = passages[:k]
                top.scores[question, :count] = passage_scores[:k]
                top.winning_views[question, :count] = winners[:k]
                settled += 1
            report_done(settled)
        pending = np.asarray(unsettled, dtype=np.int64)
        fetch = min(searcher.ntotal, 2 * fetch)
    return top


def rank_passages(
    scores: np.ndarray, view_rows: np.ndarray, offsets: np.ndarray, tie_order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranks the passages of one question's fetched views, best first: (passages, scores, winning views).

    `scores` and `view_rows` [f]; rows of -1 (faiss had no more views) are dropped. The order is by falling score,
    then by `tie_order`, then by view, so that a passage's first appearance is its best, first view.
    """
    real = view_rows >= 0
    scores, view_rows = scores[real], view_rows[real]
    passages = passages_of_views(view_rows, offsets)
    views = view_rows - offsets[passages]
    order = np.lexsort((views, tie_order[passages], -scores))
    _, first = np.unique(passages[order], return_index=True)
    chosen = order[np.sort(first)]
    return passages[chosen], scores[chosen], views[chosen]


def tie_order(ids: pa.Array) -> np.ndarray:
    """Position of each id in string order, by code point [p] int64, which breaks ties between passages."""
    sorted_rows = pc.call_function("array_sort_indices", [ids]).to_numpy()
    positions = np.empty(len(ids), np.int64)
    positions[sorted_rows] = np.arange(len(ids))
    return positions
