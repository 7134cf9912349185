"""Hard negatives that come with the training questions, as DPR's and tevatron's files have them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from multiview.data.questions import Question, read_questions
from multiview.errors import counted
from multiview.negatives.negatives_file import GIVEN, SCHEMA, write_negatives
from multiview.steps.context import StepContext
from multiview.steps.events import Events


def given_negatives(context: StepContext) -> None:
    """Step: writes the negatives that the input `questions` name, into `negatives`: one row per question, in their order."""
    questions = read_questions(context.input("questions").path)
    write_negatives(context.output("negatives"), given_table(questions, context.events))


def given_table(questions: Sequence[Question], events: Events) -> pa.Table:
    """Returns the given negatives in the order of the data, without positives, and reports how many there are.

    Negatives that hold an answer are kept: whoever chose them has judged them. Their scores are null.
    """
    negatives = [
        [id_ for id_ in question.negative_ids if id_ not in question.positive_ids] for question in questions
    ]
    without = sum(not ids for ids in negatives)
    events.fact("questions_without_given_negatives", without)
    if questions:
        events.metric("given_negatives_per_question", sum(map(len, negatives)) / len(questions))
    if without:
        events.warning(f"no given negative for {without:,} of {counted(len(questions), 'question')}")
    columns = {
        "qid": [question.qid for question in questions],
        "source": [GIVEN] * len(questions),
        "negative_ids": negatives,
        "scores": [[None] * len(ids) for ids in negatives],
    }
    return pa.table(columns, schema=SCHEMA)
