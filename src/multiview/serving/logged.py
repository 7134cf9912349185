"""What a log of questions gives back: candidates for `gate.must_find`, and how far questions have drifted."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from multiview.serving.question_log import LoggedQuestion

QUANTILE = 0.05
"""Share of the earlier questions that have a top score below the bar of later ones."""

FEWEST = 20
"""Questions on each side, below which no drift is computed."""

QUESTIONS_FILE = "questions.jsonl"
GATE_FILE = "gate.yaml"


@dataclass(frozen=True)
class Candidate:
    """A question that was asked, as a dev question whose gold passage is the one that answered best."""

    qid: str
    question: str
    passage: str
    """Id of the passage that answered best when the question was last asked."""
    asked: int
    """How often it was asked."""


@dataclass(frozen=True)
class QuestionDrift:
    """The questions that an index was asked, the earlier half beside the later half."""

    index: str
    questions: int
    distinct: int
    unanswered: int
    """Number of questions without a hit."""
    earlier: float | None = None
    """Median top score of the earlier half; None where there are fewer than `FEWEST` on a side."""
    later: float | None = None
    """Median top score of the later half; None as for `earlier`."""
    below: float | None = None
    """Share of the later half whose top score is below the 5 % quantile of the earlier half: 0.05 without a drift."""


def asked_most(logged: Iterable[LoggedQuestion], most: int) -> list[Candidate]:
    """Returns the questions that were asked most often, at most `most`; those with a condition or without a hit do not
    count.

    >>> hits = [{"id": "p7", "score": 61.5}]
    >>> line = {"time": "2026-11-22T12:00:00Z", "index": "store/index/KEY", "question": "Who?", "hits": hits}
    >>> (one,) = asked_most([LoggedQuestion.model_validate(line)] * 2, most=10)
    >>> one.question, one.passage, one.asked
    ('Who?', 'p7', 2)
    """
    asked: Counter[str] = Counter()
    answered: dict[str, str] = {}
    for each in logged:
        if each.where is None and each.hits:
            asked[each.question.strip()] += 1
            answered[each.question.strip()] = each.hits[0].id
    return [
        Candidate(f"asked-{_digest(question)}", question, answered[question], count)
        for question, count in asked.most_common(most)
    ]


def write_candidates(folder: Path, found: Sequence[Candidate], rank: int) -> tuple[Path, Path]:
    """Writes candidates as dev questions (`questions.jsonl`) and as a preset with their `gate.must_find` (`gate.yaml`).

    `rank` is the largest rank at which each passage may be found. Returns both files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    questions, gate = folder / QUESTIONS_FILE, folder / GATE_FILE
    rows = ({"qid": each.qid, "question": each.question, "positive_ids": [each.passage]} for each in found)
    questions.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    must_find = {each.qid: rank for each in found}
    gate.write_text(yaml.safe_dump({"gate": {"must_find": must_find}}, sort_keys=False), encoding="utf-8")
    return questions, gate


def question_drift(logged: Iterable[LoggedQuestion]) -> list[QuestionDrift]:
    """Returns the drift of the questions of each index, in the order of their first questions.

    Top scores are compared within an index only, because another model has another scale. Questions with a condition
    are left out.
    """
    tops: dict[str, list[float | None]] = defaultdict(list)
    texts: dict[str, set[str]] = defaultdict(set)
    for each in logged:
        if each.where is None:
            tops[each.index].append(each.hits[0].score if each.hits else None)
            texts[each.index].add(each.question.strip())
    return [_drift(index, scores, len(texts[index])) for index, scores in tops.items()]


def _drift(index: str, tops: Sequence[float | None], distinct: int) -> QuestionDrift:
    scores = np.array([score for score in tops if score is not None])
    unanswered = len(tops) - len(scores)
    earlier, later = np.array_split(scores, 2)
    if len(later) < FEWEST:
        return QuestionDrift(index, len(tops), distinct, unanswered)
    below = float((later < np.quantile(earlier, QUANTILE)).mean())
    medians = float(np.median(earlier)), float(np.median(later))
    return QuestionDrift(index, len(tops), distinct, unanswered, *medians, below)


def _digest(question: str) -> str:
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:12]
