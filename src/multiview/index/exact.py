"""Exact top-k passages over stored views: a product, a maximum over each passage's views, a top-k.

Questions share a pass over the views. Each block of views is multiplied by all of them in float32, on the CPU or on a
GPU. Float32 rounds, by no more than γ |q| |v|; so a passage is dropped only when k others are better by more than twice
that. The few that are left are scored in float64, by which they are ranked. So passages, their order and their scores
are those of brute force in float64, whatever the block, the other questions, the number of threads or the device. Only
the order of a sum in float64 is the processor's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multiview.data.arrays import rows_in, stable_order
from multiview.encoding.embeddings import VIEW_DTYPE
from multiview.index.ranking import Ties, TopPassages, width
from multiview.index.stored_views import score_passages, tensor, view_norms
from multiview.index.streamed_views import Matrix, StreamedViews

if TYPE_CHECKING:
    from torch import Tensor, device

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)

# Memory and speed depend on the following numbers; results do not.

QUESTIONS_AT_ONCE = 1024
"""Number of questions that share a pass over the views."""

MORE_QUESTIONS_AT_ONCE = 4096
"""`QUESTIONS_AT_ONCE` on a GPU, which multiplies faster than views are read, and for views that stay in a bucket."""

HITS_AT_ONCE = 1 << 23
"""Number of hits, of all rankings, that a pass looks for, at most."""

MULTIPLIED_BYTES = 2 << 20
"""Size of the views in float32 that are multiplied at once; they stay in a core's cache."""

BLOCK_BYTES = 4 << 20
"""Size of the products that are ranked at once; their views take four times as much, at most."""

GPU_BLOCK_BYTES = 256 << 20
"""`MULTIPLIED_BYTES` and `BLOCK_BYTES` on a GPU."""

GPU_SHARE = 0.5
"""Share of a GPU's free memory that the views may take; more of them are copied block by block in every pass."""

FEW_QUESTIONS = 16
"""Number of questions from which on oneDNN multiplies on a CPU, on AMD's at twice the speed of MKL, and from which on
torch's scatter is faster than its reduction of segments."""

EVERY = 12
"""Every `EVERY`-th block is read first: the best passages in it rule out most others."""

SCORED_BYTES = 4 << 30
"""Size of the views after which candidates among them are scored, while the pages that were read are still cached."""

CANDIDATES = 1 << 18
"""Number of candidates, of all rankings, beyond 2 k per question, from which on they are scored early and cut to k."""

SIFTED = 1 << 14
"""Number of new candidates, at least, after which they are sifted."""

SCORED_AT_ONCE = 1 << 16
"""Number of candidates that are scored at once."""

UNDERFLOW = 2.0**-124
"""More than a product and a sum lose where a processor takes numbers below the least normal one of float32 for 0."""


