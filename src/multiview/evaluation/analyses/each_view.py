"""Retrieval by each view alone, as if it were the passage's only vector (CAMVR Tables 2, 7)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.subject import Findings, Subject
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.index.exact import ViewRange

CAPTION = (
    "Accuracy of each view alone, and recall of the gold passages. Passages without such a view are not retrieved: "
    "share_of_passages have it."
)


def each_view(subject: Subject) -> Findings:
    """Returns the table that `CAPTION` describes, and its metrics.

    Table `each_view`: view (from 1), the number and the share of passages that have it, whether padding views are among
    them, and the metrics; the last row, with view null, is the whole index. Metrics `accuracy_at_5/view_1`,
    `recall_at_5/view_1`, `share_of_passages/view_1`.
    """
    summary = subject.check_views()
    rankings = [*subject.rankings(single_views(summary.most)), subject.ranking]
    rows: list[dict[str, float | None]] = []
    metrics: dict[str, float] = {}
    for view, ranking in enumerate(rankings):
        figures = accuracy(first_rank(ranking.holds)[subject.answered], subject.cuts)
        figures |= gold_recall(ranking.gold, subject)
        alone = view < summary.most
        has = subject.index.view_counts > (view if alone else 0)
        about = {"view": view + 1 if alone else None, "passages": int(has.sum())}
        share = {metric_names.SHARE_OF_PASSAGES: subject.shares_with_view[view if alone else 0]}
        rows.append({**about, **share, "padding_views": summary.padding_indexed, **figures})
        if alone:
            figures |= share
            metrics |= {metric_names.of_view(view, name): value for name, value in figures.items()}
    return Findings(metrics, {"each_view": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def single_views(most: int) -> list[ViewRange]:
    """Each of up to `most` views alone."""
    return [(view, view + 1) for view in range(most)]


def gold_recall(hits: np.ndarray, subject: Subject) -> dict[str, float]:
    """Mean share of a question's gold passages among the top k, over the questions that have any.

    `hits` [q, depth] bool: which retrieved passages are gold.
    """
    gold = np.array([len(set(question.positive_ids)) for question in subject.questions])
    judged = gold > 0
    if not judged.any():
        return {}
    recall = hits[judged].cumsum(axis=1) / gold[judged, None]
    last = recall.shape[1]  # a small corpus has fewer passages than are asked for
    return {metric_names.recall_at(k): float(recall[:, min(k, last) - 1].mean()) for k in subject.cuts}
