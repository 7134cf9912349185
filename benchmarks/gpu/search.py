"""Exact search over views that stay on the card, as `mine` and `evaluate` ask for it, beside a plain product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unittest import mock

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from benchmarks.gpu.sizes import DEVICE, Given, Searched, clock
from benchmarks.table import Contestant, Goal, Row, number, of_times
from benchmarks.timing import in_turns
from multiview.config import Evaluation, Mining
from multiview.evaluation.analyses.analysis_input import RANGES
from multiview.index import exact
from multiview.index.exact import ExactSearch
from multiview.index.ranking import ALL_VIEWS, ViewRange
from multiview.index.stored_views import LONGEST_VIEW
from multiview.index.view_index import ViewIndex

OURS, PLAIN = "ours", "product, max, top-k"
GOAL = Goal(of_bound=1 / 1.3)
CORNERS = ((1, 10), (1000, 100), (1, 1000), (1000, 1000), (100, 100))
"""Questions and k, what matters most first."""
OTHERS = ((100, 10), (100, 1000), (1, 100), (1000, 10))
SPREAD = 0.7
"""Deviation of views from the middle of their passage."""
MADE_AT_ONCE = 1 << 18
"""Passages whose views are made at once."""
BLOCK_BYTES = 2 << 30
"""Size of the plain product of a block."""
CHECKED = 8
"""Questions that are ranked in float64 too."""


@dataclass
class Collection:
    """Random views of length 1, on the device and on the host; those of a passage are near each other."""

    kind: Searched

    @cached_property
    def views(self) -> Tensor:
        """[v, dim] float16 on the device."""
        made = torch.empty(self.kind.views, self.kind.dim, dtype=torch.float16, device=DEVICE)
        generator = torch.Generator(DEVICE).manual_seed(0)
        for block in made.split(MADE_AT_ONCE * self.kind.group):
            shape = len(block) // self.kind.group, 1, self.kind.dim
            middles = torch.randn(shape, generator=generator, device=DEVICE)
            views = torch.randn(shape[0], self.kind.group, shape[2], generator=generator, device=DEVICE)
            block.copy_(torch.nn.functional.normalize(SPREAD * views + middles, dim=2).flatten(0, 1))
        return made

    @cached_property
    def host(self) -> np.ndarray:
        """The same in memory."""
        return self.views.cpu().numpy()

    @cached_property
    def offsets(self) -> np.ndarray:
        """[p]: the row of each passage's first view."""
        views, group = self.kind.views, self.kind.group
        if not self.kind.uneven:
            return np.arange(0, views, group)
        offsets = np.cumsum(np.random.default_rng(0).integers(1, 2 * group, views)) - 1
        return np.append(0, offsets[offsets < views])

    @cached_property
    def longest(self) -> float:
        """The largest norm of a view, rounded up."""
        norms = (block.float().norm(dim=1).max().item() for block in self.views.split(1 << 20))
        return max(norms) * (1 + 1e-6)

    def questions(self, count: int) -> np.ndarray:
        """Vectors of length 1 [count, dim] float32, each near a random view."""
        generator = torch.Generator(DEVICE).manual_seed(1)
        rows = torch.randint(len(self.views), (count,), generator=generator, device=DEVICE)
        noise = torch.randn(count, self.kind.dim, generator=generator, device=DEVICE)
        near = self.views[rows].float() + noise / self.kind.dim**0.5
        return torch.nn.functional.normalize(near, dim=1).cpu().numpy()

    def search(self) -> ExactSearch:
        """Ours, whose views move to the device with the first search."""
        return ExactSearch(self.host, self.offsets, np.arange(len(self.offsets)), self.longest, DEVICE)

    def plain(
        self,
        asked: np.ndarray,
        k: int,
        views: Tensor | None = None,
        ranges: Sequence[ViewRange] = (ALL_VIEWS,),
        dtype: torch.dtype = torch.float16,
    ) -> list[tuple[Tensor, Tensor]]:
        """Scores and passages [q, k] by each range of views: a product, a maximum and torch's top-k, block by block.

        Maxima are over groups of equal size, which take as long as those of real passages.
        """
        queries, width = torch.from_numpy(asked).to(DEVICE, dtype), len(asked)
        if views is not None or dtype != self.views.dtype:
            width += self.kind.dim  # blocks of the views are copied
        views = self.views if views is None else views
        rows = max(1, BLOCK_BYTES // (dtype.itemsize * width * self.kind.group)) * self.kind.group
        found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in ranges]
        for part, block in enumerate(views.split(rows)):
            grouped = (queries @ block.to(DEVICE, dtype).T).unflatten(1, (-1, self.kind.group))
            for tops, (first, stop) in zip(found, ranges, strict=True):
                best = grouped[:, :, first:stop].amax(2)
                scores, passages = best.topk(min(k, best.shape[1]))
                tops.append((scores, passages + part * rows // self.kind.group))
        return [_joined(tops, k) for tops in found]


def _joined(tops: Sequence[tuple[Tensor, Tensor]], k: int) -> tuple[Tensor, Tensor]:
    scores, passages = (torch.cat(each, 1) for each in zip(*tops, strict=True))
    best = scores.topk(min(k, scores.shape[1]))
    return best.values.cpu(), passages.gather(1, best.indices).cpu()


def searching(work: Given, kind: Searched, asked: Sequence[tuple[int, int]]) -> Iterator[Row | str]:
    """A row per number of questions and k, then whether rankings equal float64's, and how long moving views takes."""
    given, begun = Collection(kind), clock()
    queries = given.questions(work.size.asked)
    made = clock()
    search = given.search()
    copied = clock()
    search.top(queries[:1], 1)
    moved = clock() - copied
    for count, k in asked:
        count, k = min(count, len(queries)), min(k, len(given.offsets))
        runs = {
            OURS: lambda count=count, k=k: search.top(queries[:count], k),
            PLAIN: lambda count=count, k=k: given.plain(queries[:count], k),
        }
        times = in_turns(runs, 2 * work.size.repeats, clock, limit=work.size.seconds)
        group = f"1 to {2 * kind.group - 1}" if kind.uneven else str(kind.group)
        about = f"exact search of {kind.views:,} views of {kind.dim}, {group} a passage"
        yield of_times(
            f"{about}, {count} question{'s' * (count > 1)}, k = {k}",
            "ms",
            times,
            ours=OURS,
            bound=PLAIN,
            goal=GOAL,
        )
    yield f"{kind.views:,} views of {kind.dim}: {number(kind.views * kind.dim * 2 / 1e9)} GB; made in {made - begun:.1f} s, copied to the host in {copied - made:.1f}; first search, which moves them to the device, {moved:.1f}"
    yield f"the same: {as_float64(given, search, queries[:CHECKED], min(100, len(given.offsets)))}"


def as_float64(given: Collection, search: ExactSearch, queries: np.ndarray, k: int) -> str:
    """Whether ours finds the same passages as brute force in float64, and how far apart the scores are."""
    top = search.top(queries, k)[0]
    if given.kind.uneven:
        products = torch.from_numpy(queries).to(DEVICE, torch.float64) @ given.views.double().T
        owners = torch.from_numpy(np.repeat(np.arange(len(given.offsets)), search.counts)).to(DEVICE)
        best = products.new_full((len(queries), len(given.offsets)), -torch.inf)
        best.scatter_reduce_(1, owners.expand(len(queries), -1), products, "amax")
        scores, passages = (each.cpu() for each in best.topk(k))
    else:
        ((scores, passages),) = given.plain(queries, k, dtype=torch.float64)
    equal = (top.passages == passages.numpy()).all(1).sum()
    apart = np.abs(top.scores - scores.numpy()).max()
    return f"rankings of {equal} of {len(queries)} questions are those of float64, k = {k}; scores at most {apart:.1e} apart"


def streamed(work: Given, kind: Searched) -> Iterator[Row | str]:
    """A row of views that stay on the host, as if the card had no room for them."""
    given = Collection(kind)
    search, queries, k = given.search(), given.questions(min(work.size.asked, 100)), 100
    host = torch.from_numpy(given.host)
    del given.views
    runs = {OURS: lambda: search.top(queries, k), PLAIN: lambda: given.plain(queries, k, host)}
    with mock.patch.object(exact, "GPU_SHARE", 0.0):
        times = in_turns(runs, work.size.repeats, clock, limit=work.size.seconds)
    about = f"exact search of {kind.views:,} views of {kind.dim} on the host"
    yield of_times(
        f"{about}, {len(queries)} questions, k = {k}", "ms", times, ours=OURS, bound=PLAIN, goal=GOAL
    )


def rankings(work: Given) -> Iterator[Row | str]:
    """Rows of the rankings that `mine` and `evaluate` need, with eight views per passage."""
    kind = Searched(8 * work.size.mined, 8, work.size.large.dim)
    given = Collection(kind)
    ids = pa.array([f"p{row}" for row in range(work.size.mined)])
    counts = np.full(work.size.mined, kind.group)
    header = {LONGEST_VIEW: given.longest, "model": "random"}
    index = ViewIndex(given.host, ids, given.offsets, counts, header, device=DEVICE)
    queries = given.questions(work.size.asked)
    analysed = [each for ranges in RANGES.values() for each in ranges(kind.group)]
    asked: dict[str, tuple[int, list[ViewRange]]] = {
        "mine": (Mining().depth, [ALL_VIEWS]),
        "evaluate, all views": (Evaluation().depth, [ALL_VIEWS]),
        "evaluate, with each view and the first views": (Evaluation().depth, [ALL_VIEWS, *analysed]),
    }
    for name, (k, ranges) in asked.items():
        ranges = list(dict.fromkeys(ranges))
        runs = {
            OURS: lambda k=k, ranges=ranges: index.search_views(ranges, queries, k),
            PLAIN: lambda k=k, ranges=ranges: given.plain(queries, k, ranges=ranges),
        }
        times = in_turns(runs, work.size.repeats, clock, limit=work.size.seconds)
        about = (
            f"rank for {name}: {len(queries):,} questions, {work.size.mined:,} passages of {kind.group} views"
        )
        yield of_times(f"{about}, k = {k}", "s", times, ours=OURS, bound=PLAIN, per=1000, goal=GOAL)


def ceilings(work: Given) -> Iterator[Row | str]:
    """What the device can do at most: bytes per second of a copy, and operations per second of a matrix product."""
    wide = 8192 if DEVICE == "cuda" else 256
    matrix = torch.randn(wide, wide, device=DEVICE, dtype=torch.bfloat16)
    single = matrix.float()
    large = torch.empty(wide * wide * 8, dtype=torch.float32, device=DEVICE)
    into = torch.empty_like(large)
    runs = {
        "bfloat16": lambda: matrix @ matrix,
        "float32": lambda: single @ single,
        "copy": lambda: into.copy_(large),
    }
    times = in_turns(runs, 3, clock, uncounted=2)
    seconds = {name: Contestant.of(of, per=1000).median or 1.0 for name, of in times.items()}
    yield f"the device's own speed: bfloat16 product {number(2 * wide**3 / seconds['bfloat16'] / 1e12)} TFLOP/s, float32 {number(2 * wide**3 / seconds['float32'] / 1e12)}; copy {number(2 * large.nbytes / seconds['copy'] / 1e12)} TB/s"
