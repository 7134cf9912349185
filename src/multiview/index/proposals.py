"""Views that can be among the best of some questions: proposed by their products, ranked by their scores in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from multiview.data.ranges import stable_order
from multiview.index.columns import Columns
from multiview.index.kernels import Kernel
from multiview.index.products import Block, Highest, reaching
from multiview.index.ranking import Ties, best_first, first_best, passage_runs
from multiview.index.stored_views import score_rows
from multiview.index.streamed_views import Matrix

CROWDED = 4
"""Number of proposed views per view whose product reaches the floor, on top of k per question, from which on products are
too coarse. Only speed depends on it."""

FEW = 1 << 14
"""Number of proposed views for which no products are too coarse: they are soon scored."""

WIDER = 4
"""A question with more than k and so many times as many proposals as the mean is not in a table with the others. Memory
depends on it."""


class Proposals:
    """The views seen so far that can be among the best of some questions.

    A view is proposed if its product allows a score as high as that of the k-th best passage so far (see
    `multiview.index.rounding.Rounding`), and scored by `score`, at the latest after the last view, if it still does. A
    `floor` says beforehand which scores to look for.
    """

    def __init__(
        self,
        views: Matrix,
        tie_order: Ties,
        queries: np.ndarray,
        k: int,
        held: int,
        kernel: Kernel,
        floor: np.ndarray | None = None,
    ) -> None:
        """For the k best of each of `queries` [q, dim] float32 among `views` [v, dim] float16; `tie_order` orders passages
        of one score (see `multiview.index.ranking`).

        `kernel` multiplies: products differ from scores as its rounding says. Views with scores below `floor` [q] float32 are left out, by
        default none. When more than `held` views and twice k per question are proposed, they are sifted.
        """
        self._views, self._tie_order = views, tie_order
        self._queries = queries.astype(np.float64)
        self._k, self._kernel, self._floor = k, kernel, floor
        self._bar = np.full(len(queries), -np.inf, np.float32) if floor is None else floor
        """The score that a view must reach to be proposed for each question [q]: at most the k-th best so far, or the floor."""
        self._most = held + 2 * len(queries) * k
        self._between = len(queries) * k // 4 if floor is None else self._most
        """Number of proposed views between two siftings: few without a floor, because sifting raises the bar."""
        self._columns = Columns(
            self._most, np.min_scalar_type(len(queries)), np.int64, np.int64, np.float32, np.float64
        )
        """Questions, rows, passages, products and scores of the proposed views, by rising rows, then questions; scores are
        NaN until they are computed."""
        self._several = False
        """Whether a passage may be proposed with several views."""
        self._sifted = 0
        """Number of proposed views after the last sifting."""
        self._seen = self._high = 0
        """Number of views proposed, and of those whose products reach the floor. Without one: of those left by the last
        sifting, and none."""

    def add(self, block: Block, first: int, stop: int | None) -> None:
        """Proposes views of a block, as if passages had their views [first, stop) alone."""
        part = block.part(first, stop)
        if not len(part.passages):
            return
        if not np.isfinite(self._bar).all():
            highest = Highest(self._k)
            highest.add(part.best())
            self._bar = np.maximum(self._bar, self._kernel.rounding.least(highest.lowest(len(self._bar))))
        numbers, questions, products = reaching(part.products, self._kernel.rounding.lowest(self._bar))
        owners = numbers
        if len(part.counts) < len(part.rows):
            self._several = True
            owners = np.repeat(np.arange(len(part.counts)), part.counts).take(numbers)
            # Of a passage's views, those which may have its score.
            bar = self._kernel.rounding.bar(self._best_of(owners, questions, products), questions)
            near = np.flatnonzero(products >= bar)
            columns = numbers, questions, owners, products
            numbers, questions, owners, products = (column.take(near) for column in columns)
        if self._floor is not None:
            self._seen += len(products)
            self._high += int(np.count_nonzero(products >= self._floor.take(questions)))
        self._columns.append(questions, part.rows.take(numbers), part.passages.take(owners), products, np.nan)
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
        """Whether products are so coarse that far more views were proposed than are likely to reach the bar."""
        return self._seen > max(FEW, CROWDED * (self._high + self._k * len(self._bar)))

    def _sift(self) -> None:
        """Keeps the views whose products allow a score as high as that of the k-th best passage so far."""
        questions, _, passages, products, _ = self._columns.filled
        order = stable_order(questions)
        asked, best = questions.take(order), products.take(order)
        if self._several and len(order):
            starts, _ = passage_runs(asked, passages.take(order))
            asked, best = asked.take(starts), np.maximum.reduceat(best, starts)
        lowest = kth_highest(asked, best, self._k, len(self._bar))
        self._bar = np.maximum(self._bar, self._kernel.rounding.least(lowest))
        kept = np.flatnonzero(products >= self._kernel.rounding.lowest(self._bar).take(questions))
        if self._floor is None:
            self._seen = len(kept)
        self._columns.replace(*(column.take(kept) for column in self._columns.filled))
        self._sifted = len(kept)

    def score(self) -> None:
        """Scores the proposed views that can still be among the best, those that were not scored before.

        To be called while the views that were multiplied last are still in memory, where not all of them fit.
        """
        self._sift()
        questions, rows, _, _, scores = self._columns.filled
        new = np.flatnonzero(np.isnan(scores))
        asked = questions.take(new).astype(np.int64)  # torch's sparse tensors have no smaller whole numbers
        scores[new] = score_rows(self._views, rows.take(new), self._queries, asked)

    def _cut(self) -> None:
        """Keeps the k best passages so far, where the products of many more allow their scores."""
        best = self.best()
        if best.scores.shape[1] == self._k:
            # Rounded down, so that the score itself reaches it.
            below = np.nextafter(best.scores[:, -1].astype(np.float32), np.float32(-np.inf))
            self._bar = np.maximum(self._bar, below)
        questions, ranks = np.nonzero(best.passages >= 0)
        rows = best.rows[questions, ranks]
        order = np.lexsort((questions, rows))
        # A score is a product, too, as near to it as any.
        scores = best.scores[questions, ranks]
        columns = questions, rows, best.passages[questions, ranks], scores, scores
        self._columns.replace(*(column[order] for column in columns))
        self._sifted = len(order)

    def best(self) -> Best:
        """Returns each question's k best passages."""
        self.score()
        questions, rows, passages, _, scores = self._columns.filled
        by_question = stable_order(questions)
        if self._several:
            sorted_columns = (column.take(by_question) for column in (questions, passages, scores))
            by_question = by_question.take(first_best(*sorted_columns))
        by_question = self._without_wide(questions, passages, scores, by_question)
        asked = questions.take(by_question)
        table, starts = by_rows(asked, scores.take(by_question), len(self._bar))
        # By float32, in half the time; rows in which that makes scores equal, by float64.
        with np.errstate(over="ignore"):
            order = np.argsort(-table.astype(np.float32), axis=1)[:, : self._k + 1]
            found = np.take_along_axis(table, order, axis=1)
            near = _with_equals(found, np.float32)
        order[near] = np.argsort(-table[near], axis=1)[:, : self._k + 1]
        found[near] = np.take_along_axis(table[near], order[near], axis=1)
        tied = _with_equals(found, np.float64)
        if len(tied):
            positions = self._tie_order[passages.take(by_question)].astype(np.float64)
            ties, _ = by_rows(asked, positions, len(self._bar))
            order[tied] = best_first(table[tied], ties[tied])[:, : self._k + 1]
        order, found = order[:, : self._k], found[:, : self._k]
        real = np.isfinite(found)
        if len(by_question):
            at = by_question.take(np.where(real, starts[:, None] + order, 0))
            return Best(np.where(real, rows.take(at), -1), np.where(real, passages.take(at), -1), found)
        none = np.full(found.shape, -1)
        return Best(none, none, found)

    def _without_wide(
        self, questions: np.ndarray, passages: np.ndarray, scores: np.ndarray, order: np.ndarray
    ) -> np.ndarray:
        """Returns `order`, which is by question, but of the k best alone where a question has far more proposals than others."""
        kept = np.ones(len(order), bool)
        for _, of_question in wide(questions.take(order), self._k, len(self._bar)):
            own = order[of_question]
            best = best_first(scores[own], self._tie_order[passages[own]])[: self._k]
            kept[of_question] = False
            kept[of_question.start + best] = True
        return order if kept.all() else order[kept]

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


