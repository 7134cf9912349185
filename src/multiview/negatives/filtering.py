"""Filters of hard negatives: retrieved passages that are positives, hold an answer or score too high."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.answers import TEXTS_AT_ONCE, QuestionAnswers
from multiview.data.questions import Question
from multiview.data.tokens import Mode, TokenizedText
from multiview.errors import InputError

Content = TypeVar("Content")


def hits_by_passage(
    passage_rows: np.ndarray, wanted: np.ndarray, ids: pa.Array, passages: Iterable[tuple[str, Content]]
) -> Iterator[tuple[Content, np.ndarray, np.ndarray]]:
    """Yields what is given of each passage that has a wanted hit, with the questions and the columns of these hits [n].

    `passage_rows` [q, k] are rows of `ids`, -1 for padding; `wanted` [q, k] bool. `passages`, id and content, is read
    once, in any order, and one of them is in memory at a time. Raises InputError when a retrieved passage is not in
    `passages`.
    """
    flat = np.flatnonzero(wanted & (passage_rows >= 0))
    rows = passage_rows.ravel()[flat]
    # As one number, since NumPy sorts these in a fraction of the time of a stable order.
    rows, flat = np.divmod(np.sort(rows * max(1, wanted.size) + flat), max(1, wanted.size))
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    bounds = zip(starts.tolist(), np.append(starts, len(rows))[1:].tolist(), strict=True)
    pending = dict(zip(ids.take(pa.array(rows[starts])).to_pylist(), bounds, strict=True))
    questions, columns = np.divmod(flat, max(1, passage_rows.shape[1]))
    for id_, content in passages:
        if (hit_range := pending.pop(id_, None)) is not None:
            hits = slice(*hit_range)
            yield content, questions[hits], columns[hits]
    if pending:
        raise InputError(
            f"passage {next(iter(pending))!r} was retrieved but is not in the passages ({len(pending):,} in all): "
            "give the passages that the index was built from"
        )


def answer_holding(
    passage_rows: np.ndarray,
    ids: pa.Array,
    texts: Iterable[tuple[str, str]],
    questions: Sequence[Question],
    mode: Mode,
) -> np.ndarray:
    """Returns whether each retrieved passage's text holds an answer of its question [q, k] bool; False for padding (-1).

    `texts` are id and text of all passages. Each text and each answer is tokenised once. Raises InputError when a
    retrieved passage is not in `texts`.
    """
    answers = QuestionAnswers((question.answers for question in questions), mode)
    holds = np.zeros(passage_rows.shape, dtype=bool)
    passages = hits_by_passage(passage_rows, passage_rows >= 0, ids, texts)
    while some := list(islice(passages, TEXTS_AT_ONCE)):
        asking, columns = (np.concatenate(each) for each in list(zip(*some, strict=True))[1:])
        in_text = np.repeat(np.arange(len(some)), [len(hits) for _, hits, _ in some])
        held = answers.answered([TokenizedText(text, mode) for text, _, _ in some], in_text, asking)
        holds[asking[held], columns[held]] = True
    return holds


def positive_hits(passage_rows: np.ndarray, ids: pa.Array, questions: Sequence[Question]) -> np.ndarray:
    """Returns whether each retrieved passage is one of the positives of its question [q, k] bool."""
    return hits_among(passage_rows, positive_rows(ids, questions))


def hits_among(passage_rows: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Returns whether each retrieved passage [q, k] is one of `rows` of its question [q, k] bool."""
    hits = np.zeros(passage_rows.shape, dtype=bool)
    counts = np.array([len(each) for each in rows], np.int64)
    for number in range(counts.max(initial=0)):  # a question has few
        some = np.flatnonzero(counts > number)
        positives = np.array([rows[question][number] for question in some.tolist()])
        hits[some] |= passage_rows[some] == positives[:, None]
    return hits


def positive_rows(ids: pa.Array, questions: Sequence[Question]) -> list[np.ndarray]:
    """Returns, per question, the rows of its positives in `ids`; positives that the corpus lacks are left out."""
    positive_ids = pa.array([id_ for question in questions for id_ in question.positive_ids], pa.string())
    indices = pc.call_function("index_in", [positive_ids], pc.SetLookupOptions(ids))
    rows = pc.fill_null(indices, -1).to_numpy()
    stops = np.cumsum([len(question.positive_ids) for question in questions])
    return [part[part >= 0] for part in np.split(rows, stops[:-1])] if len(questions) else []


def above_margin(
    scores: np.ndarray, positive_scores: np.ndarray, margin: float | None, relative_margin: float | None
) -> np.ndarray:
    """Returns whether each hit scores too close to its question's positive to be a negative [q, k] bool.

    `scores` [q, k] are the scores of the hits, `positive_scores` [q] = s+. A hit must score at most s+ - margin and at
    most s+ - relative_margin * |s+|. The formula has |s+| because a share of a negative s+ would be above s+. A
    question without a positive in the index (s+ = -inf) has no margin, so none of its hits is above.
    """
    positive = positive_scores.astype(np.float64)
    known = np.isfinite(positive)
    s = np.where(known, positive, 0.0)
    highest = np.where(known, s - np.maximum(margin or 0.0, (relative_margin or 0.0) * np.abs(s)), np.inf)
    return scores > highest[:, None]


@dataclass(frozen=True)
class FilteredHits:
    """The hits that the filters keep, and the number of hits that each filter leaves out."""

    kept: np.ndarray
    """[q, k] bool; never true for padding."""
    excluded: dict[str, np.ndarray]
    """Reason to the number of hits left out for this reason, per question [q] int64."""

    def totals(self) -> dict[str, int]:
        """Returns reason to the number of hits left out, over all questions."""
        return {reason: int(counts.sum()) for reason, counts in self.excluded.items()}


def filter_hits(passage_rows: np.ndarray, reasons: Mapping[str, np.ndarray]) -> FilteredHits:
    """Returns the retrieved passages [q, k] that no reason leaves out.

    `reasons` are masks [q, k] bool by name, in order of precedence. A hit with several reasons counts only for the
    first one, so that the counts and the kept hits add up to all hits.
    """
    kept = passage_rows >= 0
    excluded = {}
    for reason, mask in reasons.items():
        excluded[reason] = (kept & mask).sum(axis=1)
        kept = kept & ~mask
    return FilteredHits(kept, excluded)
