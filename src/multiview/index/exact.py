"""Exact top-k passages over stored views: a product, a maximum and a top-k, in one pass.

A passage's score is the max over its views' scores. Views are read once, block by block. Products in float32 propose
the views that can be among the best; each of these is scored again in float64. So passages, their order and their
scores are those of a brute-force search in float64, whatever the block, the number of threads or the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multiview.index.ranking import TopPassages, best_first
from multiview.index.stored_views import passages_of_views

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_BYTES = 8 << 20
"""Size of the block of views in float32 that is multiplied at once. Only speed depends on it."""

SCORES_BYTES = 64 << 20
"""Size of the products that are ranked at once. Memory and speed depend on it, results do not."""

QUESTIONS_AT_ONCE = 256
"""Number of questions that share a pass over the views. Memory and speed depend on it, results do not."""

NORMS_AT_ONCE = 4096
"""Number of views whose lengths are measured at once."""

PROPOSED_AT_ONCE = 1 << 18
"""Number of proposed views, besides twice k per question, that are held before they are scored again."""


ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)


def top_passages(
    views: np.ndarray,
    offsets: np.ndarray,
    tie_order: np.ndarray,
    queries: np.ndarray,
    k: int,
    *,
    longest: float | None = None,
    report_done: Callable[[int], None] = lambda done: None,
) -> TopPassages:
    """Returns the k passages with the highest max over all their views (see `top_passages_by`)."""
    return top_passages_by(
        views, offsets, tie_order, queries, k, [ALL_VIEWS], longest=longest, report_done=report_done
    )[0]


def top_passages_by(
    views: np.ndarray,
    offsets: np.ndarray,
    tie_order: np.ndarray,
    queries: np.ndarray,
    k: int,
    ranges: Sequence[ViewRange],
    *,
    longest: float | None = None,
    report_done: Callable[[int], None] = lambda done: None,
) -> list[TopPassages]:
    """Returns the k passages with the highest max over a range of their views, for each of `ranges`, in one pass.

    `views` [v, dim] float16 may be memory-mapped; `offsets` [p] int64 is the row of each passage's first view, ascending;
    `tie_order` [p] is the position of each passage's id in string order: of passages that tie, the one with the smaller
    id comes first. `queries` [q, dim] float32. `longest` is the largest Euclidean norm of a view, and is computed where
    it is not given. `report_done` is called with the number of questions done. Passages without a view in a range are
    not found by it. Raises ValueError for a k below 1 and for vectors that are not finite.

    Let e = γ |q| |v|, with γ = dim u / (1 - dim u) and u = 2^-24, bound the rounding of a product in float32. Once k
    passages are known, the k-th with score s, no view whose product is below s - e can change the answer.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise ValueError("a question's vector holds a value that is not finite")
    tops = [TopPassages.empty(len(queries), k) for _ in ranges]
    if not len(views):
        return tops
    longest = longest_view(views) if longest is None else longest
    for start in range(0, len(queries), QUESTIONS_AT_ONCE):
        chunk = queries[start : start + QUESTIONS_AT_ONCE]
        found = [_Found(views, offsets, tie_order, chunk, min(k, len(offsets)), longest) for _ in ranges]
        for rows, products in _products(views, offsets, chunk):
            passages = passages_of_views(rows, offsets)
            view_numbers = rows - offsets[passages]
            for best, (low, high) in zip(found, ranges, strict=True):
                if (low, high) == ALL_VIEWS:
                    best.add(products, rows, passages)
                    continue
                chosen = np.flatnonzero((view_numbers >= low) & (view_numbers < (high or np.inf)))
                best.add(products[chosen], rows[chosen], passages[chosen])
        for best, top in zip(found, tops, strict=True):
            best.write(top, start)
        report_done(min(start + QUESTIONS_AT_ONCE, len(queries)))
    return tops


def longest_view(views: np.ndarray) -> float:
    """Returns the largest Euclidean norm of `views` [v, dim], 0 without views; they are read once, block by block."""
    squares = (
        _tensor(views[start : start + NORMS_AT_ONCE]).double().square().sum(dim=1).max().item()
        for start in range(0, len(views), NORMS_AT_ONCE)
    )
    return math.sqrt(max(squares, default=0.0))


