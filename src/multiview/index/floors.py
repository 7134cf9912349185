"""Scores that the k best passages of a question probably have, guessed from a sample of the passages.

Whoever searches with such a floor checks afterwards that k passages reached it (`multiview.index.proposals`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from multiview.data.ranges import rows_in
from multiview.index.kernels import Kernel
from multiview.index.products import Highest, ViewRange, blocks

if TYPE_CHECKING:
    from torch import Tensor

EVERY = 12
"""A passage in so many is sampled. Only speed depends on it."""

SAMPLED_BYTES = 32 << 20
"""Size of the sampled views in float16, about, at most."""

SHARE = 4
"""A floor is guessed where one passage in so many, at most, would reach it. Only speed depends on it."""

DEVIATIONS = 4.0
"""Number of standard deviations of chance for which the guess has room. Only speed depends on it."""

FOLDED = 4
"""Number of sampled passages of which the best alone is ranked, at most. Only speed depends on it."""

ROOM = 8
"""Number of ranked passages per passage above the floor, at least, so that few of the best are of the same fold. Only
speed depends on it."""


def floors(
    views: np.ndarray,
    offsets: np.ndarray,
    kernel: Kernel,
    questions: int,
    k: int,
    ranges: Sequence[ViewRange],
    among: np.ndarray | None = None,
) -> list[np.ndarray] | None:
    """Returns, for each of `ranges`, the floor of each of a kernel's `questions` [q] float32, -inf where its sample is too small.

    None where a sample would rule out too little. `views`, `offsets` and `among` are as in `top_passages_by`.
    """
    import torch

    counts = np.diff(offsets, append=len(views))
    passages = np.flatnonzero(counts if among is None else counts * among)
    stored = 2 * views.shape[1] * int(counts[passages].sum())
    some = passages[:: max(EVERY, math.ceil(stored / SAMPLED_BYTES))]
    if not len(some) or SHARE * _rank(k, len(passages), len(some)) > len(some):
        return None
    rows = rows_in(offsets[some], counts[some])
    best, folds = [], []
    for first, _ in ranges:
        able, sampled = (int((counts[numbers] > first).sum()) for numbers in (passages, some))
        rank = _rank(min(k, able), able, sampled) if able else 1
        best.append(Highest(rank))
        folds.append(max(1, min(FOLDED, sampled // (ROOM * rank))))
    starts = np.cumsum(counts[some]) - counts[some]
    for block in blocks(views.take(rows, axis=0), starts, kernel, questions, torch.device("cpu")):
        for highest, fold, view_range in zip(best, folds, ranges, strict=True):
            part = block.part(*view_range)
            if len(part.passages):
                highest.add(_folded(part.best(), fold))
    return [highest.lowest(questions) for highest in best]


def _folded(products: Tensor, fold: int) -> Tensor:
    """Returns the highest of each `fold` of the `products` [n, q or more], which are of passages far from each other.

    The k-th highest of these is not above that of all, and hardly below, since passages far apart are seldom about the same.
    """
    import torch

    rows = -(-len(products) // fold)
    best = products[:rows]
    for start in range(rows, len(products), rows):
        more = products[start : start + rows]
        best = torch.cat([torch.maximum(best[: len(more)], more), best[len(more) :]])
    return best


def _rank(k: int, passages: int, sampled: int) -> int:
    """Returns the rank in a sample whose score k of all passages reach, all but certainly.

    The k best passages are k · sampled / passages of the sample on average, with a standard deviation of at most the root
    of that. Two more are for small numbers, where chance is not symmetric.
    """
    expected = k * sampled / passages
    return max(1, math.ceil(expected + DEVIATIONS * math.sqrt(expected) + 2))
