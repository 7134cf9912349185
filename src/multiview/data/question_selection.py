"""The selection of the questions that are trained and evaluated on, among all that the sources hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from multiview.config import Config
from multiview.data import checks
from multiview.data.corpus_scan import CorpusScan
from multiview.data.questions import Question, seeded_hash
from multiview.errors import ReportProblem, ignore_problem, raise_problem

LOST_GOLD = "questions whose gold passages are not in the corpus, left out"
NO_GOLD = "training questions without a gold passage, left out"
UNKNOWN_POSITIVES = "gold passages that are not in the corpus, of questions that have others, left out"
UNKNOWN_NEGATIVES = "given negatives that are not in the corpus, left out"
NO_ANSWERS = "training questions without answers: train.positive=answer takes their best view"
IN_BOTH = "questions in both train and dev: both keep them; remove them from one of the two files"
"""Kinds of remarks."""


class Selection(NamedTuple):
    """The questions and passages that are used."""

    train: list[Question]
    dev: list[Question]
    passages: Collection[str]
    """Ids of the passages that are kept (`corpus.keep`)."""


def select(
    settings: Config,
    train: Sequence[Question],
    dev: Sequence[Question],
    scan: CorpusScan,
    report_problem: ReportProblem = raise_problem,
    report_remark: ReportProblem = ignore_problem,
) -> Selection:
    """Returns the questions that are used: those with a gold passage in the corpus, then restricted and sampled.

    Dev questions that name no passage at all are kept, because retrieved passages are searched for their answers.
    """
    section, known = settings.questions, scan.rows
    if not section.source and not section.dev_source:  # the training questions are made by another step
        checks.check_shards(known, settings.corpus.shards, report_problem)
        return Selection([], [], known.keys())
    checks.check_gold(train, scan, "questions.source", section.max_missing_gold, report_problem)
    if not section.free_answers:
        checks.check_answers(train, scan, "questions.source", report_problem)
        checks.check_answers(dev, scan, "questions.dev_source", report_problem)
    for question in train:
        if not question.positive_ids:
            report_remark(NO_GOLD, f"question {question.qid}")
    train = [q for q in train if q.positive_ids and not scan.answers.are_lost(q)]
    train = with_known_positives(train, known, report_remark)
    if section.dev_source:
        with_gold = [q for q in dev if q.positive_ids]
        checks.check_gold(with_gold, scan, "questions.dev_source", section.max_missing_gold, report_problem)
        dev = [q for q in dev if not scan.answers.are_lost(q)]
        dev = with_known_positives(dev, known, report_remark)
    else:
        checks.check_held_out(train, report_problem)
        train, dev = held_out(train, section.dev_share, section.seed)
    if section.one_per_passage:
        train = one_per_passage(train, section.seed)
    train = limited(train, section.limit, section.seed)
    named = next((id_ for q in train for id_ in q.negative_ids), "")
    train = with_known_negatives(train, known, report_remark)
    checks.check_negatives(train, named, known, section.hard_negatives, report_problem)
    passages: Collection[str] = known.keys()
    if settings.corpus.keep == "gold":
        passages = {id_ for q in (*train, *dev) for id_ in (*q.positive_ids, *q.negative_ids)}
    checks.check_shards(passages, settings.corpus.shards, report_problem)
    dev = limited(dev, section.dev_limit, section.seed)
    trained = {(q.qid, q.question) for q in train}
    for question in dev:
        if (question.qid, question.question) in trained:
            report_remark(IN_BOTH, f"question {question.qid}")
    for question in train:
        if not question.answers:
            report_remark(NO_ANSWERS, f"question {question.qid}")
    return Selection(train, dev, passages)


def limited(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """Returns at most `limit` questions in their given order, drawn by `seed` independently of that order."""
    if limit is None or limit >= len(questions):
        return list(questions)
    chosen = set(sorted((q.qid for q in questions), key=lambda qid: seeded_hash(seed, qid))[:limit])
    return [q for q in questions if q.qid in chosen]


def one_per_passage(questions: Sequence[Question], seed: int) -> list[Question]:
    """Returns one question per first positive passage, drawn by `seed`: AVQ = 1 (CAMVR 4.4).

    The ranks differ from those of `limited`. The lowest of many ranks tends to be low, so a later limit by the same
    ranks would favour passages with many questions.
    """
    chosen: dict[str, str] = {}
    for q in sorted(questions, key=lambda q: (seeded_hash(seed, f"one_per_passage:{q.qid}"), q.qid)):
        chosen.setdefault(q.positive_ids[0], q.qid)
    qids = set(chosen.values())
    return [q for q in questions if q.qid in qids]


def held_out(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Returns training and dev questions with no first positive passage in common.

    A `share` of these passages, at least one, is drawn by `seed`, and all questions about them are held out; none where
    there is only one passage.
    """
    passages = sorted({q.positive_ids[0] for q in questions}, key=lambda id_: seeded_hash(seed, id_))
    dev_count = min(max(1, round(share * len(passages))), max(0, len(passages) - 1))
    dev = set(passages[:dev_count])
    return (
        [q for q in questions if q.positive_ids[0] not in dev],
        [q for q in questions if q.positive_ids[0] in dev],
    )


def with_known_positives(
    questions: Iterable[Question], known: Collection[str], report_remark: ReportProblem = ignore_problem
) -> list[Question]:
    """Returns the questions that name no positive, or at least one in `known`.

    Unknown positives are left out with their grades. A question that loses its first positive loses its offsets too.
    """
    kept: list[Question] = []
    for q in questions:
        unknown = [id_ for id_ in q.positive_ids if id_ not in known]
        if not unknown:
            kept.append(q)
        elif len(unknown) == len(q.positive_ids):
            report_remark(LOST_GOLD, f"question {q.qid}, passage {unknown[0]}")
        else:
            for id_ in unknown:
                report_remark(UNKNOWN_POSITIVES, f"question {q.qid}, passage {id_}")
            kept.append(q.with_grades({id_: grade for id_, grade in q.grades.items() if id_ in known}))
    return kept


def with_known_negatives(
    questions: Iterable[Question], known: Collection[str], report_remark: ReportProblem = ignore_problem
) -> list[Question]:
    """Returns the questions with those of their given negatives that are in `known`."""
    kept: list[Question] = []
    for q in questions:
        negatives = tuple(id_ for id_ in q.negative_ids if id_ in known)
        for id_ in q.negative_ids if len(negatives) < len(q.negative_ids) else ():
            if id_ not in known:
                report_remark(UNKNOWN_NEGATIVES, f"question {q.qid}, passage {id_}")
        kept.append(replace(q, negative_ids=negatives) if len(negatives) < len(q.negative_ids) else q)
    return kept


def questions_per_passage(questions: Sequence[Question]) -> float:
    """Returns AVQ, the mean number of questions per first positive passage; 0 without questions."""
    passages = {q.positive_ids[0] for q in questions}
    return len(questions) / len(passages) if passages else 0.0
