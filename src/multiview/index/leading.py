"""Rankings by the first views of passages, merged from rankings by each of these views alone.

A passage that is among the k best by its first n views, because of the i-th of them, is among the k best by its i-th
view alone: a passage that is better by that view, or ties and has the smaller id, is so by its first n views, too. So
no views are multiplied and compared again for every n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from multiview.data.ranges import stable_order
from multiview.index.products import ViewRange
from multiview.index.ranking import Ties, TopPassages, best_first
from multiview.index.stored_views import StoredViews, score_rows


def searched(ranges: Sequence[ViewRange]) -> list[ViewRange]:
    """Returns the ranges to search for: those of `ranges`, or each view alone in place of first views, where these are
    no more.

    >>> searched([(0, 1), (0, 2), (0, 3)])
    [(0, 1), (1, 2), (2, 3)]
    >>> searched([(0, None), (0, 5)])
    [(0, None), (0, 5)]
    """
    asked = dict.fromkeys(ranges)
    several = {each for each in asked if each[0] == 0 and (each[1] or 0) > 1}
    alone = [(view, view + 1) for view in range(max((stop or 0 for _, stop in several), default=0))]
    if sum(each not in asked for each in alone) > len(several):
        return list(asked)
    return list(dict.fromkeys([*(each for each in asked if each not in several), *alone]))


def with_first_views(
    tops: Mapping[ViewRange, TopPassages],
    ranges: Sequence[ViewRange],
    stored: StoredViews,
    offsets: np.ndarray,
    tie_order: Ties,
    queries: np.ndarray,
) -> list[TopPassages]:
    """Returns the rankings by `ranges`, from those by the ranges that `searched` names.

    Those by first views are equal to what a search by them finds, to the bit. `stored`, `offsets`, `tie_order` and
    `queries` are what was searched (see `multiview.index.exact.top_passages_by`).
    """
    most = max((stop or 0 for first, stop in ranges if (first, stop) not in tops), default=0)
    alone = [tops[view, view + 1] for view in range(most)]
    scored = _scored(alone, stored, offsets, queries) if alone else []
    merged = accumulate(scored, lambda best, more: _best_of(best, more, tie_order))
    by_range = {(0, n): best.top for n, best in enumerate(merged, 1)} | dict(tops)
    return [by_range[each] for each in ranges]


@dataclass(frozen=True)
class _Scored:
    """The best passages of each question [q, k], best first, with scores by which those of other views can be compared."""

    passages: np.ndarray
    scores: np.ndarray
    """float64: the float32 of the ranking, or the score itself where another candidate has the same float32."""
    views: np.ndarray

    @property
    def top(self) -> TopPassages:
        return TopPassages(self.passages, self.scores.astype(np.float32), self.views)


def _best_of(best: _Scored, more: _Scored, tie_order: Ties) -> _Scored:
    """Merges the ranking by some views with that by a later view: each passage has its better score, and the earlier
    view where both are equal."""
    pairs = ((best.passages, more.passages), (best.scores, more.scores), (best.views, more.views))
    passages, scores, views = (np.concatenate(pair, axis=1) for pair in pairs)
    order = np.argsort(passages, axis=1, kind="stable")  # the earlier view comes first
    twice = np.diff(np.take_along_axis(passages, order, axis=1), axis=1) == 0
    rows, columns = np.nonzero(twice)
    earlier, later = order[rows, columns], order[rows, columns + 1]
    worse = np.where(scores[rows, later] > scores[rows, earlier], earlier, later)
    passages[rows, worse], scores[rows, worse], views[rows, worse] = -1, -np.inf, -1
    order = best_first(scores, tie_order[passages])[:, : best.passages.shape[1]]
    return _Scored(*(np.take_along_axis(column, order, axis=1) for column in (passages, scores, views)))


def _scored(
    alone: Sequence[TopPassages], stored: StoredViews, offsets: np.ndarray, queries: np.ndarray
) -> list[_Scored]:
    """Returns the rankings with scores that order all of them as float64 does.

    Rounded to float32, scores keep their order unless they become equal. So only those that did are computed again.
    """
    passages, rounded, views = (
        np.concatenate(columns, axis=1)
        for columns in zip(*((top.passages, top.scores, top.winning_views) for top in alone), strict=True)
    )
    order = np.argsort(rounded, axis=1)
    ordered = np.take_along_axis(rounded, order, axis=1)
    equal = ordered[:, 1:] == ordered[:, :-1]
    tied = np.zeros(rounded.shape, bool)
    tied[:, 1:] |= equal
    tied[:, :-1] |= equal
    tied &= np.take_along_axis(passages, order, axis=1) >= 0
    scores = rounded.astype(np.float64)
    questions, places = np.nonzero(tied)
    columns = order[questions, places]
    rows = offsets[passages[questions, columns]] + views[questions, columns]
    by_row = stable_order(rows)
    questions, columns = questions[by_row], columns[by_row]
    scores[questions, columns] = score_rows(
        stored.matrix, rows[by_row], queries.astype(np.float64), questions
    )
    parts = (np.split(column, len(alone), axis=1) for column in (passages, scores, views))
    return [_Scored(*part) for part in zip(*parts, strict=True)]
