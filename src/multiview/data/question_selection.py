"""Selects and checks the questions. `report` decides what a problem does: `split` stops at it, `inspect` counts it."""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from multiview.config import Config
from multiview.data.corpus_scan import CorpusScan
from multiview.data.questions import Question, seeded_hash
from multiview.data.reading.qrels import SETTING, Use
from multiview.data.reading.training_files import TEXT_ID
from multiview.data.reading.values import look_alike
from multiview.errors import Report, counted

LOST_GOLD = "questions whose gold passages are not in the corpus, left out"
NO_GOLD = "training questions without a gold passage, left out"
UNKNOWN_POSITIVES = "gold passages that are not in the corpus, of questions that have others, left out"
UNKNOWN_NEGATIVES = "given negatives that are not in the corpus, left out"
MAY_BE_JOINED = "questions without gold passages whose answers hold |: each is one answer, not a list"
NO_ANSWERS = "training questions without answers: train.positive=answer takes their best view"
ASKED_AGAIN = "questions with the text and answers of another: each has the gold passages of all these rows"
IN_BOTH = "questions in both train and dev: both keep them; remove them from one of the two files"
"""Kinds of remarks."""

BY_CHANCE = 0.01
"""Share of questions whose answers may contain `SEPARATORS` without being lists."""


class Selection(NamedTuple):
    """The questions and passages that are used."""

    train: list[Question]
    dev: list[Question]
    passages: Collection[str]
    """Ids of the passages that are kept (`corpus.keep`)."""


def select(settings: Config, scan: CorpusScan, report: Report) -> Selection:
    """Returns the questions that are used: those with a gold passage in the corpus, then restricted and sampled.

    Dev questions that name no passage at all are kept, because retrieved passages are searched for their answers.
    """
    section, passages = settings.questions, scan.rows.keys()
    if not section.source and not section.dev_source:  # the training questions are made by another step
        _check_shards(settings, passages, report)
        return Selection([], [], passages)
    train = with_shared_positives(_with_gold(scan.train, "train", settings, scan, report), report)
    dev = with_shared_positives(_with_gold(scan.dev, "dev", settings, scan, report), report)
    for question in train:
        if not question.positive_ids:
            report.remark(NO_GOLD, f"question {question.qid}")
    train = [q for q in train if q.positive_ids]
    if not section.dev_source:
        rest, dev = held_out(train, section.dev_share, section.seed)
        if train and not (rest and dev):
            report.problem(
                "training questions of which none can be held out",
                "questions.source: all questions are about one passage, or ask the same, so nothing can be held out; "
                "give questions.dev_source",
            )
        train = rest
    if section.one_per_passage:
        train = one_per_passage(train, section.seed)
    train = limited(train, section.limit, section.seed)
    named = next((id_ for q in train for id_ in q.negative_ids), "")
    train = _with_known_negatives(train, passages, report)
    if section.hard_negatives != "bm25" and not any(q.negative_ids for q in train):
        first = f" (first: {look_alike(named, passages)})" if named else ""
        report.problem(
            "given negatives of which none is in the corpus",
            f"questions.hard_negatives={section.hard_negatives}: no training question names a negative that is in the "
            f"corpus{first}; name their column, as in questions.columns={{negative_ids: yours}}, give ids of pieces "
            "(ID-0, …) where articles are cut, or set questions.hard_negatives=bm25",
        )
    kept: Collection[str] = passages
    if settings.corpus.keep == "gold":
        kept = {id_ for q in (*train, *dev) for id_ in (*q.positive_ids, *q.negative_ids)}
    _check_shards(settings, kept, report)
    dev = limited(dev, section.dev_limit, section.seed)
    trained = {(about, q.question) for q in train for about in (q.qid, q.answers, *q.positive_ids)}
    for question in dev:
        abouts = (question.qid, question.answers, *question.positive_ids)
        if any((about, question.question) in trained for about in abouts):
            report.remark(IN_BOTH, f"question {question.qid}")
    for question in train:
        if not question.answers:
            report.remark(NO_ANSWERS, f"question {question.qid}")
    return Selection(train, dev, kept)


def _check_shards(settings: Config, passages: Collection[str], report: Report) -> None:
    if len(passages) < (shards := settings.corpus.shards):
        line = f"corpus.shards={shards}: the corpus has only {counted(len(passages), 'passage')}; set fewer shards"
        report.problem("more shards than passages", line)


