"""Products of stored views with questions, block by block, on the CPU or on a GPU.

The code is torch's on both, but on the CPU, NumPy selects, with functions that are up to five times as fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multiview.index.kernels import ONEDNN_QUESTIONS, Kernel
from multiview.index.streamed_views import Matrix, StreamedViews

if TYPE_CHECKING:
    from torch import Tensor, device

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)

SCORES_BYTES = 4 << 20
"""Size of the products that are ranked at once. Speed depends on it, and memory: each of them may be proposed."""

GPU_SCORES_BYTES = 64 << 20
"""`SCORES_BYTES` on a GPU, where products of a whole block are ranked at once however many they are."""


def with_numpy(device: device) -> bool:
    """Whether NumPy selects, instead of torch."""
    return device.type == "cpu"


@dataclass(frozen=True)
class Block:
    """The products of all views of some successive passages, on the device that multiplied them."""

    first_view: int
    """Row of the first of the views."""
    first_passage: int
    """The passage of the first view."""
    products: Tensor
    """[n, q or more] float32 or bfloat16: product of each view with each question (see `Kernel.multiplier`)."""
    starts: np.ndarray
    """[p] int64: position in the block of each passage's first view, rising."""
    counts: np.ndarray
    """[p] int64: number of each passage's views."""
    among: np.ndarray | None = None
    """[p] bool: which of the passages may be found; none: all."""

    def part(self, first: int, stop: int | None) -> Part:
        """The products of views [first, stop) of the passages that may be found."""
        import torch

        if (first, stop) == ALL_VIEWS and self.among is None and self.counts.all():
            rows = np.arange(self.first_view, self.first_view + len(self.products))
            passages = np.arange(self.first_passage, self.first_passage + len(self.counts))
            return Part(self.products, rows, passages, self.counts)
        counts = np.clip(self.counts, 0, stop) - first
        some = np.flatnonzero(counts > 0 if self.among is None else (counts > 0) & self.among)
        counts = counts[some]
        views, products = counts.sum(), self.products
        firsts = np.cumsum(counts) - counts
        rows = np.arange(views) + np.repeat(self.starts[some] + first - firsts, counts)
        if views < len(products):
            products = products.index_select(0, torch.from_numpy(rows).to(products.device))
        return Part(products, self.first_view + rows, self.first_passage + some, counts)


@dataclass(frozen=True)
class Part:
    """The products of some views of a block, those of each passage one after another."""

    products: Tensor
    """[n, q or more] float32 or bfloat16, on the device that multiplied."""
    rows: np.ndarray
    """[n] int64: row of each view, rising."""
    passages: np.ndarray
    """[p] int64: the passages, rising."""
    counts: np.ndarray
    """[p] int64: number of each passage's views, at least one."""

    def best(self) -> Tensor:
        """The highest product of each passage with each question [p, q or more]."""
        import torch

        products = self.products
        if len(products) == len(self.counts):
            return products
        if with_numpy(products.device) and products.shape[1] < ONEDNN_QUESTIONS:
            firsts = np.cumsum(self.counts) - self.counts
            return torch.from_numpy(np.maximum.reduceat(products.numpy(), firsts))
        runs = torch.from_numpy(np.repeat(np.arange(len(self.counts)), self.counts)).to(products.device)
        best = products.new_full((len(self.counts), products.shape[1]), -torch.inf)
        return best.scatter_reduce_(0, runs[:, None].expand_as(products), products, "amax")


