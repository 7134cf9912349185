"""The choice of the questions that are trained and evaluated on, among all that the sources hold."""

from __future__ import annotations

from dataclasses import dataclass

from multiview.config import Questions
from multiview.data import checking, questions
from multiview.data.questions import Question
from multiview.data.seen import Seen
from multiview.errors import InputError


@dataclass(frozen=True)
class Chosen:
    """The questions that are used, and how many were left out for which reason."""

    train: list[Question]
    dev: list[Question]
    dev_gold: list[Question]
    """All dev questions, before `questions.dev_limit`."""
    dropped: int
    """Questions whose gold passages are not in the corpus."""
    unknown: int
    """Gold passages that kept questions lost."""
    nameless: int
    """Training questions that name no gold passage."""
    unknown_negatives: int
    """Given negatives that are not in the corpus."""
    lost: int
    """Questions whose gold passages hold none of their answers any more."""


def choose(section: Questions, train: list[Question], dev: list[Question], seen: Seen) -> Chosen:
    """Returns the questions that are used: those with a gold passage in the corpus, then restricted and sampled.

    Dev questions that name no passage at all are kept, because retrieved passages are searched for their answers.
    """
    known = seen.rows
    if not section.source and not section.dev_source:  # the training questions are made by another step
        return Chosen([], [], [], 0, 0, 0, 0, 0)
    checking.check_gold(train, seen, "questions.source", section.max_missing_gold)
    nameless = sum(not q.positive_ids for q in train)
    unknown = sum(questions.unknown_positives(q, known) for q in (*train, *dev))
    lost = sum(map(seen.is_lost, (*train, *dev)))
    train, dropped = questions.with_known_positives([q for q in train if not seen.is_lost(q)], known)
    if section.dev_source:
        with_gold = [q for q in dev if q.positive_ids]
        checking.check_gold(with_gold, seen, "questions.dev_source", section.max_missing_gold)
        kept, dropped_dev = questions.with_known_positives(
            [q for q in with_gold if not seen.is_lost(q)], known
        )
        by_id = {q.qid: q for q in kept}
        dev = [by_id.get(q.qid, q) for q in dev if not q.positive_ids or q.qid in by_id]
        dropped += dropped_dev
    else:
        train, dev = questions.held_out(train, section.dev_share, section.seed)
    if section.one_per_passage:
        train = questions.one_per_passage(train, section.seed)
    train = questions.limited(train, section.limit, section.seed)
    train, unknown_negatives = questions.with_known_negatives(train, known)
    if section.hard_negatives != "bm25" and not any(q.negative_ids for q in train):
        raise InputError(
            f"questions.hard_negatives={section.hard_negatives}: no training question names a negative that is in the corpus; "
            "name their column, as in questions.columns={negative_ids: yours}, or set questions.hard_negatives=bm25"
        )
    limited = questions.limited(dev, section.dev_limit, section.seed)
    return Chosen(train, limited, dev, dropped - nameless, unknown, nameless, unknown_negatives, lost)
