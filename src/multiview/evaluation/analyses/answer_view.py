"""Answer-view accuracy: is it the answer's view that finds the passage? (CAMVR Eq. 15, Table 4)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from multiview import names
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
        raise NotApplicable("views stand for no part of the text")
    if subject.indexed.most < 2:
        raise NotApplicable("the index holds one view a passage")
    if subject.layout.reads_queries:
        raise NotApplicable("every view stands for the whole text")
    if not subject.answered.any():
        raise NotApplicable("no question has an answer")
    hits = answer_view_hits(subject)
    overall = accuracy(first_rank(subject.holds)[subject.answered], subject.at)
    answer = accuracy(first_rank(hits)[subject.answered], subject.at)
    metrics: dict[str, float] = {}
    rows = []
    for k in subject.at:
        name = names.accuracy_at(k)
        other = overall[name] - answer[name]
        metrics |= {
            names.of_group(names.ANSWER_VIEW, name): answer[name],
            names.of_group(names.OTHER_VIEWS, name): other,
        }
        rows.append({"k": k, "overall": overall[name], "answer_view": answer[name], "other_views": other})
    return Findings(metrics, {"answer_view": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def answer_view_hits(subject: Subject) -> np.ndarray:
    """Whether each retrieved passage's best view stands for text that holds an answer [q, depth] bool."""
    top = subject.top
    flat = top.passages.ravel()
    order = np.argsort(flat, kind="stable")
    hits = np.zeros(top.passages.shape, bool)
    for number, passage, sequences, _ in subject.sequences_of(top.passages):
        places = order[slice(*np.searchsorted(flat, [number, number + 1], sorter=order))]
        spans = [view.span for _, view in subject.rows_of(number, sequences)]
        text = TokenizedText(passage.text)
        for question, hit in zip(*np.unravel_index(places, hits.shape), strict=True):
            if subject.holds[question, hit]:
                found = find_answers(text, subject.questions[question].answers, subject.matching)
                hits[question, hit] = holds_match(spans[top.views[question, hit]], found)
    return hits


def holds_match(span: Span | None, matches: Sequence[Span]) -> bool:
    """Whether `span` of the text contains one of `matches` whole; the title's view has no span."""
    return span is not None and any(span[0] <= start and stop <= span[1] for start, stop in matches)