def blocks(
    views: Matrix,
    offsets: np.ndarray,
    kernel: Kernel,
    questions: int,
    device: device,
    among: np.ndarray | None = None,
) -> Iterator[Block]:
    """Yields the products of all `views` [v, dim] float16 with the questions of a kernel, so many as `questions` says.

    `offsets` [p] is the row of each passage's first view, rising. Views are read once and in order, a block at a time;
    with `among` [p] bool, without the blocks that hold no passage of it.
    """
    import torch

    dim = views.shape[1]
    scores_bytes = SCORES_BYTES if with_numpy(device) else GPU_SCORES_BYTES
    rows_at_once = max(1, kernel.block_bytes // (4 * dim))
    ranked_at_once = max(1 if with_numpy(device) else rows_at_once, scores_bytes // (4 * questions))
    if isinstance(views, StreamedViews):  # so that what is proposed can be scored from blocks that are held
        ranked_at_once = min(ranked_at_once, views.rows_per_block)
    bounds = _bounds(offsets, len(views), ranked_at_once)
    most = max(stop - first for first, stop in pairwise(bounds))
    # All parts have the size of the largest, so they are equal rather than full.
    at_once = math.ceil(most / math.ceil(most / rows_at_once))
    multiply, stored = kernel.multiplier(at_once), _sliced(views)
    for first, stop in pairwise(bounds):
        # A passage without views shares its offset with the next one; "right" finds the one that has the view.
        low, high = np.searchsorted(offsets, [first, stop - 1], side="right").tolist()
        within = None if among is None else among[low - 1 : high]
        if within is not None and not within.any():
            continue
        # Converted on a GPU: copying to another type would convert first and move twice the bytes.
        parts = [
            multiply(stored(slice(start, min(start + at_once, stop))).to(device))
            for start in range(first, stop, at_once)
        ]
        products = parts[0] if len(parts) == 1 else torch.cat(parts)
        starts = offsets[low - 1 : high]
        counts = np.diff(starts, append=stop)
        yield Block(first, low - 1, products, starts - first, counts, within)


def _sliced(views: Matrix) -> Callable[[slice], Tensor]:
    """Returns a function that slices the views: as one tensor, faster than NumPy, unless they are in a bucket."""
    if isinstance(views, np.ndarray):
        return tensor(views).__getitem__
    return lambda rows: tensor(views[rows])


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


class Highest:
    """The k highest products of each question with the passages seen so far."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._best: np.ndarray | None = None
        """[q, at most k] float32, or int16 for products in bfloat16 (see `in_order`)."""

    def add(self, products: Tensor) -> None:
        """Adds the products of further passages [n, q or more]."""
        import torch

        more = products.T
        if not with_numpy(more.device):
            new = more.topk(min(self._k, more.shape[1])).values.float().cpu().numpy()
        elif more.dtype == torch.bfloat16:
            new = in_order(more.contiguous().view(torch.int16).numpy())
        else:
            new = np.ascontiguousarray(more.numpy())
        both = new if self._best is None else np.concatenate([self._best, new], axis=1)
        if (surplus := both.shape[1] - self._k) > 0:
            both = np.partition(both, surplus, axis=1)[:, surplus:]
        self._best = both

    def lowest(self, questions: int) -> np.ndarray:
        """Returns the k-th highest product of each of so many questions [q] float32, -inf where there are fewer."""
        if self._best is None or self._best.shape[1] < self._k:
            return np.full(questions, -np.inf, np.float32)
        lowest = self._best[:questions].min(axis=1)
        return lowest if lowest.dtype == np.float32 else in_float32(in_order(lowest))


def reaching(products: Tensor, bar: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns rows, columns and values [m] of the `products` [n, q or more] that reach the `bar` [q] float32, row by row.

    Values are float32.
    """
    import torch

    bar = np.append(bar, np.full(products.shape[1] - len(bar), np.inf, bar.dtype))
    if not with_numpy(products.device):
        rows, columns = (products >= torch.from_numpy(bar).to(products.device)).nonzero().T
        return rows.cpu().numpy(), columns.cpu().numpy(), products[rows, columns].float().cpu().numpy()
    if products.dtype == torch.bfloat16:
        # NumPy has no bfloat16; as whole numbers twice as many are compared at once as in float32.
        bits, bar = products.view(torch.int16).numpy(), bits_reaching(bar)
        flat = true_positions(((bits if (bar > 0).all() else in_order(bits)) >= bar).ravel())
        values = in_float32(bits.ravel().take(flat))
    else:
        flat = true_positions((products.numpy() >= bar).ravel())
        values = products.numpy().ravel().take(flat)
    rows = flat // products.shape[1]  # and not `np.divmod`, which divides one by one
    return rows, flat - rows * products.shape[1], values


def bits_reaching(bar: np.ndarray) -> np.ndarray:
    """Returns the least number of bfloat16 that is at least `bar` [q] float32, as `in_order` has it [q] int16."""
    ordered = in_order(bar.view(np.int32))
    rounded_up = np.where(bar > 0, ordered + 0xFFFF, ordered) >> 16
    return np.where(bar == 0, -1, rounded_up).astype(np.int16)  # -0 reaches 0


def in_float32(bits: np.ndarray) -> np.ndarray:
    """Returns the numbers of bfloat16 with these bits, int16, in float32."""
    return (bits.astype(np.int32) << 16).view(np.float32)


def in_order(bits: np.ndarray) -> np.ndarray:
    """Returns the bits of numbers as whole numbers of the same order: -0 as -1, 0 as 0, and those above 0 as they were.

    `bits` [...] are those of float32 as int32, or those of bfloat16 as int16. The function is its own inverse.
    """
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)


def true_positions(mask: np.ndarray) -> np.ndarray:
    """Returns the positions of the true values of `mask` [n] bool, fast where they are few: eight are read at once."""
    whole = len(mask) // 8 * 8
    eights = mask[:whole].view(np.uint64)
    words = np.flatnonzero(eights != 0)
    inside = np.flatnonzero(eights[words].view(bool))
    positions = (words[inside >> 3] << 3) + (inside & 7)
    return np.append(positions, whole + np.flatnonzero(mask[whole:])) if whole < len(mask) else positions


def tensor(array: np.ndarray) -> Tensor:
    """Returns a tensor over the memory of an array, which is only read."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of memory that is mapped read-only
        return torch.from_numpy(array)
