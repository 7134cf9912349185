"""Which retrieved passages are positives, hold an answer or score too high: what a hard negative must not be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.answers import Mode, TokenizedText, has_answer
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.errors import InputError


def hits_by_passage(
    passage_rows: np.ndarray, wanted: np.ndarray, ids: pa.Array, passages: Iterable[Passage]
) -> Iterator[tuple[Passage, list[tuple[int, int]]]]:
    """Each passage that a wanted hit retrieved, with the (question, column) of each of these hits.

    `passage_rows` [q, k] are rows of `ids`, -1 for padding; `wanted` [q, k] bool.
    `passages` is read once and in any order, so that no more than one text is held. Raises InputError
    when a retrieved passage is not among `passages`.
    """
    flat = np.where(wanted, passage_rows, -1).ravel()
    order = np.argsort(flat, kind="stable")
    retrieved, starts = np.unique(flat[order], return_index=True)
    stops = np.append(starts[1:], len(flat))
    real = retrieved >= 0
    names = ids.take(pa.array(retrieved[real])).to_pylist()
    waiting = dict(zip(names, zip(starts[real].tolist(), stops[real].tolist(), strict=True), strict=True))
    for passage in passages:
        if (bounds := waiting.pop(passage.id, None)) is not None:
            hits = order[bounds[0] : bounds[1]].tolist()
            yield passage, [divmod(hit, passage_rows.shape[1]) for hit in hits]
    if waiting:
        raise InputError(
            f"passage {next(iter(waiting))!r} was retrieved but is not in the passages (nor are {len(waiting) - 1} others): "
            "give the passages that the index was built from"
        )


def answer_holding(
    passage_rows: np.ndarray,
    ids: pa.Array,
    passages: Iterable[Passage],
    questions: Sequence[Question],
    mode: Mode,
) -> np.ndarray:
    """Whether each retrieved passage's text holds an answer of its question [q, k] bool; False at -1.

    Each text is tokenised once. Raises InputError when a retrieved passage is not among `passages`.
    """
    holds = np.zeros(passage_rows.shape, dtype=bool)
    for passage, hits in hits_by_passage(passage_rows, passage_rows >= 0, ids, passages):
        text = TokenizedText(passage.text)
        for question, column in hits:
            holds[question, column] = has_answer(text, questions[question].answers, mode)
    return holds


def positive_hits(passage_rows: np.ndarray, ids: pa.Array, questions: Sequence[Question]) -> np.ndarray:
    """Whether each retrieved passage is a positive of its question, whichever of several [q, k] bool."""
    hits = np.zeros(passage_rows.shape, dtype=bool)
    for question, positives in enumerate(positive_rows(ids, questions)):
        hits[question] = np.isin(passage_rows[question], positives)
    return hits


def positive_rows(ids: pa.Array, questions: Sequence[Question]) -> list[np.ndarray]:
    """Rows of all positives of each question that the corpus has."""
    names = pa.array([name for question in questions for name in question.positive_ids], pa.string())
    found = pc.fill_null(pc.call_function("index_in", [names], pc.SetLookupOptions(ids)), -1).to_numpy()
    stops = np.cumsum([len(question.positive_ids) for question in questions])
    return [part[part >= 0] for part in np.split(found, stops[:-1])] if len(questions) else []


def above_margin(
    scores: np.ndarray, positive_scores: np.ndarray, margin: float | None, relative_margin: float | None
) -> np.ndarray:
    """Whether each hit scores too near its question's positive to be a negative [q, k] bool.

    `scores` [q, k] of the hits, `positive_scores` [q] = s+. A hit must score s+ - margin at most, and
    s+ - relative_margin * |s+| at most: with |s+|, because a share of a negative s+ lies above it. A
    question without a positive in the index (-inf) has no margin: none of its hits is above.
    """
    positive = positive_scores.astype(np.float64)
    known = np.isfinite(positive)
    s = np.where(known, positive, 0.0)
    highest = np.where(known, s - np.maximum(margin or 0.0, (relative_margin or 0.0) * np.abs(s)), np.inf)
    return scores > highest[:, None]


@dataclass(frozen=True)
class FilteredHits:
    """The hits that filters keep, and how many each filter left out."""

    kept: np.ndarray
    """[q, k] bool; never true for padding."""
    excluded: dict[str, np.ndarray]
    """Reason to the number of each question's hits that were left out for that reason [q] int64."""

    def totals(self) -> dict[str, int]:
        """Reason to the number of hits over all questions."""
        return {reason: int(counts.sum()) for reason, counts in self.excluded.items()}


def filter_hits(passage_rows: np.ndarray, reasons: Mapping[str, np.ndarray]) -> FilteredHits:
    """Keep the retrieved passages [q, k] that no reason leaves out.

    `reasons` names masks [q, k] bool, in the order in which they count: a hit that several leave out
    counts at the first of them, so that the counts and what is kept add up to the hits.
    """
    kept = passage_rows >= 0
    excluded = {}
    for reason, mask in reasons.items():
        excluded[reason] = (kept & mask).sum(axis=1)
        kept = kept & ~mask
    return FilteredHits(kept, excluded)
