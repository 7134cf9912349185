"""Which retrieved passages are positives or hold an answer: what a hard negative must not be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.answers import Mode, TokenizedText, has_answer
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.errors import InputError


def answer_holding(
    numbers: np.ndarray,
    ids: pa.Array,
    passages: Iterable[Passage],
    questions: Sequence[Question],
    mode: Mode,
) -> np.ndarray:
    """Whether each retrieved passage's text holds an answer of its question [q, k] bool.

    `numbers` [q, k] are passage numbers, places in `ids`, -1 where there is none (False there).
    `passages` is read once and in any order, so that no more than one text is held and each is
    tokenised once. Raises InputError when a retrieved passage is not among `passages`.
    """
    holds = np.zeros(numbers.shape, dtype=bool)
    flat = numbers.ravel()
    order = np.argsort(flat, kind="stable")
    retrieved, starts = np.unique(flat[order], return_index=True)
    stops = np.append(starts[1:], len(flat))
    real = retrieved >= 0
    names = ids.take(pa.array(retrieved[real])).to_pylist()
    waiting = dict(zip(names, zip(starts[real].tolist(), stops[real].tolist(), strict=True), strict=True))
    for passage in passages:
        if (places := waiting.pop(passage.id, None)) is None:
            continue
        text = TokenizedText(passage.text)
        for place in order[places[0] : places[1]].tolist():
            question, hit = divmod(place, numbers.shape[1])
            holds[question, hit] = has_answer(text, questions[question].answers, mode)
    if waiting:
        raise InputError(
            f"passage {next(iter(waiting))!r} was retrieved but is not in the passages (nor are {len(waiting) - 1} others): "
            "give the passages that the index was built from"
        )
    return holds


def positive_hits(numbers: np.ndarray, ids: pa.Array, questions: Sequence[Question]) -> np.ndarray:
    """Whether each retrieved passage is a positive of its question, whichever of several [q, k] bool."""
    hits = np.zeros(numbers.shape, dtype=bool)
    for question, positives in enumerate(positive_numbers(ids, questions)):
        hits[question] = np.isin(numbers[question], positives)
    return hits


def positive_numbers(ids: pa.Array, questions: Sequence[Question]) -> list[np.ndarray]:
    """Of each question, the numbers of all its positives that the corpus has."""
    names = pa.array([name for question in questions for name in question.positive_ids], pa.string())
    found = pc.fill_null(pc.call_function("index_in", [names], pc.SetLookupOptions(ids)), -1).to_numpy()
    stops = np.cumsum([len(question.positive_ids) for question in questions])
    return [part[part >= 0] for part in np.split(found, stops[:-1])] if len(questions) else []


@dataclass(frozen=True)
class Survivors:
    """What is left of retrieved passages, and what was left out; a positive that holds an answer counts as positive."""

    kept: np.ndarray
    """[q, k] bool; never true at a padded place."""
    excluded_positive: int
    excluded_answer: int


def survivors(numbers: np.ndarray, positive: np.ndarray, answer: np.ndarray) -> Survivors:
    """The retrieved passages that may be hard negatives: neither a positive nor holding an answer."""
    real = numbers >= 0
    return Survivors(
        kept=real & ~positive & ~answer,
        excluded_positive=int((real & positive).sum()),
        excluded_answer=int((real & answer & ~positive).sum()),
    )