def _with_gold(
    questions: Sequence[Question], use: Use, settings: Config, scan: CorpusScan, report: Report
) -> list[Question]:
    """Returns the questions that name no gold passages or have not lost theirs, without unknown positives.

    Reports a training source that names no gold passages, too many lost ones, and answers that gold passages do not
    hold, or only in part: these may be lists that were taken for one answer.
    """
    with_gold = [q for q in questions if q.positive_ids]
    if use == "train" and questions and not with_gold:
        report.problem(
            "sources without gold passages",
            f"questions.source: its questions name no passages (first: question {questions[0].qid}), and training needs "
            "them; name their column, as in questions.columns={positive_ids: yours}; questions with only answers "
            "can be used as questions.dev_source",
        )
    missing = [q for q in with_gold if scan.lacks_gold(q)]
    allowed = max(0, min(settings.questions.max_missing_gold * len(with_gold), len(with_gold) - 1))
    if len(missing) > allowed:
        more = ", or allow more with questions.max_missing_gold" if len(missing) < len(with_gold) else ""
        report.problem(
            "sources whose gold passages are not in the corpus",
            f"{SETTING[use]}: the gold passages of {len(missing):,} of {counted(len(with_gold), 'question')} are not in the "
            f"corpus or do not hold the answer {_loss(missing[0], scan)}{more}",
        )
    answered = [q for q in with_gold if q.answers and not scan.lacks_gold(q)]
    if answered and not settings.questions.free_answers and all(map(scan.answers.are_free, answered)):
        report.problem(
            "answers that no gold passage holds",
            f"{SETTING[use]}: none of the answers of {counted(len(answered), 'question')} is in its gold passage (first: "
            f"{answered[0].answers[0]!r:.80}): are they answers? Free ones need questions.free_answers=true",
        )
    joined = [q for q in answered if q in scan.answers.joined and scan.answers.are_free(q)]
    if not settings.questions.free_answers and len(joined) > BY_CHANCE * len(answered):
        report.problem(
            "answers that are several in one",
            f"{SETTING[use]}: of {counted(len(joined), 'question')} the gold passage holds only a part of the answer (first: "
            f'question {joined[0].qid}, {joined[0].answers[0]!r:.80}); write several as a list, as in ["a", "b"], or set '
            "questions.free_answers=true",
        )
    if settings.questions.answer_matching != "regex":
        for question in questions:
            if not question.positive_ids and "|" in "".join(question.answers):
                report.remark(MAY_BE_JOINED, f"question {question.qid}, {question.answers[0]!r:.80}")
    return with_known_positives([q for q in questions if not scan.answers.are_lost(q)], scan.rows, report)


def _loss(question: Question, scan: CorpusScan) -> str:
    """Returns how a question has lost its gold passage, and what to mend."""
    passage = question.positive_ids[0]
    if scan.answers.are_lost(question):
        return f"(first: {scan.answers.lost[question]}); mend the answers"
    if passage in scan.answers.cut:
        return (
            f"(first: question {question.qid}: no passage that article {passage} was cut into holds its answer whole); "
            "mend the answers, or cut longer passages"
        )
    if passage.startswith(TEXT_ID) and not any(id_.startswith(TEXT_ID) for id_ in scan.rows):
        return (
            f"(first: question {question.qid}, whose passage is given as a text, without an id); leave out corpus.source if "
            "these texts are the corpus, or give the passages' ids as positive_ids"
        )
    articles = (id_.rpartition("-")[0] for id_ in scan.rows)  # where they were cut
    named = look_alike(passage, chain(scan.rows, articles))
    return f"(first: question {question.qid}, passage {named}); mend the ids"


