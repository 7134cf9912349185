"""Views that can be among the best of some questions: proposed by their products, ranked by their scores in float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from multiview.index.columns import Columns
from multiview.index.kernels import Rounding
from multiview.index.products import Block, Highest, reaching
from multiview.index.ranking import best_first, by_question, first_best
from multiview.index.stored_views import score_rows

CROWDED = 4
"""Number of scored views per view that reaches its bar, on top of k per question, from which on products are too coarse.
Only speed depends on it."""

WIDER = 4
"""A question with more than k and so many times as many proposals as the mean is cut to its k best. Memory depends on it."""


class Proposals:
    """The views seen so far that can be among the best of some questions.

    A view whose product allows a score as high as that of the k-th best passage so far is scored (see
    `multiview.index.kernels.Rounding`), and proposed if its score is. A `floor` says beforehand which scores to look for.
    """

    def __init__(
        self,
        views: np.ndarray,
        tie_order: np.ndarray,
        queries: np.ndarray,
        k: int,
        held: int,
        rounding: Rounding,
        floor: np.ndarray | None = None,
    ) -> None:
        """For the k best of each of `queries` [q, dim] float32 among `views` [v, dim] float16; `tie_order` orders passages
        of one score (see `multiview.index.ranking`).

        Products differ from scores as `rounding` says. Views with scores below `floor` [q] float32 are left out, by
        default none. When more than `held` views and twice k per question are proposed, they are sifted.
        """
        self._views, self._tie_order = views, tie_order
        self._queries = queries.astype(np.float64)
        self._k, self._rounding, self._floor = k, rounding, floor
        self._bar = np.full(len(queries), -np.inf, np.float32) if floor is None else floor
        """The score that a view must reach to be proposed for each question [q]: at most the k-th best so far, or the floor."""
        self._most = held + 2 * len(queries) * k
        self._between = len(queries) * k // 4 if floor is None else self._most
        """Number of proposed views between two siftings: few without a floor, because sifting raises the bar."""
        self._columns = Columns(self._most, np.int64, np.int64, np.int64, np.float64)
        """Questions, rows, passages and scores of the proposed views; those of each question by rising rows."""
        self._several = False
        """Whether a passage may be proposed with several views."""
        self._sifted = 0
        """Number of proposed views after the last sifting."""
        self._seen = self._kept = 0
        """Number of views scored, and of those whose score reached the bar."""

    def add(self, block: Block, first: int, stop: int | None) -> None:
        """Proposes views of a block, as if passages had their views [first, stop) alone."""
        part = block.part(first, stop)
        if not len(part.passages):
            return
        if not np.isfinite(self._bar).all():
            highest = Highest(self._k)
            highest.add(part.best())
            self._bar = np.maximum(self._bar, self._rounding.least(highest.lowest(len(self._bar))))
        several = len(part.counts) < len(part.rows)
        self._several |= several
        numbers, questions, products = reaching(part.products, self._rounding.lowest(self._bar))
        owners = np.repeat(np.arange(len(part.counts)), part.counts).take(numbers)
        if several:
            # Of a passage's views, those which may have its score.
            bar = self._rounding.bar(self._best_of(owners, questions, products), questions)
            near = np.flatnonzero(products >= bar)
            numbers, questions, owners = numbers.take(near), questions.take(near), owners.take(near)
        rows = part.rows.take(numbers)
        scores = score_rows(self._views, rows, self._queries, questions)
        near = scores >= self._bar.take(questions)
        self._seen, self._kept = self._seen + len(near), self._kept + int(np.count_nonzero(near))
        if several:
            near &= scores == self._best_of(owners, questions, scores)
        near = np.flatnonzero(near)
        columns = questions, rows, part.passages.take(owners), scores
        self._columns.append(*(column.take(near) for column in columns))
        if len(self._columns) > self._sifted + self._between:
            self._sift()
            if len(self._columns) > self._most:
                self._cut()

    def _best_of(self, owners: np.ndarray, questions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Returns the highest of the `values` [n] of the same owner and question, for each of them [n]."""
        pairs = owners * len(self._bar) + questions
        highest = np.full((owners.max(initial=0) + 1) * len(self._bar), -np.inf, values.dtype)
        np.maximum.at(highest, pairs, values)
        return highest.take(pairs)

    @property
    def crowded(self) -> bool:
        """Whether far more views were scored than reached the bar, which products that round less would have left out."""
        return self._seen > CROWDED * (self._kept + self._k * len(self._bar))

    def _sift(self) -> None:
        """Keeps the first best view of each passage, if the passage is among the k best so far or ties with the last."""
        filled = self._columns.filled
        order = by_question(filled[0])
        questions, scores = filled[0].take(order), filled[3].take(order)
        if self._several:
            first = first_best(questions, filled[2].take(order), scores)
            order, questions, scores = order.take(first), questions.take(first), scores.take(first)
        counts = np.bincount(questions, minlength=len(self._bar))
        if counts.max() > self._k + WIDER * len(order) // len(counts):
            kept = self._without_wide_rows(counts, filled[2].take(order), scores)
            order, questions, scores = order.take(kept), questions.take(kept), scores.take(kept)
        lowest = kth_highest(questions, scores, self._k, len(self._bar))
        order = order.take(np.flatnonzero(scores >= lowest.take(questions)))
        self._columns.replace(*(column.take(order) for column in filled))
        self._sifted = len(self._columns)
        # Rounded down, so that the score itself reaches it.
        below = np.nextafter(lowest.astype(np.float32), np.float32(-np.inf))
        self._bar = np.maximum(self._bar, below)

    def _without_wide_rows(self, counts: np.ndarray, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Returns the positions of all proposals, but of the k best alone where a question has far more than others.

        `counts` [q] are the numbers of proposals; the `passages` [n] and `scores` [n] of each question follow each other.
        """
        kept, stops = np.ones(len(scores), bool), np.cumsum(counts)
        for question in np.flatnonzero(counts > self._k + WIDER * len(scores) // len(counts)).tolist():
            first, stop = int(stops[question] - counts[question]), int(stops[question])
            best = best_first(scores[first:stop], self._tie_order[passages[first:stop]])[: self._k]
            kept[first:stop] = False
            kept[first + best] = True
        return np.flatnonzero(kept)

    def _cut(self) -> None:
        """Keeps the k best passages so far, where many more tie."""
        best = self.best()
        questions, ranks = np.nonzero(best.passages >= 0)
        rows = best.rows[questions, ranks]
        order = np.lexsort((rows, questions))
        columns = questions, rows, best.passages[questions, ranks], best.scores[questions, ranks]
        self._columns.replace(*(column[order] for column in columns))
        self._sifted = len(order)

    def best(self) -> Best:
        """Returns each question's k best passages."""
        self._sift()
        questions, rows, passages, scores = self._columns.filled
        table, starts = by_rows(questions, scores, len(self._bar))
        order = np.argsort(-table, axis=1)
        ordered = np.take_along_axis(table, order, axis=1)
        tied = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & np.isfinite(ordered[:, 1:])).any(axis=1))
        if len(tied):
            ties, _ = by_rows(questions, self._tie_order[passages], len(self._bar))
            order[tied] = best_first(table[tied], ties[tied])
        order = order[:, : self._k]
        found = np.take_along_axis(table, order, axis=1)
        real = np.isfinite(found)
        at = np.where(real, starts[:, None] + order, 0)
        rows, passages = (np.where(real, column[at] if len(column) else 0, -1) for column in (rows, passages))
        return Best(rows, passages, found)

    def above_floor(self, best: Best) -> np.ndarray:
        """Returns whether each question's k best passages have scores not below the floor [q] bool, so that all views that
        can be among them were proposed."""
        if self._floor is None:
            return np.ones(len(self._bar), bool)
        if best.scores.shape[1] < self._k:
            return np.isneginf(self._floor)
        return best.scores[:, -1] >= self._floor


