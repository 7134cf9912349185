"""Products of stored views with questions, block by block, on the CPU or on a GPU.

The code is torch's on both, but on the CPU, NumPy selects, with kernels that are up to five times as fast, and oneDNN
multiplies, at twice the speed of OpenBLAS and MKL on some processors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, device

BLOCK_BYTES = 4 << 20
"""Size of the block of views in float32 that is multiplied at once. Only speed depends on it."""

SCORES_BYTES = 4 << 20
"""Size of the products that are ranked at once, of few questions. Only speed depends on it."""

GPU_BLOCK_BYTES = 64 << 20
"""Both sizes on a GPU."""


ONEDNN_QUESTIONS = 8
"""Number of questions from which on oneDNN multiplies instead of NumPy. Only speed depends on it."""


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

    def passages(self, first: int, stop: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The passages that have views [first, stop) of their own and may be found, and the first and the number of these
        views [p] int64."""
        counts = np.clip(self.counts, 0, stop) - first
        some = np.flatnonzero(counts > 0 if self.among is None else (counts > 0) & self.among)
        return self.first_passage + some, self.starts[some] + first, counts[some]

    def best(self, starts: np.ndarray, counts: np.ndarray) -> Tensor:
        """The highest product of each run of `counts` views from `starts` on, with each question [p, q] float32."""
        import torch

        firsts = np.cumsum(counts) - counts
        views, products = counts.sum(), self.products
        if views < len(products):
            rows = np.arange(views) + np.repeat(starts - firsts, counts)
            products = products[torch.from_numpy(rows).to(products.device)]
        if views == len(counts):
            return products
        runs = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(products.device)
        best = products.new_full((len(counts), products.shape[1]), -torch.inf)
        return best.scatter_reduce_(0, runs[:, None].expand_as(products), products, "amax")


def blocks(
    views: np.ndarray,
    offsets: np.ndarray,
    queries: np.ndarray,
    device: device,
    among: np.ndarray | None = None,
) -> Iterator[Block]:
    """Yields the products of all `views` [v, dim] float16 with `queries` [q, dim] float32, in float32.

    `offsets` [p] is the row of each passage's first view, rising. Views are read once and in order, a block at a time;
    with `among` [p] bool, without the blocks that hold no passage of it.
    """
    import torch

    dim = views.shape[1]
    block_bytes, scores_bytes = (
        (BLOCK_BYTES, SCORES_BYTES) if with_numpy(device) else (GPU_BLOCK_BYTES, GPU_BLOCK_BYTES)
    )
    rows_at_once = max(1, block_bytes // (4 * dim))
    bounds = _bounds(offsets, len(views), max(rows_at_once, scores_bytes // (4 * len(queries))))
    rows = max(stop - first for first, stop in pairwise(bounds))
    matrix = torch.from_numpy(queries).to(device)
    # Of one size for all blocks, since oneDNN compiles a kernel per size; what is left in it beyond a block is not read.
    buffer = torch.zeros(min(rows, rows_at_once), dim, device=device)
    for first, stop in pairwise(bounds):
        # A passage without views shares its offset with the next one; "right" finds the one that has the view.
        low, high = np.searchsorted(offsets, [first, stop - 1], side="right").tolist()
        within = None if among is None else among[low - 1 : high]
        if within is not None and not within.any():
            continue
        parts = []
        for start in range(first, stop, len(buffer)):
            # On a GPU, converted there: copying to another type would convert first and move twice the bytes.
            part = tensor(views[start : min(start + len(buffer), stop)]).to(device)
            buffer[: len(part)] = part
            parts.append(_multiply(buffer, matrix)[: len(part)])
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


def _multiply(block: Tensor, queries: Tensor) -> Tensor:
    """The products of `block` [n, dim] with `queries` [q, dim], in float32 [n, q]."""
    import torch

    if block.device.type != "cpu":
        with _whole_float32():
            return block @ queries.T
    onednn = _onednn_product() if len(queries) >= ONEDNN_QUESTIONS else None
    if onednn is None:
        return torch.from_numpy(block.numpy() @ queries.numpy().T)
    with _whole_float32():
        return onednn(block, queries, None, "none", [], "")


def _onednn_product() -> Callable[..., Tensor] | None:
    """torch's product by oneDNN, which has no public name; None in a torch without it."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


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
        # Of all entries in a row, which is several times as fast as of two dimensions.
        rows, columns = np.divmod(np.flatnonzero(reaching.numpy()), reaching.shape[1])
        return rows, columns
    rows, columns = reaching.nonzero().T.cpu().numpy()
    return rows, columns


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
