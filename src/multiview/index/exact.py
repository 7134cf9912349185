"""Exact top-k passages over stored views: products, the maximum over each passage's views, a top-k.

Questions share a pass over the views. Each block of views is multiplied by all questions in float32, on a CPU or on a
GPU, where the views stay if they fit. Each question keeps the k passages with the highest products, and some to spare.
The error of a product has a bound, so if the lowest one kept is below the k-th by more than twice the bound, no
passage that was dropped can be among the best. The few questions without that margin search again, with more to spare.
The passages kept are then scored and ranked in float64. So passages, their order and their scores are those of brute
force in float64, whatever the block, the other questions, the number of threads or the device.

Read it from `ExactSearch.top` on: `_Part` holds views, `products` and `maxima` score them, `_Candidates` has the best.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from multiview.data.arrays import rows_in
from multiview.index.ranking import (
    ALL_VIEWS,
    Ties,
    TopPassages,
    ViewRange,
    best_first,
    finite_questions,
    width,
)
from multiview.index.stored_views import score_passages
from multiview.model.devices import within_gpu_memory

# Memory and speed depend on the following numbers; results do not.

QUESTIONS_AT_ONCE = 4096
"""Most questions that share a pass over the views."""

HITS_AT_ONCE = 1 << 21
"""Most hits that a pass keeps, of all its questions and rankings."""

SPARE = 16
"""Number of passages that are kept beyond 5/4 k, at first."""

BLOCK_BYTES, GPU_BLOCK_BYTES = 8 << 20, 512 << 20
"""Size of the products of a block. In float32 its views take at most four times as much."""

MULTIPLIED = 1024
"""Number of views that a CPU multiplies at once, in its cache."""

FEW_QUESTIONS = 8
"""From this number of questions on, a CPU multiplies with oneDNN, which on AMD processors is twice as fast as MKL."""

GPU_SHARE = 0.5
"""Share of a GPU's free memory that the views may take; more of them are copied block by block in every pass."""

GPU_ROOM = 8 * GPU_BLOCK_BYTES
"""Memory of a GPU that stays free beside the views, for a block, its products and what is chosen from them."""


