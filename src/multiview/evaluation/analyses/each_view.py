"""Each view alone: what is retrieved when one view is the passage's only vector (CAMVR Tables 2, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.names import of_view
from multiview.search import TopPassages, top_passages

if TYPE_CHECKING:
    from multiview.index import ViewIndex

COPIED_AT_ONCE = 1 << 16
"""Views copied into the index of one view at once."""


def each_view(subject: Subject) -> Findings:
    """Accuracy of each view alone. Passages without such a view are not retrieved.

    Table `each_view`: view (from 1), the passages that have it, whether padding views are among them, and the
    accuracies; the last row, view null, is the whole index. Metrics `view_1/accuracy_at_5`.
    """
    indexed = subject.check_views()
    tops = [
        search_view(subject.index, subject.rank, view, subject.queries, subject.settings.depth)
        for view in range(indexed.most)
    ]
    columns = [top.passages for top in (*tops, subject.top)]
    holds = subject.answers_in(np.concatenate(columns, axis=1))
    depth = subject.settings.depth
    accuracies = [
        accuracy(first_rank(holds[:, start : start + depth])[subject.answered], subject.at)
        for start in range(0, holds.shape[1], depth)
    ]
    passages = [int((subject.index.views > view).sum()) for view in range(indexed.most)]
    rows: list[dict[str, Any]] = [
        {
            "view": view + 1 if view < indexed.most else None,
            "passages": passages[view] if view < indexed.most else len(subject.index),
            "padding_views": indexed.padding_indexed,
        }
        | accuracy
        for view, accuracy in enumerate(accuracies)
    ]
    metrics = {
        of_view(view, name): value
        for view, accuracy in enumerate(accuracies[: indexed.most])
        for name, value in accuracy.items()
    }
    return Findings(metrics, {"each_view": pa.Table.from_pylist(rows)})


def search_view(index: ViewIndex, rank: np.ndarray, view: int, queries: np.ndarray, k: int) -> TopPassages:
    """The k best passages by their view `view` (from 0) alone, exact, ties by `rank`.

    One view of every passage that has it is copied out of the index: a share 1/n of its memory, beside it.
    """
    import faiss

    rows = view_rows(index.offsets, index.views, view)
    alone: Any = faiss.IndexFlatIP(index.faiss_index.d)
    for start in range(0, len(rows), COPIED_AT_ONCE):
        alone.add(index.faiss_index.reconstruct_batch(rows[start : start + COPIED_AT_ONCE]))
    # A passage without the view shares its offset with the next that has it, as `top_passages` expects.
    has = index.views > view
    offsets = np.cumsum(has) - has
    top = top_passages(alone, offsets, rank, queries, k)
    top.views[top.passages >= 0] = view
    return top


def view_rows(offsets: np.ndarray, views: np.ndarray, view: int) -> np.ndarray:
    """Of each passage that has more than `view` rows, the row of that view [passages that have it] int64."""
    return (offsets + view)[views > view]
