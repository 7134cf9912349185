"""Answer-view accuracy: whether the view with the answer finds the passage (CAMVR Eq. 15, Table 4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.data.tokens import TokenizedText
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank

CAPTION = (
    'Accuracy by snippets that matched and hold the answer, and the rest of the accuracy, "other views".'
)


def answer_view(given: AnalysisInput) -> Findings:
    """Returns the table that `CAPTION` describes, and its metrics.

    The title never holds an answer. Table `answer_view`: k, overall, answer_view, other_views.
    """
    if not given.layout.has_spans:
        raise NotApplicable("views represent no part of the text")
    if given.view_summary.most < 2:
        raise NotApplicable("the index holds one view per passage")
    if given.layout.reads_queries:
        raise NotApplicable("every view represents the whole text")
    if not given.answered.any():
        raise NotApplicable("no question has an answer")
    overall = accuracy(first_rank(given.ranking.holds)[given.answered], given.cuts)
    answer = accuracy(first_rank(answer_view_hits(given))[given.answered], given.cuts)
    metrics: dict[str, float] = {}
    rows = []
    for k in given.cuts:
        name = metric_names.accuracy_at(k)
        other = overall[name] - answer[name]
        metrics |= {
            metric_names.of_group("answer_view", name): answer[name],
            metric_names.of_group("other_views", name): other,
        }
        rows.append({"k": k, "overall": overall[name], "answer_view": answer[name], "other_views": other})
    return Findings(metrics, {"answer_view": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def answer_view_hits(given: AnalysisInput) -> np.ndarray:
    """Returns whether the best view of each retrieved passage represents text with an answer [q, depth] bool."""
    hits = np.zeros(given.ranking.holds.shape, bool)
    held: dict[int, list[tuple[int, int]]] = {}
    for question, column in np.argwhere(given.ranking.holds).tolist():
        held.setdefault(int(given.top.passages[question, column]), []).append((question, column))
    for indexed in given.indexed_passages.read(np.array(list(held), np.int64)):
        text = TokenizedText(indexed.passage.text, given.matching)
        for question, column in held[indexed.row]:
            span = indexed.views[given.top.winning_views[question, column]].span
            hits[question, column] = span is not None and given.answers.within(text, span, question)
    return hits
