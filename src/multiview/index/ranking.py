"""Rankings of passages: the best of each question, and the order of passages that tie."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.arrays import numbers

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)


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
    def empty(cls, questions: int, k: int, exact: bool = True) -> Self:
        """Returns a result of padding rows, to be filled in."""
        padding = (-1, np.int64), (-np.inf, np.float32), (-1, np.int32)
        return cls(*(np.full((questions, k), value, dtype) for value, dtype in padding), exact=exact)

    def put(self, question: int, passages: np.ndarray, scores: np.ndarray, views: np.ndarray | int) -> None:
        """Puts a question's passages, best first, with their scores and winning views, into its row."""
        row = question, slice(len(passages))
        self.passages[row], self.scores[row], self.winning_views[row] = passages, scores, views

    def hits(self, question: int) -> list[tuple[int, float, int]]:
        """Returns (passage row, score, winning view) of each of a question's passages, best first, without padding."""
        real = self.passages[question] >= 0
        columns = (self.passages, self.scores, self.winning_views)
        return list(zip(*(column[question][real].tolist() for column in columns), strict=True))


def width(k: int, passages: int) -> int:
    """Returns the number of columns of a result: k hits, but no more than `passages`; at least one.

    >>> width(10, 3), width(10, 0)
    (3, 1)
    """
    return min(k, max(1, passages))


class TieOrder:
    """The position of each id in string order, by code point, which breaks ties between passages. The ids are not sorted
    before a position is asked for: most searches find no ties.

    >>> TieOrder(pa.array(["b", "c", "a"]))[np.array([0, 2])].tolist()
    [1, 0]
    """

    def __init__(self, ids: pa.Array) -> None:
        self._ids = ids

    def sort(self) -> None:
        """Sorts the ids now, so that no search waits for it."""
        _ = self._positions

    @cached_property
    def _positions(self) -> np.ndarray:
        sorted_rows = numbers(pc.call_function("array_sort_indices", [self._ids]))
        positions = np.empty(len(self._ids), np.int64)
        positions[sorted_rows] = np.arange(len(self._ids))
        return positions

    def __getitem__(self, passages: np.ndarray) -> np.ndarray:
        return self._positions[passages]


Ties: TypeAlias = np.ndarray | TieOrder
"""Position of each passage in the order of passages that tie, by its row."""


def finite_questions(queries: np.ndarray, k: int) -> np.ndarray:
    """Returns the vectors of questions as float32. Raises ValueError for a k below 1 and for vectors that are not finite."""
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise ValueError("a question's vector holds a value that is not finite")
    return queries


def best_first(scores: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Returns the order of the last axis by descending score, then by ascending `ties`, the passages' `Ties`. Both have
    the same shape."""
    return np.lexsort((ties, -scores))
