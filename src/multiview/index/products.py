"""Products of stored views with questions, block by block, on the CPU or on a GPU.

The code is torch's on both, but on the CPU, NumPy selects, with functions that are up to five times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multiview.index.kernels import Kernel

if TYPE_CHECKING:
    from torch import Tensor, device

BLOCK_BYTES = 4 << 20
"""Size of the block of views in float32 that is multiplied at once. Only speed depends on it."""

SCORES_BYTES = 4 << 20
"""Size of the products that are ranked at once. Speed depends on it, and memory: each of them may be proposed."""

GPU_BLOCK_BYTES = 64 << 20
"""Both sizes on a GPU, where products of a whole block are ranked at once however many they are."""


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
    """[n, q] float32: product of each view with each question."""
    starts: np.ndarray
    """[p] int64: position in the block of each passage's first view, rising."""
    counts: np.ndarray
    """[p] int64: number of each passage's views."""
    among: np.ndarray | None = None
    """[p] bool: which of the passages may be found; none: all."""

    def part(self, first: int, stop: int | None) -> Part:
        """The products of views [first, stop) of the passages that may be found."""
        import torch

        counts = np.clip(self.counts, 0, stop) - first
        some = np.flatnonzero(counts > 0 if self.among is None else (counts > 0) & self.among)
        counts = counts[some]
        views, products = counts.sum(), self.products
        firsts = np.cumsum(counts) - counts
        rows = np.arange(views) + np.repeat(self.starts[some] + first - firsts, counts)
        if views < len(products):
            products = products[torch.from_numpy(rows).to(products.device)]
        return Part(products, self.first_view + rows, self.first_passage + some, counts)


@dataclass(frozen=True)
class Part:
    """The products of some views of a block, those of each passage one after another."""

    products: Tensor
    """[n, q] float32, on the device that multiplied."""
    rows: np.ndarray
    """[n] int64: row of each view, rising."""
    passages: np.ndarray
    """[p] int64: the passages, rising."""
    counts: np.ndarray
    """[p] int64: number of each passage's views, at least one."""

    def best(self) -> Tensor:
        """The highest product of each passage with each question [p, q] float32."""
        import torch

        products = self.products
        if len(products) == len(self.counts):
            return products
        runs = torch.from_numpy(np.repeat(np.arange(len(self.counts)), self.counts)).to(products.device)
        best = products.new_full((len(self.counts), products.shape[1]), -torch.inf)
        return best.scatter_reduce_(0, runs[:, None].expand_as(products), products, "amax")


def blocks(
    views: np.ndarray,
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
    block_bytes, scores_bytes = (
        (BLOCK_BYTES, SCORES_BYTES) if with_numpy(device) else (GPU_BLOCK_BYTES, GPU_BLOCK_BYTES)
    )
    rows_at_once = max(1, block_bytes // (4 * dim))
    ranked_at_once = max(1 if with_numpy(device) else rows_at_once, scores_bytes // (4 * questions))
    bounds = _bounds(offsets, len(views), ranked_at_once)
    at_once = min(max(stop - first for first, stop in pairwise(bounds)), rows_at_once)
    multiply = kernel.multiplier(at_once)
    for first, stop in pairwise(bounds):
        # A passage without views shares its offset with the next one; "right" finds the one that has the view.
        low, high = np.searchsorted(offsets, [first, stop - 1], side="right").tolist()
        within = None if among is None else among[low - 1 : high]
        if within is not None and not within.any():
            continue
        # Converted on a GPU: copying to another type would convert first and move twice the bytes.
        parts = [
            multiply(tensor(views[start : min(start + at_once, stop)]).to(device))
            for start in range(first, stop, at_once)
        ]
        products = parts[0] if len(parts) == 1 else torch.cat(parts)
        starts = offsets[low - 1 : high]
        counts = np.diff(starts, append=stop)
        yield Block(first, low - 1, products, starts - first, counts, within)


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


def highest(best: np.ndarray, more: Tensor) -> np.ndarray:
    """Returns the highest of `best` [q, k] and of `more` [n, q] for each question [q, k], the lowest of them first."""
    import torch

    both = torch.cat([torch.from_numpy(best).to(more.device), more.T], dim=1)
    if with_numpy(both.device):
        # A NaN counts as the highest, in NumPy and in torch.
        return np.partition(both.numpy(), len(more), axis=1)[:, len(more) :]
    return both.topk(best.shape[1]).values.flip(1).cpu().numpy()


def positions(products: Tensor, bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows and columns of the `products` [n, q] that reach the `bar` [q], row by row."""
    import torch

    reaching = products >= torch.from_numpy(bar).to(products.device)
    if with_numpy(reaching.device):
        flat = true_positions(reaching.numpy().ravel())
        rows = flat // reaching.shape[1]  # and not `np.divmod`, which divides one by one
        return rows, flat - rows * reaching.shape[1]
    rows, columns = reaching.nonzero().T.cpu().numpy()
    return rows, columns


def true_positions(mask: np.ndarray) -> np.ndarray:
    """Returns the positions of the true values of `mask` [n] bool, fast where they are few: eight are read at once."""
    whole = len(mask) // 8 * 8
    words = np.flatnonzero(mask[:whole].view(np.uint64))
    eights = mask[:whole].reshape(-1, 8)[words].ravel()
    inside = np.flatnonzero(eights)
    positions = words[inside // 8] * 8 + inside % 8
    return np.append(positions, whole + np.flatnonzero(mask[whole:])) if whole < len(mask) else positions


def picked(products: Tensor, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns the products [m] at `rows` and `columns` [m]."""
    import torch

    flat = torch.from_numpy(rows * products.shape[1] + columns).to(products.device)
    return products.reshape(-1).index_select(0, flat).cpu().numpy()


def tensor(array: np.ndarray) -> Tensor:
    """Returns a tensor over the memory of an array, which is only read."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of memory that is mapped read-only
        return torch.from_numpy(array)