def limited(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """Returns at most `limit` questions in their given order, drawn by `seed` independently of that order."""
    if limit is None or limit >= len(questions):
        return list(questions)
    chosen = set(sorted((q.qid for q in questions), key=lambda qid: seeded_hash(seed, qid))[:limit])
    return [q for q in questions if q.qid in chosen]


def one_per_passage(questions: Sequence[Question], seed: int) -> list[Question]:
    """Returns one question per first positive passage, drawn by `seed`: AVQ = 1 (CAMVR 4.4)."""
    chosen: dict[str, str] = {}
    # A later limit (`limited`) by the same ranks would favour passages with many questions.
    for q in sorted(questions, key=lambda q: (seeded_hash(seed, f"one_per_passage:{q.qid}"), q.qid)):
        chosen.setdefault(q.positive_ids[0], q.qid)
    qids = set(chosen.values())
    return [q for q in questions if q.qid in qids]


def held_out(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Returns training and dev questions, the latter being all those about a `share` of the first positive passages.

    The passages are drawn by `seed`: at least one, but none if there is only one. Rows of one question with the same gold
    passages are about the first of these by id. No training question asks what a dev question asks.
    """

    def rows(q: Question) -> Hashable:
        return q.question, q.answers, frozenset(q.positive_ids)

    about: dict[Hashable, str] = {}
    for q in questions:
        about[rows(q)] = min(q.positive_ids[0], about.get(rows(q), q.positive_ids[0]))
    passages = sorted({*about.values()}, key=lambda id_: seeded_hash(seed, id_))
    dev_count = min(max(1, round(share * len(passages))), max(0, len(passages) - 1))
    train = set(passages[dev_count:])
    dev = [q for q in questions if about[rows(q)] not in train]
    asked = {(q.question, q.answers) for q in dev}
    return [q for q in questions if about[rows(q)] in train and (q.question, q.answers) not in asked], dev


def with_shared_positives(questions: Sequence[Question], report: Report) -> list[Question]:
    """Returns the questions, each with its own positives first, then those of the others with its text and answers.

    A file of pairs has a row for each positive of a question: it must be no negative of the question's other rows.
    """
    shared: dict[tuple[str, tuple[str, ...]], dict[str, int]] = defaultdict(dict)
    for q in questions:
        shared[q.question, q.answers] |= q.grades
    found: list[Question] = []
    for q in questions:
        grades = {**q.grades, **shared[q.question, q.answers], **q.grades} if q.positive_ids else {}
        if len(grades) > len(q.positive_ids):
            report.remark(ASKED_AGAIN, f"question {q.qid}")
        found.append(q.with_grades(grades) if len(grades) > len(q.positive_ids) else q)
    return found


def with_known_positives(
    questions: Iterable[Question], known: Collection[str], report: Report
) -> list[Question]:
    """Returns the questions without their unknown positives; those whose positives are all unknown are left out."""
    kept: list[Question] = []
    for q in questions:
        unknown = [id_ for id_ in q.positive_ids if id_ not in known]
        for id_ in unknown:
            numbered = all(re.search(r"\d", word) for word in re.split(r"[\s|;,]+", id_))  # else titles
            ids = re.split(r"[\s|;,]+" if numbered else r"\s*[|;]\s*", id_)
            if len(ids) > 1 and all(each in known for each in ids):
                line = f"question {q.qid}: gold passage {id_!r:.80} is several; write their ids as a list"
                report.problem("gold passages that are several in one", f'{line}, as in ["a", "b"]')
        if unknown and len(unknown) == len(q.positive_ids):
            report.remark(LOST_GOLD, f"question {q.qid}, passage {unknown[0]}")
            continue
        for id_ in unknown:
            report.remark(UNKNOWN_POSITIVES, f"question {q.qid}, passage {id_}")
        grades = {id_: grade for id_, grade in q.grades.items() if id_ in known}
        kept.append(q.with_grades(grades) if unknown else q)
    return kept


def _with_known_negatives(
    questions: Iterable[Question], known: Collection[str], report: Report
) -> list[Question]:
    kept: list[Question] = []
    for q in questions:
        unknown = dict.fromkeys(id_ for id_ in q.negative_ids if id_ not in known)
        for id_ in unknown:
            report.remark(UNKNOWN_NEGATIVES, f"question {q.qid}, passage {id_}")
        negatives = tuple(id_ for id_ in q.negative_ids if id_ not in unknown)
        kept.append(replace(q, negative_ids=negatives) if unknown else q)
    return kept


def questions_per_passage(questions: Sequence[Question]) -> float:
    """Returns AVQ, the mean number of questions per first positive passage; 0 without questions."""
    passages = {q.positive_ids[0] for q in questions}
    return len(questions) / len(passages) if passages else 0.0
