"""Exact top-k passages over stored views: a product, a maximum over each passage's views, a top-k.

Questions share a pass over the views. Each block of views is multiplied by all of them, in float32 on a CPU and in
float16 on a GPU, where the views stay while they fit. Each question keeps the k passages with the highest products, and
some to spare. A product is off by no more than a bound; so where the last one kept is below the k-th by more than twice
that, no other passage can be among the best. The few questions with closer ones search again, with more to spare. What
is kept is scored in float64, by which it is ranked. So passages, their order and their scores are those of brute force
in float64, whatever the block, the other questions, the number of threads or the device. Only the order of a sum in
float64 is the processor's own.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multiview.data.arrays import rows_in, stable_order
from multiview.encoding.embeddings import VIEW_DTYPE
from multiview.index.ranking import Ties, TopPassages, best_first, width
from multiview.index.stored_views import score_passages, tensor, view_norms
from multiview.index.streamed_views import Matrix, StreamedViews

if TYPE_CHECKING:
    from torch import Tensor, dtype

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)

# Memory and speed depend on the following numbers; results do not.

QUESTIONS_AT_ONCE = 1024
"""Number of questions that share a pass over the views."""

MORE_QUESTIONS_AT_ONCE = 4096
"""`QUESTIONS_AT_ONCE` on a GPU, which multiplies faster than views are read, and for views that stay in a bucket."""

HITS_AT_ONCE = 1 << 22
"""Number of hits, of all rankings, that a pass looks for, at most."""

SPARE = 16
"""Number of passages that are kept beyond 5/4 k, at first."""

MULTIPLIED_BYTES = 2 << 20
"""Size of the views in float32 that a CPU multiplies at once, in its cache."""

BLOCK_BYTES = 8 << 20
"""Size of the products that are ranked at once; their views in float32 take four times as much, at most."""

GPU_BLOCK_BYTES = 512 << 20
"""`BLOCK_BYTES` on a GPU, and the size of the views that are scored at once."""

GPU_SHARE = 0.5
"""Share of a GPU's free memory that the views may take; more of them are copied block by block in every pass."""

FEW_QUESTIONS = 16
"""Number of questions from which on a CPU multiplies views in layers, by oneDNN, on AMD's at twice the speed of MKL."""

SCORED_AT_ONCE = 1 << 14
"""Number of passages that are scored at once on a CPU."""

