"""Training questions by how their answer's view is found, and AVQ (CAMVR 3.2, 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from multiview import metric_names
from multiview.data.answers import Mode, Span, answer_views, has_answer
from multiview.data.passages import Passage, read_passages
from multiview.data.questions import Question, iterate_questions, questions_per_passage
from multiview.evaluation.analyses.subject import Findings, NotApplicable, Subject
from multiview.evaluation.analyses.tables import CaptionedTable

KINDS = ("offset", "one", "several", "none", "title")


CAPTION = "Shares of the training questions by how their answer's view is found in the first positive passage, and AVQ."


def training_answers(subject: Subject) -> Findings:
    """Shares of the training questions by how their answer's view is found in the first positive passage, and AVQ.

    Kinds: `offset`, by the offset of the answer; without an offset, `one` or `several` views contain the answer;
    `title`, only the title contains it; `none`, no view contains it, for example because it spans two views. Questions
    of the last two kinds are trained on the best view. Table `training_answers`: found, questions, share. Where views
    stand for no part of the text, only AVQ is reported.
    """
    if subject.train_questions is None:
        raise NotApplicable("there are no training questions")
    questions = list(iterate_questions(subject.train_questions))
    avq = {metric_names.AVQ: questions_per_passage(questions)}
    if not subject.layout.has_spans:
        return Findings(avq)
    counts = Counter(
        found_by(question, passage, spans, subject.matching)
        for question, passage, spans in _laid_out(subject, questions)
    )
    total = sum(counts.values())
    if not total:
        raise NotApplicable("no training question has its passage in the corpus")
    shares = [counts[kind] / total for kind in KINDS]
    metrics = avq | {
        metric_names.answer_found(kind): share for kind, share in zip(KINDS, shares, strict=True)
    }
    table = {"found": list(KINDS), "questions": [counts[kind] for kind in KINDS], "share": shares}
    return Findings(metrics, {"training_answers": CaptionedTable(CAPTION, pa.table(table))})


def found_by(question: Question, passage: Passage, spans: Sequence[Span | None], mode: Mode) -> str:
    """Returns one of `KINDS`; `passage`, of whose text all views represent the `spans`, is the question's first positive."""
    _, kind = answer_views(spans, passage.text, question.answers, question.answer_starts, mode)
    if kind == "none" and has_answer(passage.title, question.answers, mode):
        in_text = question.answer_starts is not None or has_answer(passage.text, question.answers, mode)
        return kind if in_text else "title"
    return kind


def _laid_out(
    subject: Subject, questions: Sequence[Question]
) -> Iterator[tuple[Question, Passage, list[Span | None]]]:
    """Each question with its first positive and the spans of the positive's views, in the order of the corpus.

    A passage is laid out once for all of its questions; one passage is held in memory at a time.
    """
    questions_of: dict[str, list[Question]] = {}
    for question in questions:
        if question.positive_ids:
            questions_of.setdefault(question.positive_ids[0], []).append(question)
    for passage in read_passages(subject.passages):
        if passage.id in questions_of:
            spans = [part.span for part in subject.layout.parts(passage)]
            yield from ((question, passage, spans) for question in questions_of[passage.id])
