"""What an analysis is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from multiview.config import Encode, Evaluation
from multiview.data.answers import Mode
from multiview.data.passages import Passage, PassageLookup
from multiview.data.questions import Question
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.measured import accuracy_cuts
from multiview.index.exact import TopPassages, rank_of
from multiview.model.layouts import Layout, TokenSequence, View, numbered_views
from multiview.negatives.filtering import answer_holding, positive_numbers
from multiview.steps.events import Events

if TYPE_CHECKING:
    from multiview.encoding.encode import Encoder
    from multiview.index.view_index import ViewIndex

PROBED = 1000
"""Passages that tell what the index holds."""


class NotApplicable(Exception):
    """This analysis does not suit the model or the data; the text says why."""


@dataclass(frozen=True)
class Findings:
    """Metrics by name, and tables by the name of their file."""

    metrics: dict[str, float] = field(default_factory=dict)
    tables: dict[str, CaptionedTable] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    """What may differ from run to run, such as times: told, and kept out of the files."""


@dataclass(frozen=True)
class IndexedViews:
    """What the rows of the index stand for, by up to 1000 random passages."""

    most: int
    """Most rows of any passage."""
    in_order: bool
    """Whether the i-th row of a passage is its i-th view: those left out come last."""
    padding_made: bool
    """Whether the layout makes padding views of these passages."""
    padding_indexed: bool


@dataclass
class Subject:
    """A model, its index over a corpus, and what it retrieved for the questions."""

    model: Path
    layout: Layout
    index: ViewIndex
    passages: Path
    """Folder of the passages that the index was built from."""
    questions: list[Question]
    train_questions: Path | None
    queries: np.ndarray
    """[q, dim] float32: the questions' vectors, times the score's scale."""
    top: TopPassages
    """[q, depth]: what the whole index retrieves."""
    settings: Evaluation
    encode: Encode
    matching: Mode
    events: Events

    @cached_property
    def encoder(self) -> Encoder:
        """The whole model in float32: what tells views apart is lost in half precision."""
        from multiview.encoding.encode import Encoder

        return Encoder(self.model, self.encode.model_copy(update={"compute": "float32"}))

    def questions_encoded(self, rows: np.ndarray) -> np.ndarray:
        """Vectors [rows, dim] of some questions by `encoder`, in float32."""
        if self.encode.compute == "float32":
            return self.queries[rows]
        return self.encoder.question_vectors([self.questions[row].question for row in rows.tolist()])

    @cached_property
    def rank(self) -> np.ndarray:
        """Place of each passage's id in string order [p] int64: what breaks ties."""
        return rank_of(self.index.ids)

    @cached_property
    def _lookup(self) -> PassageLookup:
        return PassageLookup(self.passages)

    @cached_property
    def at(self) -> list[int]:
        """The k of top-k accuracy that the retrieved depth allows."""
        return accuracy_cuts(self.settings.at, self.settings.depth)

    @cached_property
    def answered(self) -> np.ndarray:
        """Which questions have answers [q] bool: accuracy is theirs."""
        return np.array([bool(question.answers) for question in self.questions])

    @cached_property
    def holds(self) -> np.ndarray:
        """Whether each retrieved passage holds an answer [q, depth] bool."""
        return self.answers_in(self.top.passages)

    def answers_in(self, numbers: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Whether passages, -1 for none, hold an answer of their question [q, k] bool; each pair is matched once.

        `rows` [q] are the questions, none: all of them.
        """
        asked = self.questions if rows is None else [self.questions[row] for row in rows.tolist()]
        distinct = [np.unique(row) for row in numbers]
        unique = np.full((len(numbers), max(map(len, distinct), default=0)), -1, np.int64)
        for row, found in zip(unique, distinct, strict=True):
            row[: len(found)] = found
        passages = (passage for _, passage in self.iterate(unique))
        known = answer_holding(unique, self.index.ids, passages, asked, self.matching)
        holds = np.zeros(numbers.shape, bool)
        for question, found in enumerate(distinct):
            holds[question] = known[question, np.searchsorted(found, numbers[question])]
        return holds

    @cached_property
    def gold(self) -> np.ndarray:
        """The number of each question's first positive passage [q] int64, -1 where the index has none."""
        positives = positive_numbers(self.index.ids, self.questions)
        return np.array([found[0] if len(found) else -1 for found in positives], np.int64)

    def draw(self, total: int, number: int) -> np.ndarray:
        """`number` of 0…total-1 at random by `analysis_seed`, rising; all of them where there are no more."""
        if total <= number:
            return np.arange(total)
        return np.sort(
            np.random.default_rng(self.settings.analysis_seed).choice(total, number, replace=False)
        )

    def passages_of(self, numbers: np.ndarray) -> list[Passage]:
        """Some passages by their numbers, in that order. All are held at once: ask for a bounded number."""
        found = dict(self.iterate(numbers))
        return [found[number] for number in numbers.tolist()]

    def iterate(self, numbers: np.ndarray) -> Iterator[tuple[int, Passage]]:
        """Number and passage of those of `numbers` that are passages, each once, in the corpus's order."""
        wanted = np.unique(numbers[numbers >= 0])
        ids = self.index.ids.take(pa.array(wanted)).to_pylist()
        number_of = dict(zip(ids, wanted.tolist(), strict=True))
        for passage in self._lookup.stream(ids):
            yield number_of[passage.id], passage

    def sequences_of(
        self, numbers: np.ndarray
    ) -> Iterator[tuple[int, Passage, list[TokenSequence], list[View]]]:
        """Of some passages their number, themselves, their token sequences, and all views of these in order."""
        queries = self.index.queries(np.unique(numbers[numbers >= 0]).tolist())
        for number, passage in self.iterate(numbers):
            sequences = self.layout.passage(passage, queries[number])
            yield number, passage, sequences, [view for sequence in sequences for view in sequence.views]

    def rows_of(self, number: int, sequences: Sequence[TokenSequence]) -> list[tuple[int, View]]:
        """The views that a passage's rows in the index stand for, each with its place among all of its views."""
        return numbered_views(sequences, int(self.index.views[number]))

    @cached_property
    def indexed(self) -> IndexedViews:
        """What the index holds of the passages' views."""
        in_order, made, kept = True, False, False
        for number, _, sequences, views in self.sequences_of(self.draw(len(self.index), PROBED)):
            rows = self.rows_of(number, sequences)
            in_order &= [place for place, _ in rows] == list(range(len(rows)))
            kept |= any(view.padding for _, view in rows)
            made |= any(view.padding for view in views)
        return IndexedViews(int(self.index.views.max()), in_order, made, kept)

    def check_views(self) -> IndexedViews:
        """`indexed`, or NotApplicable where its rows cannot be told apart as views."""
        indexed = self.indexed
        if indexed.most < 2:
            raise NotApplicable("the index holds one view a passage")
        if not indexed.in_order:
            raise NotApplicable(
                "padding views that the index leaves out stand between others: index them too"
            )
        return indexed
