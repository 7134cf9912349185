"""Which metrics an evaluation has, by its settings alone: known before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable

from multiview.names import accuracy_at, mrr_at, ndcg_at, recall_at

TOP = 10
"""k of MRR and nDCG (MS MARCO and TREC DL; Dual Cross Encoder 4)."""

DEEP = 1000
"""k of the recall that is measured wherever the depth allows it (Dual Cross Encoder 4)."""


def accuracy_cuts(at: Iterable[int], depth: int) -> list[int]:
    """The k of top-k accuracy: those that the retrieved depth allows."""
    return sorted({k for k in at if k <= depth})


def recall_cuts(at: Iterable[int], depth: int) -> list[int]:
    """The k of the gold passages' recall: the same, and `DEEP` where the depth allows it."""
    return accuracy_cuts({*at, DEEP}, depth)


def measured(at: Iterable[int], depth: int) -> list[str]:
    """Every metric that an evaluation at these k of this depth can have."""
    at = list(at)
    return [
        *map(accuracy_at, accuracy_cuts(at, depth)),
        *map(recall_at, recall_cuts(at, depth)),
        *(metric(TOP) for metric in (mrr_at, ndcg_at) if depth >= TOP),
    ]
