"""The questions that a training leaves out for its validation, and the passages that they are ranked against."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from multiview.config import Train
from multiview.data.questions import Question, seeded_hash
from multiview.errors import InputError
from multiview.negatives.negatives_file import Pool

HELD_OUT_SHARE = 0.2
"""The largest share of the questions that is held out."""


@dataclass(frozen=True)
class HeldOut:
    """Questions that are not trained on, with the passages among which each has to find its gold passages."""

    questions: Sequence[Question]
    gold: Mapping[str, Sequence[str]]
    """Question to its positives in the corpus, all of which are in the pool."""
    pool: Sequence[str]
    """Ids of passages, in string order."""


def hold_out(
    questions: Sequence[Question], gold: Mapping[str, Sequence[str]], number: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Returns the questions to train on and up to `number` questions to validate on, with no gold passage in common.

    `gold` are each question's positives in the corpus, at least one. Passages are drawn by `seed`, and all questions
    whose first positive is drawn are held out, until they are `number` or a fifth of all questions. Other questions
    with a gold passage of a held-out question are in neither list: training would show the passage. The order of
    `questions` does not matter.

    Raises InputError where nothing is left to train on or to validate on.
    """
    of_passage: defaultdict[str, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda question: question.qid):
        of_passage[gold[question.qid][0]].append(question)
    drawn = sorted(of_passage, key=lambda id_: _rank(seed, id_))
    number = min(number, int(HELD_OUT_SHARE * len(questions)))
    held = list(islice((question for id_ in drawn for question in of_passage[id_]), number))
    shown = {id_ for question in held for id_ in gold[question.qid]}
    training = [question for question in questions if shown.isdisjoint(gold[question.qid])]
    if not training or not held:
        raise InputError(
            "train.validate_steps: too few training questions to hold some out for a validation "
            f"(questions: {len(questions)}, gold passages: {len(of_passage)}); set it to null"
        )
    return training, held


def pool_of(
    questions: Sequence[Question],
    gold: Mapping[str, Sequence[str]],
    negatives: Pool,
    corpus: Iterable[str],
    settings: Train,
) -> list[str]:
    """Returns the ids of the passages that held-out `questions` are ranked against, in string order.

    The pool has `train.validation_passages` passages, if the corpus has so many: all gold passages, which may be
    more; then hard negatives, for at most half of the remaining places, the best-ranked of every question first; then
    passages of the corpus, drawn by `train.seed`.
    """
    pool = dict.fromkeys(id_ for question in questions for id_ in gold[question.qid])
    size = settings.validation_passages
    lists = [ids for question in questions for ids in negatives.get(question.qid, {}).values()]
    ranked = (id_ for rank in zip_longest(*lists) for id_ in rank if id_ is not None and id_ not in pool)
    places = max(0, size - len(pool)) // 2
    pool |= dict.fromkeys(islice(dict.fromkeys(ranked), places))
    sample = heapq.nsmallest(size, corpus, key=lambda id_: _rank(settings.seed, id_))
    others = (id_ for id_ in sample if id_ not in pool)
    pool |= dict.fromkeys(list(islice(others, max(0, size - len(pool)))))
    return sorted(pool)


def _rank(seed: int, id_: str) -> str:
    # Another rank than that of `questions.limited` and of the order of training.
    return seeded_hash(seed, f"validation:{id_}")