def _products(
    views: np.ndarray, offsets: np.ndarray, queries: np.ndarray
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yields rows of views [n], all views of some passages, with their products with `queries` [n, q] float32.

    The next products overwrite these.
    """
    import torch

    dim, matrix = views.shape[1], torch.from_numpy(queries).T.contiguous()
    block_rows = max(1, BLOCK_BYTES // (4 * dim))
    bounds = _bounds(offsets, len(views), max(block_rows, SCORES_BYTES // (4 * len(queries))))
    rows = int(np.diff(bounds).max())
    buffer, products = torch.empty(min(block_rows, rows), dim), torch.empty(rows, len(queries))
    for first, stop in pairwise(bounds):
        for start in range(first, stop, len(buffer)):
            part = _tensor(views[start : min(start + len(buffer), stop)])
            block = buffer[: len(part)].copy_(part)
            torch.mm(block, matrix, out=products[start - first : start - first + len(part)])
        yield np.arange(first, stop), products[: stop - first]


def _bounds(offsets: np.ndarray, views: int, rows: int) -> list[int]:
    """Returns bounds from 0 to `views`, at most about `rows` apart; all but the last are first views of passages.

    A passage with more views than `rows` is a block by itself.
    """
    bounds = [0]
    while bounds[-1] < views:
        passage = np.searchsorted(offsets, bounds[-1] + rows, side="right") - 1
        if offsets[passage] <= bounds[-1]:
            passage = np.searchsorted(offsets, bounds[-1], side="right")
        reached = bounds[-1] + rows >= views or passage == len(offsets)
        bounds.append(views if reached else int(offsets[passage]))
    return bounds


def _tensor(array: np.ndarray) -> Tensor:
    """The array as a tensor over the same memory, which is only read."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of memory that is mapped read-only
        return torch.from_numpy(array)


class _Found:
    """The best passages of some questions among the views seen so far."""

    def __init__(
        self,
        views: np.ndarray,
        offsets: np.ndarray,
        tie_order: np.ndarray,
        queries: np.ndarray,
        k: int,
        longest: float,
    ) -> None:
        self._views, self._offsets, self._tie_order, self._k = views, offsets, tie_order, k
        self._queries = queries.astype(np.float64)
        dim = queries.shape[1]
        gamma = dim * 2.0**-24 / (1 - dim * 2.0**-24)
        # Twice the bound, because the products that are compared are both rounded, and the rounding of the bar itself.
        self._margin = (
            2 * (gamma + 2.0**-23) * longest * np.linalg.norm(self._queries, axis=1) * (1 + 1e-6)
        ).astype(np.float32)
        self._best = np.full((len(queries), k), -np.inf, np.float32)
        """The k highest products of passages [q, k], the lowest last."""
        self._proposed = [(no_rows := np.empty(0, np.int64), no_rows, no_rows, np.empty(0, np.float32))]
        """Questions, rows, passages and products of views that may be among the best."""

    def add(self, products: Tensor, rows: np.ndarray, passages: np.ndarray) -> None:
        """Proposes views by their `products` [n, q] float32, with their `rows` [n], ascending, and `passages` [n]."""
        import torch

        if not len(rows):
            return
        # Of each view, the position of its passage among the passages here.
        number = torch.from_numpy(np.cumsum(np.diff(passages, prepend=passages[0]) > 0))
        best = torch.full((int(number[-1]) + 1, products.shape[1]), -torch.inf)
        best.scatter_reduce_(0, number[:, None].expand_as(products), products, "amax")
        known = torch.cat([torch.from_numpy(self._best), best.T], dim=1)
        self._best = known.topk(self._k).values.numpy()
        proposals = np.flatnonzero((products >= torch.from_numpy(self._bar)).numpy())
        views, questions = np.divmod(proposals, products.shape[1])
        proposed = products.numpy()[views, questions]
        passage_best = best.numpy()[number.numpy()[views], questions]
        near = proposed >= passage_best - self._margin[questions]
        views = views[near]
        self._proposed.append((questions[near], rows[views], passages[views], proposed[near]))
        if sum(len(part[0]) for part in self._proposed) > PROPOSED_AT_ONCE + 2 * self._best.size:
            self._settle()

    @property
    def _bar(self) -> np.ndarray:
        """The product that a view must reach to be among the best of each question [q] float32."""
        return self._best[:, -1] - self._margin

    def _settle(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Returns the views of each question's k best passages, their passages and their scores [k] float64, best first."""
        questions, rows, passages, products = (
            np.concatenate(column) for column in zip(*self._proposed, strict=True)
        )
        order = np.flatnonzero(products >= self._bar[questions])
        order = order[np.argsort(questions[order], kind="stable")]
        bounds = np.searchsorted(questions[order], np.arange(len(self._queries) + 1))
        kept, best_views = [], []
        for question, query in enumerate(self._queries):
            proposed = order[bounds[question] : bounds[question + 1]]
            scores = _exact_scores(self._views, rows[proposed], query)
            best = self._rank(rows[proposed], passages[proposed], scores)[: self._k]
            chosen = proposed[best]
            kept.append(chosen)
            best_views.append((rows[chosen], passages[chosen], scores[best]))
        kept = np.concatenate(kept)
        self._proposed = [(questions[kept], rows[kept], passages[kept], products[kept])]
        return best_views

    def _rank(self, rows: np.ndarray, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Positions of the first best view of each passage, best passage first, ties by `tie_order`."""
        order = best_first(scores, self._tie_order[passages], rows)
        _, first = np.unique(passages[order], return_index=True)
        return order[np.sort(first)]

    def write(self, top: TopPassages, start: int) -> None:
        """Writes the best passages into the rows of `top` from `start` on."""
        for question, (rows, passages, scores) in enumerate(self._settle(), start):
            top.passages[question, : len(rows)] = passages
            top.scores[question, : len(rows)] = scores
            top.winning_views[question, : len(rows)] = rows - self._offsets[passages]


def _exact_scores(views: np.ndarray, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Returns the scores of views [n] float64; the order of each sum is the same whatever the other views."""
    return np.einsum("nd,d->n", _tensor(views[rows]).double().numpy(), query)
