"""The questions that a team without labelled ones trains on: drafts with which BM25 finds their passage again."""

from __future__ import annotations

from collections.abc import Sequence

from multiview import names
from multiview.data.passages import read_titled_texts
from multiview.data.question_selection import held_out, limited, one_per_passage, questions_per_passage
from multiview.data.questions import Question, iterate_questions, seeded_hash, write_questions
from multiview.errors import InputError, counted
from multiview.negatives.bm25 import Bm25Index
from multiview.negatives.filtering import positive_hits
from multiview.steps.context import StepContext

TOGETHER = 10_000
"""Drafts that BM25 searches for together."""


def make_questions(context: StepContext) -> None:
    """Step: makes `train_questions` and `dev_questions` from the `drafts` of all shards of `passages`.

    The questions about a share of the passages are held out as dev questions, as they were drafted. The others are
    kept if BM25 finds their passage with them among the first `make_questions.found_within`. The settings of
    `questions` (`dev_share`, `limit`, `dev_limit`, `one_per_passage`, `seed`) hold as for labelled questions. Every
    question's answer is the snippet that it was made from. Drafts are in memory. Raises InputError where
    nothing is left to train on.
    """
    asked, made = context.settings.questions, context.settings.make_questions
    drafts = [q for part in context.list_input("drafts") for q in iterate_questions(part.path)]
    if len({q.positive_ids for q in drafts}) < 2:
        raise InputError(
            f"make_questions: {counted(len(drafts), 'question')} about fewer than two passages, so none can be held out: "
            "set a larger make_questions.share"
        )
    train, dev = held_out(drafts, asked.dev_share, asked.seed)
    if asked.one_per_passage:
        train = one_per_passage(train, asked.seed)
    kept, searched = _round_trip(context, train)
    if not kept:
        raise InputError(
            f"make_questions.found_within={made.found_within}: BM25 finds the passage of none of {counted(searched, 'question')}; "
            "set a larger number, or null to keep all"
        )
    dev = limited(dev, asked.dev_limit, asked.seed)
    write_questions(kept, context.output(names.TRAIN_QUESTIONS))
    write_questions(dev, context.output(names.DEV_QUESTIONS))
    context.events.fact(names.GENERATED, asked.origin)
    for name, value in (
        ("drafts", len(drafts)),
        ("searched_questions", searched),
        ("train_questions", len(kept)),
        ("dev_questions", len(dev)),
        ("avq", questions_per_passage(kept)),
    ):
        context.events.fact(name, value)
        context.events.metric(name, float(value))


def _round_trip(context: StepContext, questions: Sequence[Question]) -> tuple[list[Question], int]:
    """Returns at most `questions.limit` of the questions, with which BM25 finds their passage, and the number of searches.

    These are the questions that `limited` would draw from all kept ones; the search stops when there are enough.
    """
    asked, k = context.settings.questions, context.settings.make_questions.found_within
    if k is None:
        return limited(questions, asked.limit, asked.seed), 0
    passages = read_titled_texts(context.input("passages").path)
    index = Bm25Index(passages, context.settings.bm25, context.settings.corpus.language)
    ranked = sorted(questions, key=lambda question: seeded_hash(asked.seed, question.qid))
    kept: set[str] = set()
    searched = 0
    while searched < len(ranked) and (asked.limit is None or len(kept) < asked.limit):
        batch = ranked[searched : searched + TOGETHER]
        kept.update(found_again(index, batch, k))
        searched += len(batch)
        context.events.progress(searched, len(ranked), "questions")
    return limited([q for q in questions if q.qid in kept], asked.limit, asked.seed), searched


def found_again(index: Bm25Index, questions: Sequence[Question], k: int) -> list[str]:
    """Returns the ids of the questions whose passage is among the first `k` that BM25 finds."""
    top = index.search([question.question for question in questions], k)
    hits = positive_hits(top.passages, index.ids, questions)
    return [question.qid for question, found in zip(questions, hits, strict=True) if found.any()]
