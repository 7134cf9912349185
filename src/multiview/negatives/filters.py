"""Filters of hard negatives: retrieved passages that are positives, hold an answer or score too high."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.answers import QuestionAnswers
from multiview.data.arrays import int64_array, rows_in
from multiview.data.passages import PassageLookup
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.steps.events import Events

HITS_AT_ONCE = 1 << 23
"""Most hits that are held at once, with what is known about them: about 2 GB."""


def groups(
    questions: int, depth: int, passages: int, events: Events
) -> Iterator[tuple[slice, Callable[[int], None]]]:
    """Yields the questions in groups whose hits can be held at once, each with what reports how many are searched; one
    group that is empty where there are no questions."""
    size = max(1, HITS_AT_ONCE // max(1, min(depth, passages)))
    for start in range(0, max(1, questions), size):
        yield (
            slice(start, start + size),
            lambda done, before=start: events.progress(before + done, questions, "searches"),
        )


def hits_by_passage(
    passage_rows: np.ndarray, wanted: np.ndarray, ids: pa.Array, corpus: PassageLookup, columns: Sequence[str]
) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields tables of the passages that have a wanted hit, each with its hits: row in the table, question, column [n].

    `passage_rows` [q, k] are rows of `ids`, -1 for padding; `wanted` [q, k] bool. Each passage is read once, in the
    order of `corpus`, with the given columns, and one table is in memory at a time. Hits come in the order of their
    table's passages. Raises InputError for a passage that the corpus lacks.
    """
    flat = np.flatnonzero(wanted & (passage_rows >= 0))
    rows = passage_rows.ravel()[flat]
    order = np.argsort(rows, kind="stable")
    rows, flat = rows[order], flat[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    questions = flat // max(1, passage_rows.shape[1])  # `np.divmod` is slower: it divides one by one
    places = flat - questions * max(1, passage_rows.shape[1])
    for found, table in corpus.tables(ids.take(int64_array(rows[starts])), columns):
        hits = rows_in(starts[found], counts[found])
        yield table, np.repeat(np.arange(len(found)), counts[found]), questions[hits], places[hits]


class AnswerHits:
    """Finds the hits that hold an answer to their question."""

    def __init__(
        self, questions: Sequence[Question], ids: pa.Array, corpus: PassageLookup, matching: Mode
    ) -> None:
        """`ids` [p] are the ids of the passages by row; `corpus` has their texts."""
        self._answers = QuestionAnswers((question.answers for question in questions), matching)
        self._ids, self._corpus = ids, corpus

    def holds(self, passage_rows: np.ndarray) -> np.ndarray:
        """Returns whether passages [q, k], -1 for none, hold an answer to their question [q, k] bool.

        Each pair of question and passage is matched once.
        """
        # Each pair of question and passage as one number: question · number of passages + passage.
        starts = len(self._ids) * np.arange(len(passage_rows))[:, None]
        pairs = np.where(passage_rows >= 0, passage_rows + starts, -1)
        asked = np.sort(pairs, axis=None)  # `np.unique` takes much longer
        asked = asked[np.diff(asked, prepend=-1) > 0]
        questions = asked // max(1, len(self._ids))
        passages = (asked - questions * len(self._ids))[:, None]
        found = np.zeros(len(asked) + 1, bool)
        hits = hits_by_passage(passages, passages >= 0, self._ids, self._corpus, ["text"])
        for table, in_table, which, _ in hits:
            found[which] = self._answers.answered(table["text"].combine_chunks(), in_table, questions[which])
        return found[np.searchsorted(asked, pairs)] & (pairs >= 0)


class Positives:
    """The positives that a corpus holds: their `rows` [n] int64 there, question by question, and their `questions` [n]."""

    def __init__(
        self, ids: pa.Array, questions: Sequence[Question], equal: Mapping[str, str] | None = None
    ) -> None:
        """Finds the questions' positives among the `ids` of a corpus; `equal` is what `equal_texts` returns for it."""
        named = pa.array([id_ for question in questions for id_ in question.positive_ids], pa.string())
        rows = _rows(named, ids)
        asked = np.repeat(np.arange(len(questions)), [len(question.positive_ids) for question in questions])
        self.rows, self.questions, self._asked = rows[rows >= 0], asked[rows >= 0], len(questions)
        self._texts = np.append(np.arange(len(ids)), -1)  # by row, the number of its text; -1 for row -1
        if equal:
            of = _rows(pa.array(list(equal), pa.string()), ids)
            text = len(ids) + np.unique(list(equal.values()), return_inverse=True)[1]
            self._texts[of[of >= 0]] = text[of >= 0]

    @property
    def first(self) -> np.ndarray:
        """The row of each question's first positive [q] int64, -1 for a question without any."""
        first = np.full(self._asked, -1)
        first[self.questions[::-1]] = self.rows[::-1]
        return first

    def hits(self, passage_rows: np.ndarray) -> np.ndarray:
        """Returns whether hits [q, k], -1 for none, have the text of a positive of their question [q, k] bool."""
        hits = np.zeros(passage_rows.shape, dtype=bool)
        texts = self._texts[passage_rows]
        numbers = np.arange(len(self.rows)) - np.searchsorted(self.questions, self.questions)
        for number in range(numbers.max(initial=-1) + 1):  # most questions have few
            asked, rows = self.questions[numbers == number], self.rows[numbers == number]
            hits[asked] |= texts[asked] == self._texts[rows][:, None]
        return hits


def _rows(named: pa.Array, ids: pa.Array) -> np.ndarray:
    """Returns the row [n] int64 of each named passage among `ids`, -1 if it is not among them."""
    found = pc.call_function("index_in", [named], pc.SetLookupOptions(ids))
    return pc.fill_null(found, -1).to_numpy().astype(np.int64)


def above_margin(
    scores: np.ndarray, positive_scores: np.ndarray, margin: float | None, relative_margin: float | None
) -> np.ndarray:
    """Returns whether each hit scores too close to its question's positive to be a negative [q, k] bool.

    `scores` [q, k] are the scores of the hits, `positive_scores` [q] = s+. A hit must score at most s+ - margin and at
    most s+ - relative_margin * |s+|; the share is of |s+| because subtracting one of a negative s+ would raise the
    limit. With s+ = -inf no hit is too close.
    """
    positive = positive_scores.astype(np.float64)
    known = np.isfinite(positive)
    s = np.where(known, positive, 0.0)
    highest = np.where(known, s - np.maximum(margin or 0.0, (relative_margin or 0.0) * np.abs(s)), np.inf)
    return scores > highest[:, None]


def filter_hits(
    passage_rows: np.ndarray, reasons: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns which retrieved passages no reason leaves out [q, k] bool, never padding; and by reason, the number of hits
    left out per question [q] int64. A hit with several reasons counts for the first.

    `reasons` are masks [q, k] bool by name.
    """
    kept = passage_rows >= 0
    excluded = {}
    for reason, mask in reasons.items():
        excluded[reason] = (kept & mask).sum(axis=1)
        kept = kept & ~mask
    return kept, excluded
