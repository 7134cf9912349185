"""Exact top-k passages over stored views: a product, a maximum and a top-k, in one pass.

A passage's score is the max over its views' scores. Views are read once, block by block. Products in float32 propose
the views that can be among the best; each of these is scored again in float64. So passages, their order and their
scores are those of a brute-force search in float64, whatever the block, the number of threads, the processor or GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from multiview.index.columns import Columns
from multiview.index.kernels import Rounding, kernels
from multiview.index.products import Block, Part, blocks, highest, picked, positions, tensor
from multiview.index.ranking import TopPassages, by_question, first_best, width
from multiview.index.stored_views import score_views

QUESTIONS_AT_ONCE = 512
"""Number of questions that share a pass over the views. Memory and speed depend on it, results do not."""

GPU_QUESTIONS_AT_ONCE = 4096
"""`QUESTIONS_AT_ONCE` on a GPU: more, because it multiplies faster than views are read."""

NORMS_AT_ONCE = 4096
"""Number of views whose lengths are measured at once."""

PROPOSED_AT_ONCE = 1 << 18
"""Number of proposed views that are held before they are sifted, over all ranges, on top of 2 k per question."""

CROWDED = 4
"""Number of passages per passage wanted from which on products that round less propose. Only speed depends on it."""

SCORED_AT_ONCE = 512
"""Number of views that are scored in float64 at once. Only speed depends on it."""

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)


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

    `views` [v, dim] float16 may be memory-mapped; `offsets` [p] int64 is the row of each passage's first view,
    ascending; `tie_order` [p] is the position of each passage's id in string order: of passages that tie, the one with
    the smaller id comes first. `queries` [q, dim] float32. `ranges` are `[ALL_VIEWS]` for one ranking by all views.
    With `among` [p] bool, only its passages are found. `longest` is the largest Euclidean norm of a view, and is
    computed where it is not given. `device` multiplies, as torch names it; the result is the same to the bit.
    `report_done` is called with the number of questions done. Passages without a view in a range are not found by it.
    Raises ValueError for a k below 1 and for vectors that are not finite.

    A product is within e of its score (see `multiview.index.kernels`). Once k passages are known, the k-th with product
    s, no view whose product is below s - 2 e can change the answer.
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
    where = torch.device(device)
    at_once = QUESTIONS_AT_ONCE if device == "cpu" else GPU_QUESTIONS_AT_ONCE
    room = width(k, len(offsets) if among is None else int(among.sum()))
    coarse = True  # until a kernel that rounds more than another one proposes too many views
    for start in range(0, len(queries), at_once):
        chunk = queries[start : start + at_once]
        choice = kernels(chunk, longest, room / len(views), where)
        found: list[_Found] = []
        for kernel in choice if coarse else choice[-1:]:
            held = PROPOSED_AT_ONCE // max(1, len(ranges))
            found = [_Found(views, offsets, tie_order, chunk, room, kernel.rounding, held) for _ in ranges]
            products = blocks(views, offsets, kernel, len(chunk), where, among)
            coarse = coarse and kernel is not choice[-1]
            if _add_all(found, products, ranges, give_up=coarse):
                break
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


def _add_all(
    found: Sequence[_Found], products: Iterable[Block], ranges: Sequence[ViewRange], give_up: bool
) -> bool:
    """Adds all blocks; returns False, with `give_up`, as soon as too many views are proposed."""
    for block in products:
        for best, view_range in zip(found, ranges, strict=True):
            best.add(block, view_range)
            if give_up and best.crowded:
                return False
    return True


class _Found:
    """The best passages of some questions among the views seen so far."""

    def __init__(
        self,
        views: np.ndarray,
        offsets: np.ndarray,
        tie_order: np.ndarray,
        queries: np.ndarray,
        k: int,
        rounding: Rounding,
        held: int,
    ) -> None:
        """At most `held` views and twice k per question are proposed before they are sifted."""
        self._views, self._offsets, self._tie_order, self._k = views, offsets, tie_order, k
        self._most = held + 2 * len(queries) * k
        self._queries = queries.astype(np.float64)
        self._rounding = rounding
        self.crowded = False
        """Whether products that round less would propose far fewer views."""
        self._best = np.full((len(queries), k), -np.inf, np.float32)
        """The k highest products of passages [q, k], the lowest first."""
        self._more = Columns(self._best.size, np.int64, np.float32)
        """Questions and products of passages that may be among these, but are not yet."""
        self._proposed = Columns(self._most, np.int64, np.int64, np.int64, np.float32)
        """Questions, rows, passages and products of views that may be among the best."""

    def add(self, block: Block, view_range: ViewRange) -> None:
        """Proposes views of a block, as if passages had those of `view_range` alone."""
        part = block.part(*view_range)
        if not len(part.passages):
            return
        best, known = part.best(), self._known
        if not known:
            self._best = highest(self._best, best)
        numbers, questions = positions(best, self._bar)
        products = picked(best, numbers, questions)
        if known:
            self._more.append(questions, products)
            if len(self._more) > self._best.size // 4:
                self._raise_bar()
        elif self._known:
            self.crowded = len(products) > CROWDED * self._best.size
        if len(part.passages) == len(part.rows):
            self._proposed.append(questions, part.rows[numbers], part.passages[numbers], products)
        else:
            self._propose(part, numbers, questions, products)
        if len(self._proposed) > self._most:
            self._sift()
            if len(self._proposed) > self._most:
                self.crowded = True
                self._settle()

    def _propose(self, part: Part, numbers: np.ndarray, questions: np.ndarray, best: np.ndarray) -> None:
        """Proposes the views that may have their passage's score; `best` are the products of its best ones."""
        lowest = np.maximum(self._rounding.bar(best, questions), self._bar[questions])
        reaching = np.flatnonzero(best >= lowest)
        numbers = numbers[reaching]
        repeats = part.counts[numbers]
        firsts = np.cumsum(part.counts) - part.counts
        views = np.arange(repeats.sum()) + np.repeat(
            firsts[numbers] - (np.cumsum(repeats) - repeats), repeats
        )
        questions, lowest = np.repeat(questions[reaching], repeats), np.repeat(lowest[reaching], repeats)
        products = picked(part.products, views, questions)
        near = np.flatnonzero(products >= lowest)
        passages = np.repeat(part.passages[numbers], repeats)[near]
        self._proposed.append(questions[near], part.rows[views[near]], passages, products[near])

    @property
    def _known(self) -> bool:
        """Whether k passages of each question are known."""
        return bool(np.isfinite(self._best[:, 0]).all())

    @property
    def _bar(self) -> np.ndarray:
        """The product that a view must reach to be among the best of each question [q] float32."""
        return self._rounding.bar(self._best[:, 0])

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

    def _settle(self) -> _Best:
        """Returns each question's k best passages, and drops the proposals of all other passages."""
        questions, rows, passages, products = self._sift()
        scores = self._scores(questions, rows)
        first = first_best(questions, passages, scores)
        order = first[self._order(questions[first], passages[first], scores[first])]
        counts = np.bincount(questions[order], minlength=len(self._queries))
        ranks = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order, ranks = order[ranks < self._k], ranks[ranks < self._k]
        kept = np.sort(order)
        self._proposed.clear()
        self._proposed.append(questions[kept], rows[kept], passages[kept], products[kept])
        return _Best(questions[order], ranks, rows[order], passages[order], scores[order])

    def _scores(self, questions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns the scores of views with their questions, which rise [n] float64."""
        import torch

        scores = np.empty(len(rows))
        bounds = np.searchsorted(questions, np.arange(len(self._queries) + 1)).tolist()
        single = torch.empty(SCORED_AT_ONCE, self._views.shape[1])
        double = torch.empty_like(single, dtype=torch.float64)
        for query, (first, last) in zip(self._queries, pairwise(bounds), strict=True):
            for start in range(first, last, SCORED_AT_ONCE):
                stop = min(start + SCORED_AT_ONCE, last)
                views = torch.from_numpy(self._views.take(rows[start:stop], axis=0))
                # By way of float32, since torch has no vector instructions from float16 to float64.
                views = double[: len(views)].copy_(single[: len(views)].copy_(views))
                score_views(views.numpy(), query, out=scores[start:stop])
        return scores

    def _order(self, questions: np.ndarray, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The order of distinct passages by question, then by falling score, then by `tie_order`."""
        order = np.argsort(-scores)
        order = order[by_question(questions[order])]
        tied = (np.diff(scores[order]) == 0) & (np.diff(questions[order]) == 0)
        if tied.any():
            ties = np.flatnonzero(np.append(tied, False) | np.insert(tied, 0, False))
            runs = np.cumsum(np.insert(~tied, 0, False))[ties]
            order[ties] = order[ties][np.lexsort((self._tie_order[passages[order[ties]]], runs))]
        return order

    def write(self, top: TopPassages, start: int) -> None:
        """Writes the best passages into the rows of `top` from `start` on."""
        best = self._settle()
        at = start + best.questions, best.ranks
        top.passages[at] = best.passages
        top.scores[at] = best.scores
        top.winning_views[at] = best.rows - self._offsets[best.passages]


class _Best(NamedTuple):
    """The best passages of some questions, best first, as columns [n]."""

    questions: np.ndarray
    ranks: np.ndarray
    """Position in the question's ranking, from 0."""
    rows: np.ndarray
    """Row of the passage's first best view."""
    passages: np.ndarray
    scores: np.ndarray
    """float64."""