def _with_equals(found: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    """Returns the rows of `found` [q, n] with neighbours that are equal in `dtype`; -inf is for no score."""
    rounded = found.astype(dtype, copy=False)
    equal = (rounded[:, 1:] == rounded[:, :-1]) & np.isfinite(found[:, 1:])
    return np.flatnonzero(equal.any(axis=1))


def by_rows(
    questions: np.ndarray, values: np.ndarray, count: int, least: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of each of `count` questions as a row [count, at least `least`], and where its values begin [count].

    `questions` [n] rise. Rows end with -inf where a question has fewer values than others; `values` [n] are floats.

    >>> by_rows(np.array([0, 0, 0, 2]), np.array([3.0, 9.0, 5.0, 1.0]), 3)
    (array([[  3.,   9.,   5.],
           [-inf, -inf, -inf],
           [  1., -inf, -inf]]), array([0, 3, 3]))
    """
    counts = np.bincount(questions, minlength=count)
    starts = np.cumsum(counts) - counts
    table = np.full((count, max(least, counts.max())), -np.inf, values.dtype)
    table.ravel()[
        np.arange(len(questions)) + np.repeat(np.arange(count) * table.shape[1] - starts, counts)
    ] = values
    return table, starts


def kth_highest(questions: np.ndarray, values: np.ndarray, k: int, count: int) -> np.ndarray:
    """Returns the k-th highest value of each of `count` questions [count], -inf for one with fewer (see `by_rows`)."""
    lowest = np.full(count, -np.inf, values.dtype)
    usual = np.ones(len(values), bool)
    for question, of_question in wide(questions, k, count):
        own = values[of_question]
        lowest[question] = np.partition(own, len(own) - k)[len(own) - k]
        usual[of_question] = False
    if not usual.all():
        questions, values = questions[usual], values[usual]
    table, _ = by_rows(questions, values, count, k)
    at = table.shape[1] - k
    table.partition(at, axis=1)
    return np.maximum(lowest, table[:, at])


def wide(questions: np.ndarray, k: int, count: int) -> Iterator[tuple[int, slice]]:
    """Yields the questions with far more than k of the rows [n], and where their rows are (see `WIDER`)."""
    counts = np.bincount(questions, minlength=count)
    stops = np.cumsum(counts)
    for question in np.flatnonzero(counts > k + WIDER * len(questions) // count).tolist():
        yield question, slice(int(stops[question] - counts[question]), int(stops[question]))
