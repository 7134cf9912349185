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

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multiview.data.arrays import rows_in, stable_order
from multiview.encoding.embeddings import VIEW_DTYPE
from multiview.index.products import (
    ALL_VIEWS,
    Asked,
    Block,
    Layers,
    SearchedPassages,
    ViewRange,
    in_layers,
    multiplier,
    whole_sums,
)
from multiview.index.ranking import Ties, TopPassages, best_first, finite_questions, width
from multiview.index.stored_views import LONGEST_VIEW, score_on_gpu, score_passages, view_norms
from multiview.index.streamed_views import Matrix, StreamedViews

if TYPE_CHECKING:
    from torch import Tensor

# Memory and speed depend on the following numbers; results do not.

QUESTIONS_AT_ONCE, MORE_QUESTIONS_AT_ONCE = 1024, 4096
"""Number of questions that share a pass over the views; more do on a GPU, and for views that stay in a bucket."""

HITS_AT_ONCE = 1 << 22
"""Number of hits, of all rankings, that a pass looks for, at most."""

SPARE = 16
"""Number of passages that are kept beyond 5/4 k, at first."""

BLOCK_BYTES, GPU_BLOCK_BYTES = 8 << 20, 512 << 20
"""Size of the products of a block; its views take four times as much, at most. On a GPU also of the views scored at once."""

GPU_SHARE = 0.5
"""Share of a GPU's free memory that the views may take; more of them are copied block by block in every pass."""

