"""The selection of the questions that are trained and evaluated on, among all that the sources hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from multiview.config import Config
from multiview.data import checks
from multiview.data.corpus_scan import CorpusScan
from multiview.data.questions import Question, seeded_hash
from multiview.errors import ReportProblem, counted, raise_problem


@dataclass(frozen=True)
class Selection:
    """The questions and passages that are used, and how many were left out for which reason."""

    train: list[Question] = field(default_factory=list)
    dev: list[Question] = field(default_factory=list)
    passages: Collection[str] = ()
    """Ids of the passages that are kept (`corpus.keep`)."""
    dropped: int = 0
    """Questions whose gold passages are not in the corpus."""
    unknown: int = 0
    """Gold passages that kept questions lost."""
    nameless: int = 0
    """Training questions that name no gold passage."""
    unknown_negatives: int = 0
    """Given negatives that are not in the corpus."""
    lost: int = 0
    """Questions whose gold passages hold none of their answers any more."""


def select(
    settings: Config,
    train: list[Question],
    dev: list[Question],
    scan: CorpusScan,
    report_problem: ReportProblem = raise_problem,
) -> Selection:
    """Returns the questions that are used: those with a gold passage in the corpus, then restricted and sampled.

    Dev questions that name no passage at all are kept, because retrieved passages are searched for their answers.
    """
    section, known = settings.questions, scan.rows
    if not section.source and not section.dev_source:  # the training questions are made by another step
        checks.check_shards(known, settings.corpus.shards, report_problem)
        return Selection(passages=known.keys())
    checks.check_gold(train, scan, "questions.source", section.max_missing_gold, report_problem)
    nameless = sum(not q.positive_ids for q in train)
    unknown = sum(unknown_positives(q, known) for q in (*train, *dev))
    lost = sum(map(scan.is_lost, (*train, *dev)))
    train, dropped = with_known_positives([q for q in train if not scan.is_lost(q)], known)
    if section.dev_source:
        with_gold = [q for q in dev if q.positive_ids]
        checks.check_gold(with_gold, scan, "questions.dev_source", section.max_missing_gold, report_problem)
        kept, dropped_dev = with_known_positives([q for q in with_gold if not scan.is_lost(q)], known)
        by_id = {q.qid: q for q in kept}
        dev = [by_id.get(q.qid, q) for q in dev if not q.positive_ids or q.qid in by_id]
        dropped += dropped_dev
    else:
        checks.check_held_out(train, report_problem)
        train, dev = held_out(train, section.dev_share, section.seed)
    if section.one_per_passage:
        train = one_per_passage(train, section.seed)
    train = limited(train, section.limit, section.seed)
    train, unknown_negatives = with_known_negatives(train, known)
    checks.check_negatives(train, section.hard_negatives, report_problem)
    passages: Collection[str] = known.keys()
    if settings.corpus.keep == "gold":
        passages = {id_ for q in (*train, *dev) for id_ in (*q.positive_ids, *q.negative_ids)}
    checks.check_shards(passages, settings.corpus.shards, report_problem)
    dev = limited(dev, section.dev_limit, section.seed)
    return Selection(train, dev, passages, dropped - nameless, unknown, nameless, unknown_negatives, lost)


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


def with_known_positives(questions: Iterable[Question], known: Collection[str]) -> tuple[list[Question], int]:
    """Returns the questions with at least one positive in `known`, and the number of questions without one.

    Unknown positives are left out with their grades. A question that loses its first positive loses its offsets too.
    """
    kept: list[Question] = []
    dropped = 0
    for q in questions:
        found = [id_ for id_ in q.positive_ids if id_ in known]
        if not found:
            dropped += 1
        elif len(found) == len(q.positive_ids):
            kept.append(q)
        else:
            kept.append(q.with_grades({id_: q.grades[id_] for id_ in found}))
    return kept, dropped


def with_known_negatives(questions: Iterable[Question], known: Collection[str]) -> tuple[list[Question], int]:
    """Returns the questions with those of their given negatives that are in `known`, and the number of the others."""
    kept: list[Question] = []
    unknown = 0
    for q in questions:
        negatives = tuple(id_ for id_ in q.negative_ids if id_ in known)
        unknown += len(q.negative_ids) - len(negatives)
        kept.append(replace(q, negative_ids=negatives) if len(negatives) < len(q.negative_ids) else q)
    return kept, unknown


def unknown_positives(question: Question, known: Collection[str]) -> int:
    """Returns the number of positives that are not in `known`; 0 for a question without any known positive."""
    if len(question.positive_ids) < 2:
        return 0
    unknown = sum(id_ not in known for id_ in question.positive_ids)
    return unknown if unknown < len(question.positive_ids) else 0


def shared_line(train: Iterable[Question], dev: Iterable[Question]) -> str:
    """Returns the warning about dev questions that are training questions too, by id and text; empty if there are none."""
    seen = {(q.qid, q.question) for q in train}
    shared = [q.qid for q in dev if (q.qid, q.question) in seen]
    if not shared:
        return ""
    said = counted(
        len(shared), "dev question is a training question too", "dev questions are training questions too"
    )
    return (
        f"{said} (first: question {shared[0]}): both sets keep such questions, so dev figures are measured on "
        "training questions; leave them out of one of the two files"
    )


def questions_per_passage(questions: Sequence[Question]) -> float:
    """Returns AVQ, the mean number of questions per first positive passage; 0 without questions."""
    passages = {q.positive_ids[0] for q in questions}
    return len(questions) / len(passages) if passages else 0.0
