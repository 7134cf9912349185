"""Exact top-k passages over stored views: a product, a maximum and a top-k, in one pass.

A passage's score is the max over its views' scores. Views are read once, block by block. Products in float32 propose
the views that can be among the best; each of these is scored again in float64. So passages, their order and their
scores are those of a brute-force search in float64, whatever the block, the number of threads, the processor or GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from multiview.index.columns import Columns
from multiview.index.products import Block, blocks, highest, picked, positions, tensor
from multiview.index.ranking import TopPassages, best_first

QUESTIONS_AT_ONCE = 512
"""Number of questions that share a pass over the views. Memory and speed depend on it, results do not."""

GPU_QUESTIONS_AT_ONCE = 4096
"""The same number on a GPU, which multiplies faster than views are read."""

NORMS_AT_ONCE = 4096
"""Number of views whose lengths are measured at once."""

PROPOSED_AT_ONCE = 1 << 18
"""Number of proposed views, of all ranges and besides twice k per question, that are held before they are sifted."""


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
    among: np.ndarray | None = None,
    longest: float | None = None,
    device: str = "cpu",
    report_done: Callable[[int], None] = lambda done: None,
) -> TopPassages:
    """Returns the k passages with the highest max over all their views (see `top_passages_by`)."""
    return top_passages_by(
        views,
        offsets,
        tie_order,
        queries,
        k,
        [ALL_VIEWS],
        among=among,
        longest=longest,
        device=device,
        report_done=report_done,
    )[0]


def top_passages_by(
    views: np.ndarray,
    offsets: np.ndarray,
    tie_order: np.ndarray,
    queries: np.ndarray,
    k: int,
    ranges: Sequence[ViewRange],
    *,
    among: np.ndarray | None = None,
    longest: float | None = None,
    device: str = "cpu",
    report_done: Callable[[int], None] = lambda done: None,
) -> list[TopPassages]:
    """Returns the k passages with the highest max over a range of their views, for each of `ranges`, in one pass.

    `views` [v, dim] float16 may be memory-mapped; `offsets` [p] int64 is the row of each passage's first view, ascending;
    `tie_order` [p] is the position of each passage's id in string order: of passages that tie, the one with the smaller
    id comes first. `queries` [q, dim] float32. With `among` [p] bool, only its passages are found. `longest` is the largest Euclidean norm of a view, and is computed where
    it is not given. `device` multiplies, as torch names it; the result is the same to the bit. `report_done` is called
    with the number of questions done. Passages without a view in a range are not found by it. Raises ValueError for a k
    below 1 and for vectors that are not finite.

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
    import torch

    views = np.asarray(views)  # the memory of a mapped file, without the cost of `np.memmap` per access
    longest = longest_view(views) if longest is None else longest
    at_once = QUESTIONS_AT_ONCE if device == "cpu" else GPU_QUESTIONS_AT_ONCE
    for start in range(0, len(queries), at_once):
        chunk = queries[start : start + at_once]
        held = PROPOSED_AT_ONCE // max(1, len(ranges))
        room = min(k, max(1, len(offsets) if among is None else int(among.sum())))
        found = [_Found(views, offsets, tie_order, chunk, room, longest, held) for _ in ranges]
        for block in blocks(views, offsets, chunk, torch.device(device), among):
            for best, view_range in zip(found, ranges, strict=True):
                best.add(block, view_range)
        for best, top in zip(found, tops, strict=True):
            best.write(top, start)
        report_done(min(start + at_once, len(queries)))
    return tops


