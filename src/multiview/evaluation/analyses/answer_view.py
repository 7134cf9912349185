"""Answer-view accuracy: whether the view with the answer finds the passage (CAMVR Eq. 15, Table 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.data.answers import Span, TokenizedText, find_answers
from multiview.evaluation.analyses.subject import Findings, NotApplicable, Subject
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank

CAPTION = (
    'Accuracy by snippets that matched and hold the answer, and the rest of the accuracy, "other views".'
)


def answer_view(subject: Subject) -> Findings:
    """Accuracy by snippets that matched and hold the answer, and the rest of the accuracy, "other views".

    The title never holds an answer. Table `answer_view`: k, overall, answer_view, other_views.
    """
    if not subject.layout.has_spans:
        raise NotApplicable("views represent no part of the text")
    if subject.view_summary.most < 2:
        raise NotApplicable("the index holds one view per passage")
    if subject.layout.reads_queries:
        raise NotApplicable("every view represents the whole text")
    if not subject.answered.any():
        raise NotApplicable("no question has an answer")
    hits = answer_view_hits(subject)
    overall = accuracy(first_rank(subject.holds)[subject.answered], subject.cuts)
    answer = accuracy(first_rank(hits)[subject.answered], subject.cuts)
    metrics: dict[str, float] = {}
    rows = []
    for k in subject.cuts:
        name = metric_names.accuracy_at(k)
        other = overall[name] - answer[name]
        metrics |= {
            metric_names.of_group(metric_names.ANSWER_VIEW, name): answer[name],
            metric_names.of_group(metric_names.OTHER_VIEWS, name): other,
        }
        rows.append({"k": k, "overall": overall[name], "answer_view": answer[name], "other_views": other})
    return Findings(metrics, {"answer_view": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def answer_view_hits(subject: Subject) -> np.ndarray:
    """Returns whether the best view of each retrieved passage represents text with an answer [q, depth] bool."""
    top = subject.top
    flat = top.passages.ravel()
    order = np.argsort(flat, kind="stable")
    hits = np.zeros(top.passages.shape, bool)
    for indexed in subject.read_passages(np.where(subject.holds, top.passages, -1)):
        passage_hits = order[slice(*np.searchsorted(flat, [indexed.row, indexed.row + 1], sorter=order))]
        text = TokenizedText(indexed.passage.text, subject.matching)
        for question, column in zip(*np.unravel_index(passage_hits, hits.shape), strict=True):
            if subject.holds[question, column]:
                answers = find_answers(text, subject.questions[question].answers, subject.matching)
                winner = indexed.views[top.winning_views[question, column]]
                hits[question, column] = holds_match(winner.span, answers)
    return hits


def holds_match(span: Span | None, matches: Sequence[Span]) -> bool:
    """Whether `span` of the text contains one of `matches` completely; never for the title's view, which has no span."""
    return span is not None and any(span[0] <= start and stop <= span[1] for start, stop in matches)