class ExactSearch:
    """Exact search among the views of some passages. On a GPU the views stay in its memory while they fit."""

    def __init__(
        self,
        views: np.ndarray,
        offsets: np.ndarray,
        tie_order: Ties,
        longest_view: float,
        device: str = "cpu",
        counts: np.ndarray | None = None,
    ) -> None:
        """`views` [v, dim] float16 may be memory-mapped; `offsets` [p] int64 is the row of each passage's first view,
        ascending; `tie_order` [p] is the position of each passage's id in string order. `longest_view` is the largest
        norm of a view. `device` multiplies, as torch names it. `counts` [p] are the numbers of views to search per
        passage, if not all."""
        self.views, self.offsets, self.tie_order = views, offsets, tie_order
        self.counts = np.diff(offsets, append=len(views)) if counts is None else counts
        self.device = device
        self._longest_view = longest_view
        self._on_gpu: Tensor | None = None
        self._moving = threading.Lock()

    def top(
        self,
        queries: np.ndarray,
        k: int,
        ranges: Sequence[ViewRange] = (ALL_VIEWS,),
        *,
        among: np.ndarray | None = None,
        report_done: Callable[[int], None] = lambda done: None,
    ) -> list[TopPassages]:
        """Returns the k passages with the highest max over a range of their views, for each of `ranges`, in the same passes.

        Of passages that tie, the one with the smaller id comes first. `queries` [q, dim] and products must fit float32.
        With `among` [p] bool, only passages in it are found. `report_done` is called with the number of questions done.
        Raises ValueError for a k below 1 and for vectors that are not finite.
        """
        queries = finite_questions(queries, k)
        tops = [TopPassages.empty(len(queries), k) for _ in ranges]
        with full_precision(), within_gpu_memory("set encode.device=cpu"):
            part = self._all if among is None else self._part(self.counts * among)
            if not len(part.passages):
                return tops
            part = replace(part, resident=self._resident())
            k = width(k, len(part.passages))
            spare = k // 4 + SPARE
            for group in _groups(np.arange(len(queries)), (k + spare) * len(ranges)):
                for top, hits in zip(tops, self._best(part, queries[group], k, spare, ranges), strict=True):
                    for into, values in zip((top.scores, top.passages, top.winning_views), hits, strict=True):
                        into[group, :k] = values
                report_done(int(group[-1]) + 1)
        return tops

    @cached_property
    def _all(self) -> _Part:
        """All passages, prepared once: among millions of them, that takes longer than a GPU's products."""
        return self._part(self.counts)

    def _part(self, wanted: np.ndarray) -> _Part:
        """Returns the passages for which `wanted` [p] is not 0."""
        passages = np.flatnonzero(wanted)
        chosen = slice(None) if len(passages) == len(wanted) else passages
        counts = self.counts[chosen]
        lengths = torch.from_numpy(counts).to(self.device)
        return _Part(passages, self.offsets[chosen], counts, np.cumsum(counts), lengths, self.views)

    def _resident(self) -> Tensor | None:
        """Returns the views in a GPU's memory, moving them there as soon as they fit: beside an index that is about to
        be replaced, they may not fit yet."""
        if not self.device.startswith("cuda"):
            return None
        with self._moving:
            if self._on_gpu is None:
                free, _ = torch.cuda.mem_get_info(self.device)
                # torch keeps what was freed, and takes it first.
                free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
                if self.views.nbytes <= min(GPU_SHARE * free, free - GPU_ROOM):
                    self._on_gpu = torch.from_numpy(self.views).to(self.device)
            return self._on_gpu

    def _best(
        self, part: _Part, queries: np.ndarray, k: int, spare: int, ranges: Sequence[ViewRange]
    ) -> list[np.ndarray]:
        """Returns the k best hits (see `_no_hits`) for each of `ranges`."""
        vectors = torch.from_numpy(queries).to(self.device)
        rankings = [_Candidates(vectors, k, spare) for _ in ranges]
        block_bytes = BLOCK_BYTES if vectors.is_cpu else GPU_BLOCK_BYTES
        for first, last in part.blocks(len(queries), queries.shape[1], block_bytes):
            found = products(part.read(first, last), vectors)
            for candidates, view_range in zip(rankings, ranges, strict=True):
                candidates.add(maxima(found, part.counts[first:last], view_range, part.lengths[first:last]))
        bounds, best = product_bounds(queries, self._longest_view), []
        for candidates, view_range in zip(rankings, ranges, strict=True):
            survivors, uncertain = candidates.survivors(bounds)
            hits = part.scored(queries, candidates.places.cpu().numpy(), survivors, view_range)
            hits = self._ranked(hits)[:, :, :k]
            for again in _groups(np.flatnonzero(uncertain), k + 4 * spare):
                (hits[:, again],) = self._best(part, queries[again], k, 4 * spare, [view_range])
            best.append(hits)
        return best

    def _ranked(self, hits: np.ndarray) -> np.ndarray:
        """Returns hits in the order of their scores, those that tie in the order of their ids."""
        hits = np.take_along_axis(hits, np.argsort(-hits[:1], axis=2), axis=2)
        ties = (hits[0, :, 1:] == hits[0, :, :-1]) & (hits[0, :, 1:] > -np.inf)
        for question in np.flatnonzero(ties.any(axis=1)):  # rare, and only then are the ids sorted
            scores, passages, _ = hits[:, question]
            order = best_first(scores, self.tie_order[passages.astype(np.int64)])
            hits[:, question] = hits[:, question, order]
        return hits


