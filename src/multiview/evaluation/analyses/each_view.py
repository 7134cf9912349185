"""Retrieval by each view alone, as if it were the passage's only vector (CAMVR Tables 2, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.index.exact import TopPassages, top_passages
from multiview.index.faiss_index import FaissObject
from multiview.negatives.filtering import positive_hits

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

COPIED_AT_ONCE = 1 << 16
"""Number of views that are copied at once into the index of one view."""


CAPTION = "Accuracy of each view alone, and recall of the gold passages. Passages without such a view are not retrieved."


def each_view(subject: Subject) -> Findings:
    """Accuracy of each view alone, and recall of the gold passages. Passages without such a view are not retrieved.

    Table `each_view`: view (from 1), the number of passages that have it, whether padding views are among them, and
    the metrics; the last row, with view null, is the whole index. Metrics `accuracy_at_5/view_1`, `recall_at_5/view_1`.
    """
    summary, depth = subject.check_views(), subject.settings.depth
    tops: list[np.ndarray] = []
    for view in range(summary.most):
        tops.append(search_view(subject.index, view, subject.queries, depth).passages)
        subject.events.progress(view + 1, summary.most, "views alone")
    tops.append(subject.top.passages)
    holds = np.split(subject.answers_in(np.concatenate(tops, axis=1)), len(tops), axis=1)
    rows: list[dict[str, float | None]] = []
    metrics: dict[str, float] = {}
    for view, (passage_rows, held) in enumerate(zip(tops, holds, strict=True)):
        figures = accuracy(first_rank(held)[subject.answered], subject.cuts)
        figures |= gold_recall(positive_hits(passage_rows, subject.index.ids, subject.questions), subject)
        alone = view < summary.most
        has = subject.index.view_counts > (view if alone else 0)
        about = {"view": view + 1 if alone else None, "passages": int(has.sum())}
        rows.append({**about, "padding_views": summary.padding_indexed, **figures})
        if alone:
            metrics |= {metric_names.of_view(view, name): value for name, value in figures.items()}
    return Findings(metrics, {"each_view": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def gold_recall(hits: np.ndarray, subject: Subject) -> dict[str, float]:
    """Mean share of a question's gold passages among the top k, over the questions that have any.

    `hits` [q, depth] bool: which retrieved passages are gold.
    """
    gold = np.array([len(set(question.positive_ids)) for question in subject.questions])
    judged = gold > 0
    if not judged.any():
        return {}
    recall = hits[judged].cumsum(axis=1) / gold[judged, None]
    return {metric_names.recall_at(k): float(recall[:, k - 1].mean()) for k in subject.cuts}


def search_view(index: ViewIndex, view: int, queries: np.ndarray, k: int) -> TopPassages:
    """The k best passages by view `view` (from 0) alone (see `search_views`)."""
    return search_views(index, view, view + 1, queries, k)


def search_views(index: ViewIndex, first: int, stop: int, queries: np.ndarray, k: int) -> TopPassages:
    """The k best passages by views [first, stop) alone, counted from 0; exact.

    These views of all passages are copied into an exact index, which needs memory for them only.
    """
    from multiview.index.faiss_library import faiss

    rows = view_rows(index.offsets, index.view_counts, first, stop)
    alone: FaissObject = faiss.IndexFlatIP(index.stored.dim)
    for start in range(0, len(rows), COPIED_AT_ONCE):
        alone.add(index.stored.read_rows(rows[start : start + COPIED_AT_ONCE]))
    # A passage without such views shares its offset with the next passage that has one, as `top_passages` expects.
    counts = np.clip(index.view_counts - first, 0, stop - first)
    top = top_passages(alone, np.cumsum(counts) - counts, index.tie_order, queries, k)
    top.winning_views[top.passages >= 0] += first
    return top


def view_rows(offsets: np.ndarray, view_counts: np.ndarray, first: int, stop: int) -> np.ndarray:
    """The rows of views [first, stop) of every passage that has them, in order [views] int64."""
    views = np.arange(first, stop)
    rows = offsets[:, None] + views
    return rows[views < view_counts[:, None]]