def questions_at_once(k: int, rankings: float, device: str, streamed: bool = False) -> int:
    """Returns the number of questions that share a pass over views on disk or `streamed`, for k hits of each of their `rankings`.

    >>> questions_at_once(100, 15, "cpu"), questions_at_once(1000, 10, "cpu")
    (1024, 838)
    """
    most = QUESTIONS_AT_ONCE if device == "cpu" and not streamed else MORE_QUESTIONS_AT_ONCE
    return max(1, min(most, int(HITS_AT_ONCE // (k * max(1, rankings)))))


class ExactSearch:
    """Exact search among the views of some passages. On a GPU the views stay in its memory while they fit."""

    def __init__(
        self,
        views: Matrix,
        offsets: np.ndarray,
        tie_order: Ties,
        longest_view: float | None = None,
        device: str = "cpu",
    ) -> None:
        """`views` [v, dim] float16 may be memory-mapped or in a bucket; `offsets` [p] int64 is the row of each passage's
        first view, ascending; `tie_order` [p] is the position of each passage's id in string order.

        `longest_view` is the largest norm of a view, computed where it is not given. `device` multiplies, as torch names it.
        """
        self.views, self.offsets, self.tie_order = views, offsets, tie_order
        self.counts = np.diff(offsets, append=len(views))
        self._longest_view, self._device = longest_view, device

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

        Of passages that tie, the one with the smaller id comes first. `queries` [q, dim] float32. With `among` [p] bool,
        only its passages are found. Passages without a view in a range are not found by it. `report_done` is called with
        the number of questions done. Raises ValueError for a k below 1 and for vectors that are not finite. Products
        have to be within float32.
        """
        if k < 1:
            raise ValueError(f"k must be 1 or more, not {k}")
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if not np.isfinite(queries).all():
            raise ValueError("a question's vector holds a value that is not finite")
        tops = [TopPassages.empty(len(queries), k) for _ in ranges]
        passages = np.flatnonzero(self.counts if among is None else self.counts * among)
        if not len(passages):
            return tops
        room = width(k, len(passages))
        at_once = questions_at_once(room, len(ranges), self._device, isinstance(self.views, StreamedViews))
        with _whole_float32():
            for start in range(0, len(queries), at_once):
                asked = slice(start, min(start + at_once, len(queries)))
                for top, found in zip(tops, self._pass(queries[asked], room, ranges, passages), strict=True):
                    found.fill(top, asked)
                report_done(asked.stop)
        return tops

    def _pass(
        self, queries: np.ndarray, k: int, ranges: Sequence[ViewRange], passages: np.ndarray
    ) -> list[_Candidates]:
        """Returns the candidates of each range after a pass over the views of `passages`."""
        bound, most = _rounding(queries, self._longest), CANDIDATES // len(ranges) + 2 * len(queries) * k
        found = [_Candidates(self, queries, k, bound, each, most) for each in ranges]
        if isinstance(self.views, StreamedViews):
            at_once = self.views.rows_per_block
        else:
            at_once = SCORED_BYTES // (self.views.shape[1] * VIEW_DTYPE.itemsize)
        held = 0
        for block in self._blocks(queries, passages):
            for candidates in found:
                candidates.add(block)
            held += len(block.products)
            if held >= at_once:
                held = 0
                for candidates in found:
                    candidates.score()
        return found

    def _blocks(self, queries: np.ndarray, passages: np.ndarray) -> Iterator[_Block]:
        """Yields the products of the views of `passages` with `queries`, block by block."""
        import torch

        device, dim = torch.device(self._device), self.views.shape[1]
        block_bytes = BLOCK_BYTES if device.type == "cpu" else GPU_BLOCK_BYTES
        rows = max(1, min(block_bytes // (4 * len(queries)), 4 * block_bytes // (VIEW_DTYPE.itemsize * dim)))
        # So that candidates can be scored from blocks that are held.
        if isinstance(self.views, StreamedViews):
            rows = min(rows, self.views.rows_per_block)
        ends = np.cumsum(self.counts[passages])
        cuts = np.unique(np.searchsorted(ends, np.arange(rows, ends[-1], rows), side="right"))
        parts = [part for part in np.split(passages, cuts) if len(part)]
        if not isinstance(self.views, StreamedViews):
            parts = [*parts[::EVERY], *(part for number, part in enumerate(parts) if number % EVERY)]
        sizes = [int(self.counts[part].sum()) for part in parts]
        multiply = _multiplier(queries, max(sizes), device)
        for part, size in zip(parts, sizes, strict=True):
            yield _Block(part, self.counts[part], multiply(self._read(part, size)))

    def _read(self, passages: np.ndarray, size: int) -> Tensor:
        """Returns the views of `passages`, so many as `size` says [size, dim] float16."""
        import torch

        start, last = int(self.offsets[passages[0]]), passages[-1]
        stop = int(self.offsets[last] + self.counts[last])
        if stop - start == size:
            return tensor(self.views[start:stop]) if self._resident is None else self._resident[start:stop]
        rows = rows_in(self.offsets[passages], self.counts[passages])
        if self._resident is None:
            return tensor(self.views.take(rows, axis=0))
        return self._resident.index_select(0, torch.from_numpy(rows).to(self._resident.device))

    @cached_property
    def _resident(self) -> Tensor | None:
        """The views in a GPU's memory, if they fit."""
        import torch

        if not self._device.startswith("cuda") or isinstance(self.views, StreamedViews):
            return None
        free, _ = torch.cuda.mem_get_info(self._device)
        return tensor(self.views).to(self._device) if self.views.nbytes <= GPU_SHARE * free else None

    @cached_property
    def _longest(self) -> float:
        return view_norms(self.views).longest if self._longest_view is None else self._longest_view


def _multiplier(queries: np.ndarray, most: int, device: device) -> Callable[[Tensor], Tensor]:
    """Returns a function of at most `most` views [n, dim] float16 that returns their products [n, q] float32, which are
    overwritten by the next.
    """
    import torch

    asked = torch.from_numpy(queries).to(device)
    rows = max(1, (MULTIPLIED_BYTES if device.type == "cpu" else GPU_BLOCK_BYTES) // (4 * queries.shape[1]))
    products = asked.new_empty(most, len(asked))
    onednn = device.type == "cpu" and len(asked) >= FEW_QUESTIONS and torch.backends.mkldnn.is_available()
    block = asked.new_zeros(min(rows, most), queries.shape[1])
    if onednn:
        asked = asked.to_mkldnn()

    def multiply(views: Tensor) -> Tensor:
        found = products[: len(views)]
        for some, into in zip(views.split(rows), found.split(rows), strict=True):
            used = block[: len(some)]
            used.copy_(some.to(device))  # as float16, which is half of the bytes
            if onednn:  # always of one size, since it compiles a kernel per size
                into.copy_(torch.nn.functional.linear(block.to_mkldnn(), asked).to_dense()[: len(some)])
            else:
                torch.mm(used, asked.T, out=into)
        return found

    return multiply


@dataclass(frozen=True)
class _Block:
    """The products of all views of some passages."""

    passages: np.ndarray
    """[p] int64, rising."""
    counts: np.ndarray
    """[p] int64: number of each passage's views, at least one."""
    products: Tensor
    """[n, q] float32 on the device that multiplied: of the views of each passage, one after another."""

    def best(self, first: int, stop: int | None) -> tuple[np.ndarray, Tensor]:
        """Returns the passages that have views [first, stop), and the highest product of these with each question [p, q]."""
        import torch

        passages, counts, products = self.passages, self.counts, self.products
        if (first, stop) != ALL_VIEWS:
            starts = np.cumsum(counts) - counts
            counts = np.clip(counts, 0, stop) - first
            some = np.flatnonzero(counts > 0)
            passages, counts = passages[some], counts[some]
            rows = rows_in(starts[some] + first, counts)
            products = products.index_select(0, torch.from_numpy(rows).to(products.device))
        if len(products) > len(passages) and products.is_cpu and products.shape[1] < FEW_QUESTIONS:
            lengths = torch.from_numpy(counts).to(products.device)
            products = torch.segment_reduce(products, "max", lengths=lengths, unsafe=True)
        elif len(products) > len(passages):
            owners = torch.from_numpy(np.repeat(np.arange(len(passages)), counts)).to(products.device)
            best = products.new_full((len(passages), products.shape[1]), -torch.inf)
            products = best.scatter_reduce_(0, owners[:, None].expand_as(products), products, "amax")
        return passages, products


CANDIDATE = np.dtype(
    [
        ("question", np.int32),
        ("passage", np.int64),
        ("product", np.float32),
        ("score", np.float64),  # NaN until it is computed, and with it the view that has it
        ("view", np.int32),
    ],
    align=True,
)


class _Candidates:
    """The passages that can be among the k best of each question, by a range of their views."""

    def __init__(
        self,
        search: ExactSearch,
        queries: np.ndarray,
        k: int,
        bound: np.ndarray,
        view_range: ViewRange,
        most: int,
    ) -> None:
        """`bound` [q] float64 is how far products may be from scores, and `most` the number of candidates that are held,
        at most; the rest is as in `ExactSearch.top`."""
        self._search = search
        self._queries, self._k, self._bound, self._range = queries.astype(np.float64), k, bound, view_range
        self._bar = np.full(len(queries), -np.inf, np.float32)
        """The product below which no passage is among a question's k best [q]."""
        self._most = most
        self._rows = np.empty(most, CANDIDATE)
        """Memory that is taken once: small arrays between the large ones of each block would make the heap grow."""
        self._number = self._sifted = 0
        """Number of candidates, now and after the last sifting."""

    @property
    def _held(self) -> np.ndarray:
        """The candidates, each passage of a question once."""
        return self._rows[: self._number]

    def _keep(self, positions: np.ndarray) -> None:
        kept = self._held[positions]
        self._number = self._sifted = len(kept)
        self._held[:] = kept

    def add(self, block: _Block) -> None:
        """Adds the passages of a block that reach the bar."""
        import torch

        passages, best = block.best(*self._range)
        if len(passages) >= self._k and not np.isfinite(self._bar).all():
            lowest = best.topk(self._k, dim=0, sorted=False).values.amin(dim=0).cpu().numpy()
            self._raise_bar(slice(None), lowest - 2 * self._bound)
        mask = (best >= torch.from_numpy(self._bar).to(best.device)).flatten()
        # NumPy's is several times as fast on a CPU.
        found = torch.from_numpy(np.flatnonzero(mask.numpy())) if mask.is_cpu else mask.nonzero().flatten()
        if not len(found):
            return
        products, found = best.flatten()[found].cpu().numpy(), found.cpu().numpy()
        new = slice(self._number, self._number + len(found))
        if new.stop > len(self._rows):
            self._rows = np.concatenate([self._held, np.empty(len(found) + self._most, CANDIDATE)])
        rows = self._rows[new]
        rows["question"], rows["passage"] = found % best.shape[1], passages[found // best.shape[1]]
        rows["product"], rows["score"] = products, np.nan
        self._number = new.stop
        if self._number > self._sifted + max(SIFTED, len(self._bar) * self._k):
            self._sift()
            if self._number > self._most:
                self._cut()

    def score(self) -> None:
        """Scores the candidates that can still be among the best, those that were not scored before."""
        self._sift()
        new = np.flatnonzero(np.isnan(self._held["score"]))
        new = new[stable_order(self._held["passage"][new])]
        first, stop = self._range
        for start in range(0, len(new), SCORED_AT_ONCE):
            some = new[start : start + SCORED_AT_ONCE]
            passages, questions = self._held["passage"][some], self._held["question"][some].astype(np.int64)
            counts = np.clip(self._search.counts[passages], 0, stop) - first
            scores, views = score_passages(
                self._search.views, self._search.offsets[passages] + first, counts, self._queries, questions
            )
            self._held["score"][some], self._held["view"][some] = scores, first + views

    def fill(self, top: TopPassages, asked: slice) -> None:
        """Fills the k best passages into the rows `asked` of `top`."""
        self.score()
        best, ranks = self._best()
        found = self._held[best]
        at = asked.start + found["question"], ranks
        top.passages[at], top.scores[at], top.winning_views[at] = (
            found["passage"],
            found["score"],
            found["view"],
        )

    def _best(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of each question's k best candidates, which are scored, and their ranks from 0 on."""
        questions, scores = self._held["question"], self._held["score"]
        order = np.lexsort((-scores, questions))
        ranked, asked = scores[order], questions[order]
        if (
            (ranked[1:] == ranked[:-1]) & (asked[1:] == asked[:-1])
        ).any():  # which is rare, and ids are sorted late
            order = np.lexsort((self._search.tie_order[self._held["passage"]], -scores, questions))
        counts = np.bincount(questions, minlength=len(self._bar))
        ranks = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[ranks < self._k], ranks[ranks < self._k]

    def _sift(self) -> None:
        """Raises the bar by the k-th best product of each question, and drops the candidates below it."""
        questions, products = self._held["question"], self._held["product"]
        # One number to sort by: the question, then the bits of the product.
        bits = _in_order(np.ascontiguousarray(products).view(np.int32))
        keys = np.sort((questions.astype(np.int64) << 32) + bits)
        counts = np.bincount(questions, minlength=len(self._bar))
        full = np.flatnonzero(counts >= self._k)
        lowest = _in_order(keys[np.cumsum(counts)[full] - self._k].astype(np.int32)).view(np.float32)
        self._raise_bar(full, lowest - 2 * self._bound[full])
        self._keep(np.flatnonzero(products >= self._bar[questions]))

    def _cut(self) -> None:
        """Keeps the k best candidates alone, where float32 cannot tell many more apart."""
        self.score()
        best, ranks = self._best()
        self._keep(best)
        last = self._held[ranks == self._k - 1]
        self._raise_bar(last["question"], last["score"] - self._bound[last["question"]])

    def _raise_bar(self, questions: np.ndarray | slice, bar: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            rounded = np.nextafter(bar.astype(np.float32), np.float32(-np.inf))
        self._bar[questions] = np.maximum(self._bar[questions], rounded)


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Returns the bits of float32 numbers, int32, as whole numbers of the same order; its own inverse."""
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def _rounding(queries: np.ndarray, longest_view: float) -> np.ndarray:
    """Returns how far a product in float32 is from its score, at most, for each question [q] float64.

    Summed in any order, it is γ |q| |v| with γ = n u / (1 - n u) and u = 2^-24, where n counts the width and two more, for
    the rounding of scores.
    """
    dim = queries.shape[1]
    gamma = (dim + 2) * 2.0**-24 / (1 - (dim + 2) * 2.0**-24)
    norms = np.linalg.norm(queries.astype(np.float64), axis=1) * (1 + 1e-6)
    return gamma * longest_view * norms + dim * UNDERFLOW * (1 + longest_view)


@contextlib.contextmanager
def _whole_float32() -> Iterator[None]:
    """Keeps TF32 and bfloat16 out of products of float32, whose rounding would be outside of its bound."""
    import torch

    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
