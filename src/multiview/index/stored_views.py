"""Views as `encode` stored them, and the scores of passages by them."""

import math
import warnings

import numpy as np

from multiview.data.arrays import rows_in

# Harmless warnings of torch: views, which may be mapped, are only read, and sparse matrices only multiplied.
warnings.filterwarnings(
    "ignore", "The given NumPy array is not writable|Sparse CSR tensor support is in beta"
)

LONGEST_VIEW = "longest_view"
"""Field of an index's header: the largest Euclidean norm of its views, on which the rounding of their products depends."""

NORMS_AT_ONCE = 1024
"""Number of views whose norms are computed at once."""

SCORED_AT_ONCE, PAIRS_AT_ONCE = 1024, 1 << 14
"""Number of views that are scored in float64 at once, and of pairs of a passage and a question. Memory and speed depend on
them, results do not."""


def passages_of_views(view_rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Row of the passage that each view belongs to [n] int64.

    `offsets` [p] is the row of each passage's first view, ascending.
    """
    # A passage without views shares its offset with the next one; "right" finds the one that has the view.
    return np.searchsorted(offsets, view_rows, side="right") - 1


def score_rows(views: np.ndarray, rows: np.ndarray, queries: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Returns the scores [m] float64 of the views at `rows` [m], in ascending order, with the queries `questions` [m].

    `views` [v, dim] float16; `queries` [q, dim] float64. No pair may occur twice.
    """
    import torch

    starts = np.append(np.flatnonzero(np.diff(rows, prepend=-1)), len(rows))
    rows = rows.take(starts[:-1])
    size = min(len(rows), SCORED_AT_ONCE), views.shape[1]
    single, double = torch.empty(size), torch.empty(size, dtype=torch.float64)
    products, asked = np.empty(len(questions)), torch.from_numpy(queries).T
    zeros = torch.zeros(len(questions), dtype=torch.float64)
    for first in range(0, len(rows), SCORED_AT_ONCE):
        some = rows[first : first + SCORED_AT_ONCE]
        starts_of = starts[first : first + len(some) + 1]
        here = slice(starts_of[0], starts_of[-1])
        pairs = torch.sparse_csr_tensor(
            torch.from_numpy(starts_of - starts_of[0]),
            torch.from_numpy(questions[here]),
            zeros[here],
            (len(some), len(queries)),
            check_invariants=False,
        )
        # By way of float32, since torch has no vector instructions from float16 to float64.
        follow = some[-1] - some[0] + 1 == len(some)
        stored = torch.from_numpy(views[some[0] : some[-1] + 1] if follow else views.take(some, axis=0))
        converted = double[: len(some)].copy_(single[: len(some)].copy_(stored))
        products[here] = torch.sparse.sampled_addmm(pairs, converted, asked, beta=0).values().numpy()
    return products


def score_passages(
    views: np.ndarray, firsts: np.ndarray, counts: np.ndarray, queries: np.ndarray, questions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores pairs of a passage and a question by the max over the passage's views; returns the scores [n] float64 and
    which view has each, the first of those that tie [n] int64.

    A passage's views are `counts` [n] rows of `views` from `firsts` [n] on, at least one; `questions` [n] are rows of
    `queries` [q, dim]. No pair may occur twice. Views are read once, in their order. The order of each sum is the same
    whatever the other views and queries, so that equal views score equally, to the bit.
    """
    best, winners, order = np.empty(len(firsts)), np.empty(len(firsts), np.int64), firsts.argsort()
    queries = queries.astype(np.float64)
    for first in range(0, len(order), PAIRS_AT_ONCE):
        some = order[first : first + PAIRS_AT_ONCE]
        rows, starts = rows_in(firsts[some], counts[some]), np.cumsum(counts[some]) - counts[some]
        by_row, scores = rows.argsort(), np.empty(len(rows))
        scores[by_row] = score_rows(
            views, rows[by_row], queries, np.repeat(questions[some], counts[some])[by_row]
        )
        best[some] = np.maximum.reduceat(scores, starts)
        ties = scores == np.repeat(best[some], counts[some])
        positions = np.where(ties, np.arange(len(rows)), len(rows))
        winners[some] = np.minimum.reduceat(positions, starts) - starts
    return best, winners


def sampled_rows(total: int, count: int, seed: int) -> np.ndarray:
    """`count` random rows of 0…total-1, in ascending order; all rows where `total` is not larger."""
    if total <= count:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False, shuffle=False))


def longest_view(views: np.ndarray, before: float = 0.0) -> float:
    """Returns the largest norm of `views` [v, dim] float16, or `before` if larger. Reads views once, block by block."""
    import torch

    for start in range(0, len(views), NORMS_AT_ONCE):
        # By way of float32, as in `score_rows`.
        some = torch.from_numpy(views[start : start + NORMS_AT_ONCE]).float().double()
        before = max(before, math.sqrt(some.square_().sum(dim=1).max().item()))
    return before