def longest_view(views: np.ndarray) -> float:
    """Returns the largest Euclidean norm of `views` [v, dim], 0 without views; they are read once, block by block."""
    squares = (
        tensor(views[start : start + NORMS_AT_ONCE]).double().square().sum(dim=1).max().item()
        for start in range(0, len(views), NORMS_AT_ONCE)
    )
    return math.sqrt(max(squares, default=0.0))


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
        held: int,
    ) -> None:
        """At most `held` views and twice k per question are proposed before they are sifted."""
        self._views, self._offsets, self._tie_order, self._k = views, offsets, tie_order, k
        self._most = held + 2 * len(queries) * k
        self._queries = queries.astype(np.float64)
        dim = queries.shape[1]
        gamma = dim * 2.0**-24 / (1 - dim * 2.0**-24)
        # Twice the bound, because the products that are compared are both rounded, and the rounding of the bar itself.
        margin = 2 * (gamma + 2.0**-23) * longest * np.linalg.norm(self._queries, axis=1) * (1 + 1e-6)
        self._margin = margin.astype(np.float32)
        self._best = np.full((len(queries), k), -np.inf, np.float32)
        """The k highest products of passages [q, k], the lowest first."""
        self._more = Columns(self._best.size, np.int64, np.float32)
        """Questions and products of passages that may be among these, but are not yet."""
        self._proposed = Columns(self._most, np.int64, np.int64, np.int64, np.float32)
        """Questions, rows, passages and products of views that may be among the best."""

    def add(self, block: Block, view_range: ViewRange) -> None:
        """Proposes views of a block, as if passages had those of `view_range` alone."""
        passages, starts, counts = block.passages(*view_range)
        if not len(passages):
            return
        best = block.best(starts, counts)
        known = np.isfinite(self._best[:, 0]).all()
        if not known:
            self._best = highest(self._best, best)
        numbers, questions = positions(best, self._bar)
        products = picked(best, numbers, questions)
        if known:
            self._more.append(questions, products)
            if len(self._more) > self._best.size // 4:
                self._raise_bar()
        lowest = np.maximum(products - self._margin[questions], self._bar[questions])
        reaching = np.flatnonzero(products >= lowest)
        numbers = numbers[reaching]
        repeats = counts[numbers]
        firsts = np.cumsum(repeats) - repeats
        views = np.arange(repeats.sum()) + np.repeat(starts[numbers] - firsts, repeats)
        questions, lowest = np.repeat(questions[reaching], repeats), np.repeat(lowest[reaching], repeats)
        products = picked(block.products, views, questions)
        near = np.flatnonzero(products >= lowest)
        rows, passages = block.first_view + views[near], np.repeat(passages[numbers], repeats)[near]
        self._proposed.append(questions[near], rows, passages, products[near])
        if len(self._proposed) > self._most:
            self._sift()
            if len(self._proposed) > self._most:
                self._settle()

    @property
    def _bar(self) -> np.ndarray:
        """The product that a view must reach to be among the best of each question [q] float32."""
        return self._best[:, 0] - self._margin

    def _raise_bar(self) -> None:
        """Puts the products of `_more` among the best."""
        if not len(self._more):
            return
        questions, products = self._more.filled
        order, counts = by_question(questions), np.bincount(questions, minlength=len(self._best))
        columns = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        more = np.full((len(counts), counts.max()), -np.inf, np.float32)
        more[questions[order], columns] = products[order]
        both = np.concatenate([self._best, more], axis=1)
        self._best = np.partition(both, more.shape[1], axis=1)[:, more.shape[1] :]
        self._more.clear()

    def _sift(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Drops the proposals that are below the bar by now; returns the others, those of each question by rising rows."""
        self._raise_bar()
        columns = self._proposed.filled
        reached = np.flatnonzero(columns[3] >= self._bar[columns[0]])
        order = reached[by_question(columns[0][reached])]
        questions, rows, passages, products = (column[order] for column in columns)
        self._proposed.clear()
        self._proposed.append(questions, rows, passages, products)
        return questions, rows, passages, products

    def _settle(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Returns the views of each question's k best passages, their passages and their scores [k] float64, best first."""
        questions, rows, passages, products = self._sift()
        bounds = np.searchsorted(questions, np.arange(len(self._queries) + 1))
        kept, best_views = [], []
        for question, query in enumerate(self._queries):
            proposed = slice(bounds[question], bounds[question + 1])
            scores = _exact_scores(self._views, rows[proposed], query)
            best = self._rank(rows[proposed], passages[proposed], scores)[: self._k]
            chosen = bounds[question] + best
            kept.append(np.sort(chosen))
            best_views.append((rows[chosen], passages[chosen], scores[best]))
        kept = np.concatenate(kept)
        self._proposed.clear()
        self._proposed.append(questions[kept], rows[kept], passages[kept], products[kept])
        return best_views

    def _rank(self, rows: np.ndarray, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Positions of the first best view of each passage, best passage first, ties by `tie_order`; `rows` rise."""
        order = np.argsort(-scores)
        if not np.diff(scores[order]).all():
            order = best_first(scores, self._tie_order[passages], rows)
        if np.diff(passages).all():
            return order
        _, first = np.unique(passages[order], return_index=True)
        return order[np.sort(first)]

    def write(self, top: TopPassages, start: int) -> None:
        """Writes the best passages into the rows of `top` from `start` on."""
        for question, (rows, passages, scores) in enumerate(self._settle(), start):
            top.passages[question, : len(rows)] = passages
            top.scores[question, : len(rows)] = scores
            top.winning_views[question, : len(rows)] = rows - self._offsets[passages]


def by_question(questions: np.ndarray) -> np.ndarray:
    """Returns the stable order of rows by their question."""
    return np.argsort(questions.astype(np.uint16), kind="stable")  # NumPy sorts numbers of 16 bits by radix


def _exact_scores(views: np.ndarray, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Returns the scores of views [n] float64; the order of each sum is the same whatever the other views."""
    return np.einsum("nd,d->n", tensor(views.take(rows, axis=0)).double().numpy(), query)
