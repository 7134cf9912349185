"""Exact top-k passages over stored views: a product, a maximum and a top-k.

A passage's score is the max over its views' scores. A group of questions shares a pass over the views, block by block;
the few for which a guess was wrong (`multiview.index.floors`) share another. Products, which are rounded, propose the
views that can be among the best; each of these is scored in float64, after every 4 GB of views. So passages, their
order and their scores are those of a brute-force search in float64, whatever the block, the other questions, the number
of threads, or the GPU or kernel that multiplies. Only the order of a sum in float64 is the processor's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multiview.encoding.embeddings import VIEW_DTYPE
from multiview.index.floors import floors
from multiview.index.kernels import Kernel, kernels
from multiview.index.products import ViewRange, blocks, tensor
from multiview.index.proposals import Proposals
from multiview.index.ranking import Ties, TopPassages, width
from multiview.index.rounding import ViewNorms
from multiview.index.streamed_views import Matrix, StreamedViews

if TYPE_CHECKING:
    from torch import Tensor, device

QUESTIONS_AT_ONCE = 1024
"""Number of questions that share a pass over the views. Memory and speed depend on it, results do not."""

MORE_QUESTIONS_AT_ONCE = 4096
"""`QUESTIONS_AT_ONCE` on a GPU, which multiplies faster than views are read, and for views that stay in a bucket."""

HITS_AT_ONCE = 1 << 23
"""Number of hits, of all rankings, that a pass over the views looks for, at most. Memory and speed depend on it, results do not."""

SCORED_BYTES = 4 << 30
"""Size of the views after which those proposed among them are scored, before the system needs their memory for others; of
views in a bucket they are after each block. Speed depends on it, results do not."""

GUESSED_FOR = 64
"""Number of questions from which on floors are guessed, and products may be in bfloat16. Only speed depends on it."""

NORMS_AT_ONCE = 1024
"""Number of views whose norms are computed at once."""

PROPOSED_AT_ONCE = 1 << 18
"""Number of proposed views that are held before they are sifted, over all ranges, on top of 2 k per question."""


def top_passages_by(
    views: Matrix,
    offsets: np.ndarray,
    tie_order: Ties,
    queries: np.ndarray,
    k: int,
    ranges: Sequence[ViewRange],
    *,
    among: np.ndarray | None = None,
    norms: ViewNorms | None = None,
    device: str = "cpu",
    report_done: Callable[[int], None] = lambda done: None,
) -> list[TopPassages]:
    """Returns the k passages with the highest max over a range of their views, for each of `ranges`, in the same passes.

    `views` [v, dim] float16 may be memory-mapped or in a bucket; `offsets` [p] int64 is the row of each passage's first view,
    ascending; `tie_order` [p] is the position of each passage's id in string order: of passages that tie, the one with
    the smaller id comes first. `queries` [q, dim] float32. `ranges` are `[ALL_VIEWS]` for one ranking by all views.
    With `among` [p] bool, only its passages are found. `norms` are the `view_norms` of the views, and are
    computed where they are not given. `device` multiplies, as torch names it; the result is the same to the bit.
    `report_done` is called with the number of questions done. Passages without a view in a range are not found by it.
    Raises ValueError for a k below 1 and for vectors that are not finite. Their products have to be within float32.

    Where a sample tells roughly what the best scores are (`multiview.index.floors`), views below that are left out, and
    the questions for which it told too much are searched for again, without a floor.
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

    room = width(k, len(offsets) if among is None else int(among.sum()))
    norms = view_norms(views) if norms is None else norms
    search = _Search(
        views, norms, offsets, tie_order, queries, room, ranges, among, torch.device(device), tops
    )
    at_once = questions_at_once(room, len(ranges), device, isinstance(views, StreamedViews))
    for start in range(0, len(queries), at_once):
        search.answer(np.arange(start, min(start + at_once, len(queries))))
        report_done(min(start + at_once, len(queries)))
    return tops