SCORED_AT_ONCE = 1 << 14
"""Number of passages that are scored at once on a CPU."""


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
        queries = finite_questions(queries, k)
        tops = [TopPassages.empty(len(queries), k) for _ in ranges]
        searched = self._all if among is None else SearchedPassages.of(self.counts * among, self.device)
        if not len(searched.rows):
            return tops
        k = width(k, len(searched.rows))
        with whole_sums():
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
        searched: SearchedPassages,
    ) -> None:
        """Fills the best passages of the questions `asked` into `tops`, those of each of `ranges`."""
        kept = width(k + spare, len(searched.rows))
        questions = Asked.of(queries[asked], self._longest, self.device)
        found = [_Ranking(self, questions, k, kept, each) for each in ranges]
        for block in self._blocks(questions.vectors, searched):
            for ranking in found:
                ranking.add(block)
                if isinstance(self.views, StreamedViews):  # while the views are held
                    ranking.score()
        for top, view_range, ranking in zip(tops, ranges, found, strict=True):
            for again in self._groups(ranking.fill(top, asked), k + 4 * spare, 1):
                self._fill([top], queries, again, k, 4 * spare, [view_range], searched)

    def _blocks(self, vectors: Tensor, searched: SearchedPassages) -> Iterator[Block | Layers]:
        """Yields the products of the views of some passages with `vectors`, block by block."""
        import torch

        block_bytes = BLOCK_BYTES if vectors.is_cpu else GPU_BLOCK_BYTES
        most = max(1, block_bytes // (vectors.itemsize * len(vectors)))
        if self.resident is None or searched is not self._all:  # views are copied
            most = max(1, min(most, 4 * block_bytes // (VIEW_DTYPE.itemsize * self.views.shape[1])))
        if isinstance(self.views, StreamedViews):  # what is kept is scored from blocks that are held
            most = min(most, self.views.rows_per_block)
        starts = searched.starts
        cuts = np.unique(np.searchsorted(starts, np.arange(most, starts[-1], most), side="right") - 1)
        cuts = [0, *cuts[cuts > 0].tolist(), len(searched.rows)]
        multiply = multiplier(vectors, int(np.diff(starts[cuts]).max()))
        for first, last in itertools.pairwise(cuts):
            if not in_layers(vectors):
                yield Block(searched, first, last, multiply(self._read(searched, first, last)))
            elif searched.each == 1:
                yield Layers(
                    searched.rows[first:last], [last - first], multiply(self._read(searched, first, last))
                )
            else:
                passages = searched.rows[first:last]
                passages = passages[np.argsort(-self.counts[passages], kind="stable")]
                sizes = np.cumsum(np.bincount(self.counts[passages])[:0:-1])[::-1].tolist()
                rows = np.concatenate(
                    [self.offsets[passages[:size]] + view for view, size in enumerate(sizes)]
                )
                yield Layers(passages, sizes, multiply(torch.from_numpy(self.views.take(rows, axis=0))))

    def _read(self, searched: SearchedPassages, first: int, last: int) -> Tensor:
        """Returns the views of the passages [first, last) of some [n, dim]."""
        import torch

        start, end = self.offsets[searched.rows[first]], searched.rows[last - 1]
        stop = self.offsets[end] + self.counts[end]
        if stop - start == searched.starts[last] - searched.starts[first]:
            return (
                torch.from_numpy(self.views[start:stop])
                if self.resident is None
                else self.resident[start:stop]
            )
        rows = rows_in(self.offsets[searched.rows[first:last]], searched.counts[first:last])
        if self.resident is None:
            return torch.from_numpy(self.views.take(rows, axis=0))
        return self.resident.index_select(0, torch.from_numpy(rows).to(self.resident.device))

    @cached_property
    def _all(self) -> SearchedPassages:
        return SearchedPassages.of(self.counts, self.device)

    @cached_property
    def resident(self) -> Tensor | None:
        """The views in a GPU's memory, if they fit."""
        import torch

        if not self.device.startswith("cuda") or isinstance(self.views, StreamedViews):
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        return torch.from_numpy(self.views).to(self.device) if self.views.nbytes <= GPU_SHARE * free else None

    def scores(
        self, passages: Tensor, questions: Tensor, asked: Asked, view_range: ViewRange
    ) -> tuple[Tensor, Tensor]:
        """Returns the scores [n] float64 of pairs of a passage and a question by a range of views, and the views that have
        them [n] int64, as `score_passages`; `questions` [n] are positions in `asked`."""
        import torch

        (first, stop), queries = view_range, asked.queries.cpu().numpy()
        rows, of = passages.cpu().numpy(), questions.cpu().numpy()
        order = stable_order(rows)
        scores, views = np.empty(len(rows)), np.empty(len(rows), np.int64)
        for start in range(0, len(rows), SCORED_AT_ONCE):
            some = order[start : start + SCORED_AT_ONCE]
            firsts, counts = self.offsets[rows[some]], np.clip(self.counts[rows[some]], 0, stop) - first
            scores[some], views[some] = score_passages(self.views, firsts + first, counts, queries, of[some])
        return torch.from_numpy(scores).to(self.device), torch.from_numpy(first + views).to(self.device)

    def scores_on_gpu(
        self, resident: Tensor, passages: Tensor, wanted: Tensor, asked: Asked, view_range: ViewRange
    ) -> tuple[Tensor, Tensor]:
        """Returns what `scores` does of those `passages` of each question [q, k] that are `wanted` [q, k] bool."""
        import torch

        offsets, numbers = self._offsets_on_gpu
        numbers = numbers[slice(*view_range)]
        at_once = max(1, GPU_BLOCK_BYTES // (len(numbers) * resident.shape[1] * resident.itemsize))
        across = min(passages.shape[1], at_once)
        found = []
        questions = max(1, at_once // across)
        for start in range(0, len(passages), questions):
            some, columns = slice(start, start + questions), []
            for these, chosen in zip(
                passages[some].split(across, 1), wanted[some].split(across, 1), strict=True
            ):
                rows = offsets[these][:, :, None] + numbers
                there = (rows < offsets[these + 1][:, :, None]) & chosen[:, :, None]
                of = (each[some] for each in asked)
                columns.append(score_on_gpu(resident, rows.clamp(max=len(resident) - 1), there, *of))
            found.append([torch.cat(each, dim=1) for each in zip(*columns, strict=True)])
        scores, views = (torch.cat(each) for each in zip(*found, strict=True))
        return scores, numbers[0] + views

    @cached_property
    def _offsets_on_gpu(self) -> tuple[Tensor, Tensor]:
        """The row of each passage's first view, with the number of all views at last; and the numbers of views."""
        import torch

        offsets = torch.from_numpy(np.append(self.offsets, len(self.views)))
        return offsets.to(self.device), torch.arange(int(self.counts.max()), device=self.device)

    @cached_property
    def _longest(self) -> float:
        return view_norms(self.views)[LONGEST_VIEW] if self._longest_view is None else self._longest_view


class _Ranking:
    """The passages with the highest products of each question, by a range of their views."""

    def __init__(self, search: ExactSearch, asked: Asked, k: int, kept: int, view_range: ViewRange) -> None:
        """`kept` is the number of passages that are kept of each question."""
        self._search, self._asked, self._k, self._kept, self._range = search, asked, k, kept, view_range
        self._columns: list[Tensor] = []
        """Columns [q, kept] of what is kept: products and passages int64; once they are scored, scores float64 (NaN for
        those that are not) and winning views int64 too."""
        self._waiting: list[tuple[Tensor, Tensor]] = []
        """Products [q, n] and passages [n] to choose from besides."""
        self._left_out = False
        """Whether there are passages that are not kept."""

    def add(self, block: Block | Layers) -> None:
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
        return best.amin(dim=1, keepdim=True).double() - 2 * self._asked.bound

    def score(self) -> None:
        """Scores those that can be among the best, while the views are held."""
        self._choose()
        if self._columns:
            self._score(self._columns[0] >= self._lowest())

    def _score(self, wanted: Tensor) -> None:
        """Scores those that are `wanted` [q, kept] bool, unless they are scored already."""
        import torch

        if len(self._columns) == 2:
            missing = torch.full_like(self._columns[0], torch.nan, dtype=torch.float64)
            self._columns += [missing, missing.long()]
        _, passages, scores, views = self._columns
        wanted = wanted & scores.isnan()
        if (resident := self._search.resident) is not None:
            new, winning = self._search.scores_on_gpu(resident, passages, wanted, self._asked, self._range)
            self._columns[2:] = torch.where(wanted, new, scores), torch.where(wanted, winning, views)
            return
        questions, places = wanted.nonzero(as_tuple=True)
        if len(places):
            found = self._search.scores(passages[questions, places], questions, self._asked, self._range)
            scores[questions, places], views[questions, places] = found

    def fill(self, top: TopPassages, asked: np.ndarray) -> np.ndarray:
        """Fills the k best passages into the rows `asked` of `top`; returns those of them whose best may not be kept."""
        import torch

        self._choose()
        if not self._columns:
            return asked[:0]
        products, lowest = self._columns[0], self._lowest()
        uncertain = (
            products.amin(dim=1, keepdim=True) >= lowest
        ) & self._left_out  # others can be among the best
        self._score((products >= lowest) & ~uncertain)
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