@dataclass(frozen=True)
class _Part:
    """The passages that are searched, each with at least one view, and their views."""

    passages: np.ndarray
    """[p] int64: their rows in the index, ascending."""
    starts: np.ndarray
    """[p] int64: the row of each one's first view in `views`."""
    counts: np.ndarray
    """[p] int64: number of views of each."""
    ends: np.ndarray
    """[p] int64: number of views up to and with each one's."""
    lengths: Tensor
    """`counts` on the device that multiplies."""
    views: np.ndarray
    """[v, dim] float16."""
    resident: Tensor | None = None
    """The views in a GPU's memory, if they are there."""

    def blocks(self, questions: int, dim: int, block_bytes: int) -> Iterator[tuple[int, int]]:
        """Yields positions [first, last) of passages whose views are multiplied at once."""
        most = block_bytes // (4 * max(questions, dim // 4))
        most = max(MULTIPLIED, most // MULTIPLIED * MULTIPLIED)
        last = 0
        while (first := last) < len(self.ends):
            before = self.ends[first] - self.counts[first]
            last = max(first + 1, int(np.searchsorted(self.ends, before + most, side="right")))
            yield first, last

    def read(self, first: int, last: int) -> Tensor:
        """Returns the views of the passages at [first, last) [n, dim] float16."""
        views = torch.from_numpy(self.views) if self.resident is None else self.resident
        starts, counts = self.starts[first:last], self.counts[first:last]
        stop = starts[-1] + counts[-1]
        if stop - starts[0] == self.ends[last - 1] - self.ends[first] + counts[0]:
            return views[starts[0] : stop]
        return views.index_select(0, torch.from_numpy(rows_in(starts, counts)).to(views.device))

    def scored(
        self, queries: np.ndarray, places: np.ndarray, wanted: np.ndarray, view_range: ViewRange
    ) -> np.ndarray:
        """Returns hits (see `_no_hits`) of the passages at `places` [q, n] that are `wanted` [q, n] bool, scored in float64 by
        a range of their views."""
        hits, (first, stop) = _no_hits(*places.shape), view_range
        pairs = np.flatnonzero(wanted)
        questions, rows = pairs // places.shape[1], places.ravel()[pairs]
        counts = np.clip(self.counts[rows], 0, stop) - first
        scores, views = score_passages(self.views, self.starts[rows] + first, counts, queries, questions)
        for into, values in zip(hits, (scores, self.passages[rows], first + views), strict=True):
            into.ravel()[pairs] = values
        return hits


class _Candidates:
    """The passages of a part with the highest products for each question: k and some to spare."""

    def __init__(self, vectors: Tensor, k: int, spare: int) -> None:
        self._k, self._kept = k, k + spare
        self.products = vectors.new_full((len(vectors), 1), -np.inf)
        """[q, n] in any order; -inf where there is no passage, as at first."""
        self.places = vectors.new_full((len(vectors), 1), -1).long()
        """[q, n] int64: positions of the passages in the part."""
        self._seen = 0
        self._waiting: list[Tensor] = []

    def add(self, best: Tensor) -> None:
        """Adds the products [q, p] of the next passages."""
        self._waiting.append(best)
        if sum(each.shape[1] for each in self._waiting) >= 4 * self._kept:
            self._choose()

    def _choose(self) -> None:
        """Keeps the highest of those kept so far and those waiting."""
        before, joined = self.products.shape[1], torch.cat([self.products, *self._waiting], dim=1)
        chosen = _largest(joined, min(self._kept, joined.shape[1]))
        places = self.places.gather(1, chosen.clamp(max=before - 1))
        self.places = torch.where(chosen < before, places, chosen + (self._seen - before))
        self.products = joined.gather(1, chosen)
        self._seen += joined.shape[1] - before
        self._waiting.clear()

    def survivors(self, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns which candidates may be among the k best [q, n] bool, and for which questions a dropped passage may
        be [q] bool; products are off by up to `bounds` [q]."""
        if self._waiting:
            self._choose()
        products = self.products.cpu().numpy()
        rest = max(0, products.shape[1] - self._k)
        kth = np.partition(products, rest, axis=1)[:, rest]
        lowest = kth - 2 * bounds
        # What was not kept is no higher than the least; where that is -inf, no other passage has a view.
        least = products.min(axis=1)
        uncertain = (self._seen > products.shape[1]) & (least >= lowest) & (least > -np.inf)
        return (products >= lowest[:, None]) & (products > -np.inf) & ~uncertain[:, None], uncertain


def _no_hits(questions: int, count: int) -> np.ndarray:
    """Returns empty hits [3, q, n]: scores, passages and winning views, in float64, which holds row numbers exactly."""
    hits = np.full((3, questions, count), -1.0)
    hits[0] = -np.inf
    return hits


def _groups(questions: np.ndarray, hits: int) -> list[np.ndarray]:
    """Returns questions in groups that share a pass; each question keeps `hits` hits."""
    at_once = max(1, min(QUESTIONS_AT_ONCE, HITS_AT_ONCE // hits))
    return [questions[start : start + at_once] for start in range(0, len(questions), at_once)]


def product_bounds(queries: np.ndarray, longest_view: float) -> np.ndarray:
    """Returns how far a float32 product may be from the score, for views of norm up to `longest_view` [q] float64.

    A sum in any order is off by at most γ |q| |v| with γ = n u / (1 - n u), where n is the width plus 2, u is 2^-24.
    """
    terms = (queries.shape[1] + 2) * 2.0**-24
    norms = np.linalg.norm(queries.astype(np.float64), axis=1)
    # 2^-124 is more than is lost where a processor flushes subnormal numbers to 0.
    least = queries.shape[1] * 2.0**-124 * (1 + longest_view)
    return terms / (1 - terms) * (1 + 1e-6) * norms * longest_view + least


def products(views: Tensor, questions: Tensor) -> Tensor:
    """Returns products [n, q] float32 of views [n, dim] float16 and questions [q, dim], on the questions' device."""
    if not questions.is_cpu:
        return torch.mm(views.to(questions.device).float(), questions.T)
    found = questions.new_empty(len(views), len(questions))
    block = questions.new_zeros(MULTIPLIED, questions.shape[1])
    for into, part in zip(found.split(MULTIPLIED), views.split(MULTIPLIED), strict=True):
        used = block[: len(part)].copy_(part)
        if len(questions) < FEW_QUESTIONS or not torch.backends.mkldnn.is_available():
            torch.mm(used, questions.T, out=into)
        else:  # always of one size, since oneDNN compiles a kernel per size
            into.copy_(torch.nn.functional.linear(block.to_mkldnn(), questions).to_dense()[: len(part)])
    return found


def maxima(products: Tensor, counts: np.ndarray, view_range: ViewRange, lengths: Tensor) -> Tensor:
    """Returns each passage's highest product over a range of its views [q, p]; -inf if it has none in the range.

    `products` [n, q] are those of all views of the passages, which have `counts` [p] views each, at least one;
    `lengths` are the counts on the products' device.
    """
    if view_range != ALL_VIEWS:
        (first, stop), starts = view_range, np.cumsum(counts) - counts
        counts = (np.clip(counts, 0, stop) - first).clip(0)
        rows = torch.from_numpy(rows_in(starts + first, counts))
        products = products.index_select(0, rows.to(products.device))
        lengths = torch.from_numpy(counts).to(products.device)
    elif len(products) == len(counts):
        return products.T.contiguous()
    if products.is_cpu and products.shape[1] >= FEW_QUESTIONS:  # five times as fast as reducing segments
        passages = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))[:, None].expand_as(products)
        best = products.new_full((len(counts), products.shape[1]), -torch.inf)
        best.scatter_reduce_(0, passages, products, "amax")
    else:
        best = torch.segment_reduce(products, "max", lengths=lengths, unsafe=True)
    return best.T.contiguous()


def _largest(values: Tensor, count: int) -> Tensor:
    """Returns the positions of the `count` largest of each row [q, count] int64, in any order."""
    if not values.is_cpu:
        return values.topk(count, dim=1).indices
    # NumPy's selection is several times as fast as torch's.
    rest = values.shape[1] - count
    return torch.from_numpy(np.argpartition(values.numpy(), rest, axis=1)[:, rest:])


PRECISION_LOCK, PRECISIONS = threading.Lock(), list[str]()
"""torch's precision of products before each search that is under way."""


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Keeps TF32 and bfloat16 out of products, whose errors would exceed their bound. All threads share the precision:
    the last of simultaneous searches sets it back to what the first one found."""
    with PRECISION_LOCK:
        PRECISIONS.append(torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    finally:
        with PRECISION_LOCK:
            torch.set_float32_matmul_precision(PRECISIONS.pop())