class Best(NamedTuple):
    """The best passages of some questions, best first [q, at most k]; -1 and -inf where a question has fewer."""

    rows: np.ndarray
    """Row of the passage's first best view."""
    passages: np.ndarray
    scores: np.ndarray
    """float64."""


def by_rows(
    questions: np.ndarray, values: np.ndarray, count: int, least: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of each of `count` questions as a row [count, at least `least`], and where its values begin [count].

    `questions` [n] rise. Rows end with -inf where a question has fewer values than others.

    >>> by_rows(np.array([0, 0, 0, 2]), np.array([3.0, 9.0, 5.0, 1.0]), 3)
    (array([[  3.,   9.,   5.],
           [-inf, -inf, -inf],
           [  1., -inf, -inf]]), array([0, 3, 3]))
    """
    counts = np.bincount(questions, minlength=count)
    starts = np.cumsum(counts) - counts
    table = np.full((count, max(least, counts.max())), -np.inf)
    table.ravel()[
        np.arange(len(questions)) + np.repeat(np.arange(count) * table.shape[1] - starts, counts)
    ] = values
    return table, starts


def kth_highest(questions: np.ndarray, scores: np.ndarray, k: int, count: int) -> np.ndarray:
    """Returns the k-th highest score of each of `count` questions [count], -inf for one with fewer (see `by_rows`)."""
    table, _ = by_rows(questions, scores, count, k)
    at = table.shape[1] - k
    table.partition(at, axis=1)
    return table[:, at]