def questions_at_once(k: int, rankings: float, device: str, streamed: bool = False) -> int:
    """Returns the number of questions that share a pass over views on disk or `streamed`, for k hits of each of their `rankings`.

    >>> questions_at_once(100, 15, "cpu"), questions_at_once(1000, 10, "cpu")
    (1024, 838)
    """
    most = QUESTIONS_AT_ONCE if device == "cpu" and not streamed else MORE_QUESTIONS_AT_ONCE
    return max(1, min(most, int(HITS_AT_ONCE // (k * max(1, rankings)))))


@dataclass
class _Search:
    """Passes over the views, each for some of the questions."""

    views: Matrix
    norms: ViewNorms
    offsets: np.ndarray
    tie_order: Ties
    queries: np.ndarray
    k: int
    ranges: Sequence[ViewRange]
    among: np.ndarray | None
    device: device
    tops: Sequence[TopPassages]
    """The result, one per range, whose rows each pass fills in."""
    coarse: bool = True
    """Whether products may be coarse: until these propose too many views."""

    def answer(self, asked: np.ndarray) -> None:
        """Finds the best passages of the questions of rows `asked`."""
        *coarse, fine = kernels(self.queries[asked], self.norms, self.device)
        if isinstance(self.views, StreamedViews):
            # In one pass: a wrong guess, or coarse products, would need another.
            self._pass(asked, fine)
            return
        kernel = coarse[0] if coarse and self.coarse else fine
        guessed = None
        if len(asked) >= GUESSED_FOR and self.device.type == "cpu":
            guessed = floors(self.views, self.offsets, kernel, len(asked), self.k, self.ranges, self.among)
        if guessed or len(asked) == 1:  # whose products in float16 round little
            asked = self._pass(asked, kernel, guessed, give_up=kernel is not fine)
        if len(asked):
            *_, fine = kernels(self.queries[asked], self.norms, self.device)
            self._pass(asked, fine)

    def _pass(
        self,
        asked: np.ndarray,
        kernel: Kernel,
        guessed: Sequence[np.ndarray] | None = None,
        give_up: bool = False,
    ) -> np.ndarray:
        """Fills in the best passages of the questions of rows `asked`; returns those for which a floor was too high, with
        `give_up` all of them where products are too coarse."""
        held = PROPOSED_AT_ONCE // max(1, len(self.ranges))
        found = [
            Proposals(self.views, self.tie_order, self.queries[asked], self.k, held, kernel, floor)
            for floor in guessed or [None] * len(self.ranges)
        ]
        scored = 0
        if isinstance(self.views, StreamedViews):
            at_once = self.views.rows_per_block
        else:
            at_once = SCORED_BYTES // (self.views.shape[1] * VIEW_DTYPE.itemsize)
        for block in blocks(self.views, self.offsets, kernel, len(asked), self.device, self.among):
            for proposals, view_range in zip(found, self.ranges, strict=True):
                proposals.add(block, *view_range)
                if give_up and proposals.crowded:
                    self.coarse = False
                    return asked
            stop = block.first_view + len(block.products)
            if stop - scored >= at_once:
                scored = stop
                for proposals in found:
                    proposals.score()
        sure = np.ones(len(asked), bool)
        for proposals, top in zip(found, self.tops, strict=True):
            best = proposals.best()
            real, at = best.passages >= 0, (asked, slice(best.passages.shape[1]))
            top.passages[at] = best.passages
            top.scores[at] = best.scores
            top.winning_views[at] = np.where(real, best.rows - self.offsets[best.passages], -1)
            sure &= proposals.above_floor(best)
        return asked[~sure]


def view_norms(views: Matrix) -> ViewNorms:
    """Returns the norms of `views` [v, dim] float16, which are read once, block by block."""
    largest = ViewNorms()
    for start in range(0, len(views), NORMS_AT_ONCE):
        some = tensor(views[start : start + NORMS_AT_ONCE]).float()
        longest = _largest_norm(some)
        # What is lost has three bits at most, so the difference is exact.
        largest = largest.merged(ViewNorms(longest, _largest_norm(some - some.bfloat16())))
    return largest


def _largest_norm(vectors: Tensor) -> float:
    return math.sqrt(vectors.double().square_().sum(dim=1).max().item())