LARGEST_PRODUCT = 2.0**14
"""Questions are scaled so that no product in float16 is larger."""


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
        self.device = device
        self._longest_view = longest_view

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
        searched = self._all if among is None else _Passages.of(self, np.flatnonzero(self.counts * among))
        if not len(searched.rows):
            return tops
        k = width(k, len(searched.rows))
        with _whole_sums():
            for asked in self._groups(np.arange(len(queries)), k + k // 4 + SPARE, len(ranges)):
                self._fill(tops, queries, asked, k, k // 4 + SPARE, ranges, searched)
                report_done(int(asked[-1]) + 1)
        return tops

    def _groups(self, asked: np.ndarray, kept: int, rankings: int) -> list[np.ndarray]:
        """Returns `asked` in parts that share a pass."""
        few = self.device == "cpu" and not isinstance(self.views, StreamedViews)
        most = QUESTIONS_AT_ONCE if few else MORE_QUESTIONS_AT_ONCE
        at_once = max(1, min(most, HITS_AT_ONCE // (kept * rankings)))
        return [asked[start : start + at_once] for start in range(0, len(asked), at_once)]

    def _fill(
        self,
        tops: Sequence[TopPassages],
        queries: np.ndarray,
        asked: np.ndarray,
        k: int,
        spare: int,
        ranges: Sequence[ViewRange],
        searched: _Passages,
    ) -> None:
        """Fills the best passages of the questions `asked` into `tops`, those of each of `ranges`."""
        kept = width(k + spare, len(searched.rows))
        multiplied = _vectors(queries[asked], self._longest, _product_type(self.device))
        vectors, bound = (each.to(self.device) for each in multiplied)
        found = [_Ranking(self, queries[asked], bound, k, kept, each) for each in ranges]
        for block in self._blocks(vectors, searched):
            for ranking in found:
                ranking.add(block)
                if isinstance(self.views, StreamedViews):  # while the views are held
                    ranking.score()
        for top, view_range, ranking in zip(tops, ranges, found, strict=True):
            for again in self._groups(ranking.fill(top, asked), k + 4 * spare, 1):
                self._fill([top], queries, again, k, 4 * spare, [view_range], searched)

    def _blocks(self, vectors: Tensor, searched: _Passages) -> Iterator[_Block | _Layers]:
        """Yields the products of the views of some passages with `vectors`, block by block."""
        block_bytes = BLOCK_BYTES if vectors.is_cpu else GPU_BLOCK_BYTES
        row_bytes = VIEW_DTYPE.itemsize * self.views.shape[1]
        most = max(1, min(block_bytes // (vectors.itemsize * len(vectors)), 4 * block_bytes // row_bytes))
        if isinstance(self.views, StreamedViews):  # what is kept is scored from blocks that are held
            most = min(most, self.views.rows_per_block)
        starts = searched.starts
        cuts = np.unique(np.searchsorted(starts, np.arange(most, starts[-1], most), side="right") - 1)
        cuts = [0, *cuts[cuts > 0].tolist(), len(searched.rows)]
        multiply = _multiplier(vectors, int(np.diff(starts[cuts]).max()))
        for first, last in itertools.pairwise(cuts):
            if not _in_layers(vectors):
                yield _Block(searched, first, last, multiply(self._read(searched, first, last)))
            elif searched.each == 1:
                yield _Layers(
                    searched.rows[first:last], [last - first], multiply(self._read(searched, first, last))
                )
            else:
                passages = searched.rows[first:last]
                passages = passages[np.argsort(-self.counts[passages], kind="stable")]
                sizes = np.cumsum(np.bincount(self.counts[passages])[:0:-1])[::-1].tolist()
                rows = np.concatenate(
                    [self.offsets[passages[:size]] + view for view, size in enumerate(sizes)]
                )
                yield _Layers(passages, sizes, multiply(tensor(self.views.take(rows, axis=0))))

    def _read(self, searched: _Passages, first: int, last: int) -> Tensor:
        """Returns the views of the passages [first, last) of some [n, dim]."""
        import torch

        start, end = self.offsets[searched.rows[first]], searched.rows[last - 1]
        stop = self.offsets[end] + self.counts[end]
        if stop - start == searched.starts[last] - searched.starts[first]:
            return tensor(self.views[start:stop]) if self.resident is None else self.resident[start:stop]
        rows = rows_in(self.offsets[searched.rows[first:last]], searched.counts[first:last])
        if self.resident is None:
            return tensor(self.views.take(rows, axis=0))
        return self.resident.index_select(0, torch.from_numpy(rows).to(self.resident.device))

    @cached_property
    def _all(self) -> _Passages:
        return _Passages.of(self, np.flatnonzero(self.counts))

    @cached_property
    def resident(self) -> Tensor | None:
        """The views in a GPU's memory, if they fit."""
        import torch

        if not self.device.startswith("cuda") or isinstance(self.views, StreamedViews):
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        return tensor(self.views).to(self.device) if self.views.nbytes <= GPU_SHARE * free else None

    def scores(
        self, passages: Tensor, queries: np.ndarray, questions: Tensor, view_range: ViewRange
    ) -> tuple[Tensor, Tensor]:
        """Scores pairs of a passage and a question by the max over a range of the passage's views, in float64.

        Returns the scores [n] float64 and which view has each [n] int64. `queries` [q, dim] float64. No pair may occur twice.
        """
        import torch

        if self.resident is not None:
            asked = torch.from_numpy(queries).to(self.device)
            return self._scores_on_gpu(self.resident, passages, asked, questions, view_range)
        first, stop = view_range
        rows, of = passages.cpu().numpy(), questions.cpu().numpy()
        order = stable_order(rows)
        scores, views = np.empty(len(rows)), np.empty(len(rows), np.int64)
        for start in range(0, len(rows), SCORED_AT_ONCE):
            some = order[start : start + SCORED_AT_ONCE]
            firsts, counts = self.offsets[rows[some]], np.clip(self.counts[rows[some]], 0, stop) - first
            scores[some], views[some] = score_passages(self.views, firsts + first, counts, queries, of[some])
        return torch.from_numpy(scores).to(self.device), torch.from_numpy(first + views).to(self.device)

    def _scores_on_gpu(
        self, views: Tensor, passages: Tensor, queries: Tensor, questions: Tensor, view_range: ViewRange
    ) -> tuple[Tensor, Tensor]:
        """See `scores`. All parts have one shape, so that one kernel sums all scores in one order."""
        import torch

        offsets, numbers = self._rows_on_gpu
        numbers = numbers[slice(*view_range)]
        size = max(1, min(len(passages), GPU_BLOCK_BYTES // (8 * len(numbers) * views.shape[1])))
        found = []
        for start in range(0, len(passages), size):
            part = slice(max(0, min(start, len(passages) - size)), start + size)
            rows = offsets[passages[part], None] + numbers
            products = (views[rows.clamp(max=len(views) - 1)] * queries[questions[part], None]).sum(dim=2)
            products.masked_fill_(rows >= offsets[passages[part] + 1, None], -torch.inf)
            best = products.amax(dim=1, keepdim=True)
            winning = torch.where(products == best, numbers, numbers[-1]).amin(dim=1)
            found.append((best[start - part.start :, 0], winning[start - part.start :]))
        scores, winning = zip(*found, strict=True)
        return torch.cat(scores), torch.cat(winning)

    @cached_property
    def _rows_on_gpu(self) -> tuple[Tensor, Tensor]:
        """The row of each passage's first view, with the number of all views at last, and the numbers of views."""
        import torch

        offsets = torch.from_numpy(np.append(self.offsets, len(self.views)))
        return offsets.to(self.device), torch.arange(int(self.counts.max()), device=self.device)

    @cached_property
    def _longest(self) -> float:
        return view_norms(self.views).longest if self._longest_view is None else self._longest_view


def _product_type(device: str) -> dtype:
    """Returns the type of products on a device."""
    import torch

    return torch.float32 if device == "cpu" else torch.float16


def _vectors(queries: np.ndarray, longest_view: float, dtype: dtype) -> tuple[Tensor, Tensor]:
    """Returns the vectors of questions as they are multiplied [q, dim], each times some factor, and how far a product of
    one is from its score times that factor, at most [q, 1] float64.

    A sum in any order is off by γ |q| |v| with γ = n u / (1 - n u), where n counts the width and two more. In float32, u
    is 2^-24. Of float16 products are exact, and a GPU sums them in float32, but cuts off what it should round, so u is
    four times that; besides, vectors and sums are rounded to float16.
    """
    import torch

    half = dtype == torch.float16
    given = queries.astype(np.float64)
    norms = np.linalg.norm(given, axis=1, keepdims=True)
    if half:
        wanted = min(1.0, LARGEST_PRODUCT / max(longest_view, 1.0))
        given *= 2.0 ** np.floor(np.log2(wanted / np.maximum(norms, 1e-300)))
    vectors = given.astype(np.float16 if half else np.float32)
    rounded = vectors.astype(np.float64)
    norms, lost = (np.linalg.norm(each, axis=1, keepdims=True) for each in (rounded, given - rounded))
    terms = (queries.shape[1] + 2) * 2.0 ** (-22 if half else -24)
    share, least = terms / (1 - terms) + (2.0**-11 if half else 0), 2.0 ** (-23 if half else -124)
    # `least` is more than is lost where a processor takes numbers below the least normal one for 0.
    bound = longest_view * (lost + share * norms) * (1 + 1e-6) + queries.shape[1] * least * (1 + longest_view)
    return torch.from_numpy(vectors), torch.from_numpy(bound)


def _multiplier(vectors: Tensor, most: int) -> Callable[[Tensor], Tensor]:
    """Returns a function of at most `most` views [n, dim] float16 that returns their products with `vectors`, which are
    overwritten by the next: [q, n] for many on a CPU, otherwise [n, q].
    """
    import torch

    if vectors.dtype == torch.float16:
        products = vectors.new_empty(most, len(vectors))
        return lambda views: torch.mm(views.to(vectors.device), vectors.T, out=products[: len(views)])
    rows = max(1, min(most, MULTIPLIED_BYTES // (4 * vectors.shape[1])))
    block, products = vectors.new_zeros(rows, vectors.shape[1]), vectors.new_empty(len(vectors), most)
    layered = _in_layers(vectors)
    if not layered:
        products = products.view(most, len(vectors))
    elif torch.backends.mkldnn.is_available():
        vectors = vectors.to_mkldnn()

    def multiply(views: Tensor) -> Tensor:
        for start, some in zip(range(0, len(views), rows), views.split(rows), strict=True):
            used, part = block[: len(some)].copy_(some), slice(start, start + len(some))
            if not layered:
                torch.mm(used, vectors.T, out=products[part])
            else:  # always of one size, since oneDNN compiles a kernel per size
                found = torch.nn.functional.linear(vectors, block)
                products[:, part] = (found.to_dense() if vectors.is_mkldnn else found)[:, : len(some)]
        return products[:, : len(views)] if layered else products[: len(views)]

    return multiply


def _in_layers(vectors: Tensor) -> bool:
    """Whether views are multiplied with `vectors` in layers: on a CPU with many, whose products are not in its cache."""
    return vectors.is_cpu and vectors.itemsize == 4 and len(vectors) >= FEW_QUESTIONS


@dataclass(frozen=True)
class _Passages:
    """Passages that are searched, each with at least one view."""

    rows: np.ndarray
    """[p] int64, rising."""
    counts: np.ndarray
    """[p] int64: number of views of each."""
    starts: np.ndarray
    """[p + 1] int64: position of each passage's first view among those of all of them, and the number of all."""
    each: int
    """Number of views of every one, if it is the same; otherwise 0."""
    on_device: tuple[Tensor, Tensor]
    """`rows` and `starts` on the device that multiplies."""

    @classmethod
    def of(cls, search: ExactSearch, rows: np.ndarray) -> _Passages:
        """Returns the passages of some `rows`."""
        import torch

        counts = search.counts[rows]
        starts = np.append(0, np.cumsum(counts))
        each = int(counts[0]) if len(rows) and (counts == counts[0]).all() else 0
        on_device = torch.from_numpy(rows).to(search.device), torch.from_numpy(starts).to(search.device)
        return cls(rows, counts, starts, each, on_device)


@dataclass(frozen=True)
class _Block:
    """The products of all views of the passages [first, last) of some."""

    passages: _Passages
    first: int
    last: int
    products: Tensor
    """[n, q] float32 on the device that multiplied: of the views of each passage, one after another."""

    def best(self, view_range: ViewRange) -> tuple[Tensor, Tensor]:
        """Returns the passages that have views in a range [p], and the highest product of these with each question [q, p]."""
        import torch

        (first, stop), products, searched = view_range, self.products, self.passages
        some, base = slice(self.first, self.last), searched.starts[self.first]
        passages, starts = (
            searched.on_device[0][some],
            searched.on_device[1][self.first : self.last + 1] - base,
        )
        if searched.each:
            grouped = products.view(len(passages), searched.each, -1)[:, first:stop]
            if not grouped.shape[1]:
                return passages[:0], products[:0].T
            return passages, grouped.amax(1).T.contiguous()
        if view_range != ALL_VIEWS:
            counts = np.clip(searched.counts[some], 0, stop) - first
            having = np.flatnonzero(counts > 0)
            rows = rows_in(searched.starts[some][having] - base + first, counts[having])
            chosen = (having, rows, np.append(0, np.cumsum(counts[having])))
            having, rows, starts = (torch.from_numpy(each).to(products.device) for each in chosen)
            passages, products = passages[having], products.index_select(0, rows)
        return passages, torch.segment_reduce(products, "max", offsets=starts, unsafe=True).T.contiguous()


@dataclass(frozen=True)
class _Layers:
    """The products of all views of some passages, in layers: of all first views, then all second ones, and so on."""

    passages: np.ndarray
    """[p] int64, those with the most views first."""
    sizes: Sequence[int]
    """Number of passages in each layer."""
    products: Tensor
    """[q, n] float32."""

    def best(self, view_range: ViewRange) -> tuple[Tensor, Tensor]:
        """As that of `_Block`."""
        import torch

        layers = self.products.split(list(self.sizes), dim=1)[slice(*view_range)]
        best = layers[0].clone() if layers else self.products[:, :0]
        for layer in layers[1:]:
            some = best[:, : layer.shape[1]]
            torch.maximum(some, layer, out=some)
        return torch.from_numpy(self.passages[: best.shape[1]]), best


class _Ranking:
    """The passages with the highest products of each question, by a range of their views."""

    def __init__(
        self,
        search: ExactSearch,
        queries: np.ndarray,
        bound: Tensor,
        k: int,
        kept: int,
        view_range: ViewRange,
    ) -> None:
        """`kept` is the number of passages that are kept of each question, and `bound` [q, 1] as in `_vectors`."""
        self._search, self._k, self._kept, self._range = search, k, kept, view_range
        self._queries = queries.astype(np.float64)
        self._bound = bound
        self._columns: list[Tensor] = []
        """Of what is kept [q, kept]: products and passages int64; once they are scored, scores float64 (NaN for those that
        are not) and winning views int64 too."""
        self._waiting: list[tuple[Tensor, Tensor]] = []
        """Products [q, n] and passages [n] to choose from besides."""
        self._left_out = False
        """Whether there are passages that are not kept."""

    def add(self, block: _Block | _Layers) -> None:
        """Keeps the passages of a block whose products are higher than those kept before."""
        passages, best = block.best(self._range)
        if len(passages):
            self._waiting.append((best, passages))
        if sum(len(some) for _, some in self._waiting) >= 4 * self._kept:
            self._choose()

    def _choose(self) -> None:
        """Keeps the passages with the highest products."""
        import torch

        if not self._waiting:
            return
        before = self._columns[0].shape[1] if self._columns else 0
        products, passages = zip(*self._waiting, strict=True)
        joined, new = torch.cat([*self._columns[:1], *products], dim=1), torch.cat(passages)
        self._waiting.clear()
        kept = width(self._kept, joined.shape[1])
        self._left_out |= kept < joined.shape[1]
        chosen = _largest(joined, kept)
        if before:
            old, places = chosen < before, chosen.clamp(max=before - 1)
            known = [column.gather(1, places) for column in self._columns[1:]]
            missing = (new[(chosen - before).clamp(min=0)], torch.nan, -1)
            others = [torch.where(old, column, other) for column, other in zip(known, missing, strict=False)]
        else:
            others = [new[chosen]]
        self._columns = [joined.gather(1, chosen), *others]

    def _lowest(self) -> Tensor:
        """Returns the product below which no passage is among the k best [q, 1] float64."""
        products = self._columns[0]
        best = products.gather(1, _largest(products, min(self._k, products.shape[1])))
        return best.amin(dim=1, keepdim=True).double() - 2 * self._bound

    def _uncertain(self) -> Tensor:
        """Returns the questions that may have a passage among their k best that is not kept [q, 1] bool."""
        return (self._columns[0].amin(dim=1, keepdim=True) >= self._lowest()) & self._left_out

    def score(self, questions: Tensor | bool = True) -> None:
        """Scores those that can be among the best of some `questions` [q, 1] bool, unless they are scored already."""
        import torch

        self._choose()
        if not self._columns:
            return
        if len(self._columns) == 2:
            missing = torch.full_like(self._columns[0], torch.nan, dtype=torch.float64)
            self._columns += [missing, missing.long()]
        products, passages, scores, views = self._columns
        questions, places = ((products >= self._lowest()) & scores.isnan() & questions).nonzero(as_tuple=True)
        if len(places):
            found = self._search.scores(passages[questions, places], self._queries, questions, self._range)
            scores[questions, places], views[questions, places] = found

    def fill(self, top: TopPassages, asked: np.ndarray) -> np.ndarray:
        """Fills the k best passages into the rows `asked` of `top`; returns those of them whose best may not be kept."""
        import torch

        self._choose()
        if not self._columns:
            return asked[:0]
        uncertain = self._uncertain()
        self.score(~uncertain)
        _, passages, scores, views = self._columns
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        order = _order(scores)
        columns = torch.stack([scores, passages.double(), views.double()]).gather(2, order.expand(3, -1, -1))
        ties = (columns[0, :, 1:] == columns[0, :, :-1]) & (columns[0, :, 1:] > -torch.inf)
        for row in ties.any(dim=1).nonzero().flatten().tolist():  # which is rare, and ids are sorted late
            some = columns[:, row].cpu().numpy()
            order = best_first(some[0], self._search.tie_order[some[1].astype(np.int64)])
            columns[:, row] = torch.from_numpy(some[:, order]).to(columns.device)
        best = columns[:, :, : self._k].cpu().numpy()
        best[1:, np.isneginf(best[0])] = -1
        for into, values in zip((top.scores, top.passages, top.winning_views), best, strict=True):
            into[asked, : best.shape[2]] = values
        return asked[uncertain[:, 0].cpu().numpy()]


def _largest(values: Tensor, count: int) -> Tensor:
    """Returns the positions of the `count` largest of each row [q, count] int64, in any order."""
    import torch

    if not values.is_cpu:
        return values.topk(count, dim=1).indices
    # NumPy's selection is several times as fast as torch's.
    rest = values.shape[1] - count
    return torch.from_numpy(np.argpartition(values.numpy(), rest, axis=1)[:, rest:])


def _order(values: Tensor) -> Tensor:
    """Returns the order of each row by falling values [q, n] int64; those that tie are in any order."""
    import torch

    if not values.is_cpu:
        return values.argsort(dim=1, descending=True)
    return torch.from_numpy(np.argsort(-values.numpy(), axis=1))


@contextlib.contextmanager
def _whole_sums() -> Iterator[None]:
    """Keeps TF32, bfloat16 and sums in float16 out of products, which would be outside of their bound."""
    import torch

    cublas = torch.backends.cuda.matmul
    chosen = torch.get_float32_matmul_precision(), cublas.allow_fp16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")
    cublas.allow_fp16_reduced_precision_reduction = False
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_float32_matmul_precision(chosen[0])
        cublas.allow_fp16_reduced_precision_reduction = chosen[1]
