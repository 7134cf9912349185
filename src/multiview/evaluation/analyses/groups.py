"""Top-k accuracy by group of questions: by the length of the gold passage, the position of its answer, its title."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.data.answers import find_answers
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.model.layouts import Part, View

SENTENCES = ((1, 3), (4, 6), (7, 9))
"""Classes of passages by number of sentences (first, last); longer passages form one more class."""


CAPTION = "Accuracy of the answered questions by group of their first gold passage."


def groups(given: AnalysisInput) -> Findings:
    """Returns the table that `CAPTION` describes, and its metrics.

    Groups: the number of sentences (`sentences_4_6`), and the third of the text that contains the middle of the answer
    (`answer_third_2`, or `answer_third_nowhere`). Where views represent parts of the text also the first view that
    contains the whole answer (`answer_snippet_3`, or `answer_snippet_none`), and the title: `title_alone` in a separate
    view, `title_merged` with text in one view, or `title_absent`. Table `groups`: grouping, group, questions,
    accuracies.
    """
    members: dict[tuple[str, str], list[int]] = {}
    rows = np.flatnonzero(given.answered & (given.gold >= 0))
    by_passage: dict[int, list[int]] = {}
    for row in rows.tolist():
        by_passage.setdefault(int(given.gold[row]), []).append(row)
    for indexed in given.read_passages(given.gold[rows]):
        passage, views = indexed.passage, indexed.parts
        shared = [("sentences", sentences_group(len(passage.sentence_ends)))]
        if given.layout.has_spans:
            shared.append(("title", title_group(passage.title, views)))
        for row in by_passage[indexed.row]:
            answer = answer_span(given.questions[row], passage, given.matching)
            by_answer = [("answer_third", third_group(answer, len(passage.text)))]
            if given.layout.has_spans:
                by_answer.append(("answer_snippet", snippet_group(answer, views)))
            for group in (*shared, *by_answer):
                members.setdefault(group, []).append(row)
    if not members:
        raise NotApplicable("no question has an answer and a gold passage in the index")
    return accuracy_by_group(first_rank(given.holds), members, given.cuts)


def accuracy_by_group(
    first_answer: np.ndarray, members: Mapping[tuple[str, str], Sequence[int]], cuts: Sequence[int]
) -> Findings:
    """Accuracy at each k of the questions of each (grouping, group); `first_answer` [q] are ranks as in `accuracy`."""
    metrics: dict[str, float] = {}
    table = []
    for (grouping, group), questions in sorted(members.items()):
        accuracies = accuracy(first_answer[np.asarray(questions)], cuts)
        table.append({"grouping": grouping, "group": group, "questions": len(questions)} | accuracies)
        metrics |= {
            metric_names.of_group(f"{grouping}_{group}", name): value for name, value in accuracies.items()
        }
    return Findings(metrics, {"groups": CaptionedTable(CAPTION, pa.Table.from_pylist(table))})


def sentences_group(sentences: int) -> str:
    """The class of a number of sentences; an empty text has no sentences and counts as one."""
    for first, last in SENTENCES:
        if sentences <= last:
            return f"{first}_{last}"
    return f"{SENTENCES[-1][1] + 1}_or_more"


def answer_span(question: Question, passage: Passage, mode: Mode) -> tuple[int, int] | None:
    """Span of the first answer in the text of the question's first positive: by its offset, else by matching."""
    if question.answer_starts is not None and question.positive_ids[0] == passage.id:
        spans: Iterable[tuple[int, int]] = (
            (start, start + len(answer))
            for answer, start in zip(question.answers, question.answer_starts, strict=True)
        )
    else:
        spans = find_answers(passage.text, question.answers, mode)
    return next(iter(spans), None)


def third_group(span: tuple[int, int] | None, length: int) -> str:
    """The third of a text of `length` code points that contains the middle of `span`: 1, 2, 3, or nowhere."""
    if span is None:
        return "nowhere"
    return str(min(1 + 3 * (span[0] + span[1]) // (2 * length), 3))


def snippet_group(span: tuple[int, int] | None, views: Sequence[View | Part]) -> str:
    """The first view, from 1, that represents a part of the text with the whole `span`, or none."""
    for number, view in enumerate(views, 1):
        if span and view.span and view.span[0] <= span[0] and span[1] <= view.span[1]:
            return str(number)
    return "none"


def title_group(title: str, views: Sequence[View | Part]) -> str:
    """Whether the title has a separate view (a real view without a span), was merged with text, or is absent."""
    if not title.strip():
        return "absent"
    return "alone" if any(view.span is None and not view.padding for view in views) else "merged"
