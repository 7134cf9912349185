"""The input of an analysis (a model with its index and retrieved passages), and the findings of an analysis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multiview import metric_names
from multiview.config import Encode, Evaluation
from multiview.data.passages import PassageLookup
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.costs import TIMED
from multiview.index.exact import ALL_VIEWS, ViewRange
from multiview.index.indexed_passages import IndexedPassage, IndexedPassages, TextsById
from multiview.index.ranking import TopPassages
from multiview.model.layouts import Layout
from multiview.negatives.filtering import AnswerHits, Positives
from multiview.steps.events import Events

if TYPE_CHECKING:
    from multiview.encoding.encode import Encoder
    from multiview.index.view_index import ViewIndex

SUMMARY_SAMPLE = 1000
"""Number of passages that are read to see which views the index holds."""


class NotApplicable(Exception):
    """Raised by an analysis that does not suit the model or the data; the message says why."""


SEED = 0
"""Seed of the random rows that analyses look at."""


@dataclass(frozen=True)
class Findings:
    """The results of an analysis: metrics by name, and tables by the name of their file."""

    metrics: dict[str, float] = field(default_factory=dict)
    tables: dict[str, CaptionedTable] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    """Values that may differ from run to run, such as times: they are reported, and kept out of the files."""


@dataclass(frozen=True)
class ViewSummary:
    """A summary of the views that the index holds, from up to `SUMMARY_SAMPLE` random passages."""

    most: int
    """Largest number of views of a passage in the index."""
    in_order: bool
    """Whether the i-th row of a passage is its i-th view, because views that the index leaves out come last."""
    padding_made: bool
    """Whether the layout makes padding views of these passages."""
    padding_indexed: bool
    """Whether the index holds padding views of these passages."""


@dataclass(frozen=True)
class Ranking:
    """The passages that were retrieved for the questions by all views or by some, best first."""

    passages: np.ndarray
    """[q, depth] int64: their rows in the index, -1 for none."""
    holds: np.ndarray
    """[q, depth] bool: which of them hold an answer of their question."""
    gold: np.ndarray
    """[q, depth] bool: which of them are positives of their question."""


@dataclass
class AnalysisInput:
    """A model, its index over a corpus, and the passages that it retrieved for the questions."""

    model: Path
    layout: Layout
    index: ViewIndex
    passages: Path
    """Folder with the passages that the index was built from."""
    questions: list[Question]
    train_questions: Path | None
    queries: np.ndarray
    """[q, dim] float32: vectors of the questions, times the scale of the score."""
    settings: Evaluation
    encode: Encode
    matching: Mode
    events: Events
    top: TopPassages = field(init=False)
    """[q, depth]: the passages retrieved from the whole index; missing before `search`."""
    _rankings: dict[ViewRange | None, Ranking] = field(default_factory=dict, init=False)
    """By ranges of views; none: of the whole index, as `top` has them."""

    @cached_property
    def encoder(self) -> Encoder:
        """An encoder with the whole model in float32, because half precision cannot distinguish views."""
        from multiview.encoding.encode import Encoder

        return Encoder(self.model, self.encode.model_copy(update={"compute": "float32"}))

    def questions_encoded(self, rows: np.ndarray) -> np.ndarray:
        """Vectors [rows, dim] float32 of the questions at `rows`, encoded in float32."""
        if self.encode.compute == "float32":
            return self.queries[rows]
        return self.encoder.question_vectors([self.questions[row].question for row in rows.tolist()])

    @cached_property
    def cuts(self) -> list[int]:
        """The cut-offs k of top-k accuracy that the retrieved depth allows."""
        return metric_names.accuracy_cuts(self.settings.at, self.settings.depth)

    @cached_property
    def answered(self) -> np.ndarray:
        """Which questions have answers [q] bool; accuracy is measured on these questions."""
        return np.array([bool(question.answers) for question in self.questions])

    @property
    def ranking(self) -> Ranking:
        """The passages retrieved from the whole index."""
        if None not in self._rankings:
            self._judge({None: self.top.passages})
        return self._rankings[None]

    @property
    def holds(self) -> np.ndarray:
        """Whether each retrieved passage holds an answer [q, depth] bool."""
        return self.ranking.holds

    def answers_in(self, passage_rows: np.ndarray, questions: np.ndarray | None = None) -> np.ndarray:
        """Whether passages [q, k], -1 for none, hold an answer of their question [q, k] bool (see `AnswerHits`)."""
        return self.answers.holds(passage_rows, questions)

    @cached_property
    def answers(self) -> AnswerHits:
        """Which passages hold an answer of which question."""
        return AnswerHits(self.questions, self.index.ids, self.corpus, self.matching)

    def search(self, ranges: Sequence[ViewRange] = ()) -> None:
        """Finds `top`, and the passages by each of `ranges` of views: of an exact index in one pass over the views."""
        if ranges and self.index.exact:
            self._search_views(ranges, whole=True)
        else:
            self.top = self.index.search(self.queries, self.settings.depth, self._report("searches"))
            self.rankings(ranges)

    @cached_property
    def search_seconds(self) -> float:
        """Seconds per question of a search of the whole index by the first `TIMED` questions, measured once."""
        timed = self.queries[:TIMED]
        begun = time.perf_counter()
        self.index.search(timed, self.settings.depth)
        return (time.perf_counter() - begun) / len(timed)

    def rankings(self, ranges: Sequence[ViewRange]) -> list[Ranking]:
        """Returns the passages retrieved by each of `ranges` of views alone, exactly.

        Those that were not asked for before are searched for in one pass over the views.
        """
        if missing := [each for each in dict.fromkeys(ranges) if each not in self._rankings]:
            self._search_views(missing)
        return [self._rankings[each] for each in ranges]

    def _search_views(self, ranges: Sequence[ViewRange], whole: bool = False) -> None:
        """Makes the rankings by `ranges`, and `top`, if the search is of the whole index too."""
        asked = [ALL_VIEWS, *ranges] if whole else list(ranges)
        report_done = self._report("searches" if whole else "searches by some views")
        tops = self.index.search_views(asked, self.queries, self.settings.depth, report_done)
        if whole:
            self.top = tops.pop(0)
        found = {each: top.passages for each, top in zip(ranges, tops, strict=True)}
        del tops  # their scores take as much memory again
        self._judge({None: self.top.passages, **found})

    def _report(self, doing: str) -> Callable[[int], None]:
        return lambda done: self.events.progress(done, len(self.queries), doing)

    def _judge(self, passages: Mapping[ViewRange | None, np.ndarray]) -> None:
        """Makes rankings of retrieved passages [q, depth] each, in one reading of the texts for all of them."""
        together = np.concatenate(list(passages.values()), axis=1)
        columns = (together, self.answers_in(together), self.positives.hits(together))
        parts = (np.split(column, len(passages), axis=1) for column in columns)
        judged = (Ranking(*each) for each in zip(*parts, strict=True))
        self._rankings.update(zip(passages, judged, strict=True))

    @cached_property
    def positives(self) -> Positives:
        """The questions' positives that the index has."""
        return Positives(self.index.ids, self.questions)

    @cached_property
    def gold(self) -> np.ndarray:
        """Row of each question's first positive passage in the index [q] int64, -1 where the index has none."""
        return self.positives.first

    def random_rows(self, total: int, count: int) -> np.ndarray:
        """Returns `count` random rows of 0…total-1 by `SEED`, in rising order; all rows where `total` is not larger."""
        if total <= count:
            return np.arange(total)
        return np.sort(np.random.default_rng(SEED).choice(total, count, replace=False))

    @cached_property
    def corpus(self) -> PassageLookup:
        """The passages that the index was built from."""
        return PassageLookup(self.passages)

    @cached_property
    def indexed_passages(self) -> IndexedPassages:
        """The index's passages by their rows."""
        return IndexedPassages(self.index, self.layout, TextsById(self.index.ids, self.corpus))

    def read_passages(self, passage_rows: np.ndarray) -> Iterator[IndexedPassage]:
        """The passages of `passage_rows`, any shape, each once and in the order of the corpus; rows of -1 are dropped."""
        return self.indexed_passages.read(passage_rows)

    @cached_property
    def view_summary(self) -> ViewSummary:
        """The summary of the views that the index holds."""
        in_order, padding_made, padding_indexed = True, False, False
        for indexed in self.read_passages(self.random_rows(len(self.index), SUMMARY_SAMPLE)):
            in_order &= [view.number for view in indexed.views] == list(range(indexed.view_count))
            padding_indexed |= any(view.padding for view in indexed.views)
            padding_made |= any(part.padding for part in indexed.parts)
        return ViewSummary(int(self.index.view_counts.max()), in_order, padding_made, padding_indexed)

    @cached_property
    def shares_with_view(self) -> list[float]:
        """Share of the index's passages that have the i-th view, for each view: 1 for all where padding views are indexed."""
        counts = self.index.view_counts
        return [float((counts > view).mean()) for view in range(self.view_summary.most)]

    def check_views(self) -> ViewSummary:
        """Returns `view_summary`, for analyses that compare views by their position.

        Raises NotApplicable where the index holds one view per passage, or where the i-th row of a passage is not its
        i-th view.
        """
        summary = self.view_summary
        if summary.most < 2:
            raise NotApplicable("the index holds one view per passage")
        if not summary.in_order:
            raise NotApplicable(
                "the index leaves out padding views that come before other views of a passage: index padding views too"
            )
        return summary
