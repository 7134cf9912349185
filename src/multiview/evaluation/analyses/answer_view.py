"""Answer-view accuracy: whether the view with the answer finds the passage (CAMVR Eq. 15, Table 4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.data.tokens import TokenizedText
from multiview.evaluation.analyses.analysis_input import (
    AnalysisInput,
    CaptionedTable,
    Findings,
    NotApplicable,
)


def answer_view(given: AnalysisInput) -> Findings:
    """Table `answer_view`: k, overall, answer_view, other_views; and its metrics. The title never holds an answer."""
    if not given.layout.has_spans:
        raise NotApplicable("views represent no part of the text")
    given.check_several_views()
    if given.layout.reads_queries:
        raise NotApplicable("every view represents the whole text")
    if not any(question.answers for question in given.questions):
        raise NotApplicable("no question has an answer")
    overall, answer = given.accuracy(given.ranking.holds), given.accuracy(answer_view_hits(given))
    metrics: dict[str, float] = {}
    rows = []
    for k in given.cuts:
        name = metric_names.accuracy_at(k)
        row = {"answer_view": answer[name], "other_views": overall[name] - answer[name]}
        metrics |= {metric_names.of_group(group, name): value for group, value in row.items()}
        rows.append({"k": k, "overall": overall[name], **row})
    caption = (
        'Accuracy by snippets that matched and hold the answer, and the rest of the accuracy, "other views".'
    )
    return Findings(metrics, {"answer_view": CaptionedTable(caption, pa.Table.from_pylist(rows))})


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
