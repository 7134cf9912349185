"""The input of an analysis (a model with its index and retrieved passages), and the findings of an analysis."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.config import Encode, Evaluation
from multiview.data.passages import PassageLookup, PassageRows, shard_files
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.encoding.encode import Encoder
from multiview.evaluation.costs import TIMED
from multiview.evaluation.metrics import first_rank, means, top_k_accuracy
from multiview.index.indexed_passages import IndexedPassages, IndexedView
from multiview.index.ranking import ALL_VIEWS, TopPassages, ViewRange
from multiview.index.stored_views import sampled_rows
from multiview.index.view_index import ViewIndex
from multiview.model.layouts.base import Layout
from multiview.negatives.filters import AnswerHits, Positives
from multiview.steps.events import Events

SUMMARY_SAMPLE = 1000
"""Number of passages that are read to see which views the index holds."""


class NotApplicable(Exception):
    """Raised by an analysis that does not suit the model or the data; the message says why."""


SEED = 0
"""Seed of the random rows that analyses look at."""

LARGEST_RANGE = 16
"""Largest k for which the first k views are searched; each search reads k views per passage."""


def single_views(most: int) -> list[ViewRange]:
    """Each of up to `most` views alone."""
    return [(view, view + 1) for view in range(most)]


def leading_views(most: int) -> list[ViewRange]:
    """The first k views, for every k up to `LARGEST_RANGE` and below `most`."""
    return [(0, k) for k in range(1, min(most, LARGEST_RANGE + 1))]


RANGES = {"each_view": single_views, "first_views": leading_views}
"""Analysis to the ranges of views that it searches, as a function of the largest number of a passage's views."""


@dataclass(frozen=True)
class Table:
    """A table with its caption, one line that says what the table shows."""

    caption: str
    rows: pa.Table


@dataclass(frozen=True)
class Findings:
    """The results of an analysis: metrics by name, and tables by the name of their file."""

    metrics: dict[str, float] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Ranking:
    """Which of the passages retrieved for each question, by all views or by some of them, are right; best first."""

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
    ask: Callable[[Sequence[str], np.ndarray], object]
    """Searches for questions, by their texts and vectors, as the evaluation does."""
    settings: Evaluation
    encode: Encode
    matching: Mode
    events: Events
    top: TopPassages = field(init=False)
    """[q, depth]: the passages retrieved from the whole index; missing before `search`."""
    _by_range: dict[ViewRange, np.ndarray] = field(default_factory=dict, init=False)
    """[q, depth] int64 each: the passages retrieved by a range of views."""

    @cached_property
    def encoder(self) -> Encoder:
        """An encoder with the whole model in float32, because half precision cannot distinguish views."""
        return Encoder(self.model, self.encode.model_copy(update={"compute": "float32"}))

    @cached_property
    def cuts(self) -> list[int]:
        """The cut-offs k of top-k accuracy that the retrieved depth allows."""
        return metric_names.accuracy_cuts(self.settings.at, self.settings.depth)

    def accuracy(self, holds: np.ndarray) -> dict[str, float]:
        """Returns mean top-k accuracy over the questions with answers; `holds` [q, depth] bool: which hold one."""
        answered = np.array([bool(question.answers) for question in self.questions])
        return means(top_k_accuracy(first_rank(holds), answered, self.cuts))

    def search(self) -> None:
        """Finds `top`, and the passages by each range of views that analyses compare, reading an exact index once."""
        ranges, depth = self._ranges(), self.settings.depth
        report = partial(self.events.progress, total=len(self.queries), unit="searches")
        if self.index.exact:
            self.top, *tops = self.index.search_views([ALL_VIEWS, *ranges], self.queries, depth, report)
        else:
            self.top = self.index.search(self.queries, depth, report)
            tops = self.index.search_views(ranges, self.queries, depth, report) if ranges else []
        self._by_range = {each: top.passages for each, top in zip(ranges, tops, strict=True)}
        _ = self.rankings  # now, so that the texts of all of them are read once

    def _ranges(self) -> list[ViewRange]:
        """The ranges of views that the analyses search for; none where views cannot be compared by their position."""
        asked = [ranges for name, ranges in RANGES.items() if name in self.settings.analyses]
        if not (asked and len(self.index)):  # without passages: the first refresh's champion
            return []
        try:
            most = self.ordered_views()
        except NotApplicable:
            return []
        return list(dict.fromkeys(each for ranges in asked for each in ranges(most)))

    @cached_property
    def rankings(self) -> dict[ViewRange, Ranking]:
        """The passages retrieved by all views and by each range, judged in one pass over the texts."""
        passages = {ALL_VIEWS: self.top.passages, **self._by_range}
        together = np.concatenate(list(passages.values()), axis=1)
        answers = AnswerHits(self.questions, self.index.ids, self.corpus, self.matching)
        columns = (answers.holds(together), self.positives.hits(together))
        parts = (np.split(column, len(passages), axis=1) for column in columns)
        return {
            each: Ranking(*judged) for each, judged in zip(passages, zip(*parts, strict=True), strict=True)
        }

    @property
    def ranking(self) -> Ranking:
        """The passages retrieved from the whole index."""
        return self.rankings[ALL_VIEWS]

    @cached_property
    def search_seconds(self) -> float:
        """Seconds per question of a search of the whole index for the first `TIMED` questions, measured once. If
        other rankings take part, the evaluation sets it to the time of its own search."""
        timed = self.queries[:TIMED]
        begun = time.perf_counter()
        self.index.search(timed, self.settings.depth)
        return (time.perf_counter() - begun) / len(timed)

    @cached_property
    def positives(self) -> Positives:
        """The questions' positives that the index has."""
        return Positives(self.index.ids, self.questions)

    @cached_property
    def gold(self) -> np.ndarray:
        """Row of each question's first positive passage in the index [q] int64, -1 where the index has none."""
        return self.positives.first

    def random_rows(self, count: int) -> np.ndarray:
        """Returns the rows of `count` random passages of the index by `SEED`, as `sampled_rows` does."""
        return sampled_rows(len(self.index), count, SEED)

    @cached_property
    def corpus(self) -> PassageLookup:
        """The passages that the index was built from."""
        return PassageLookup(self.passages)

    @cached_property
    def indexed_passages(self) -> IndexedPassages:
        """The index's passages by their rows."""
        return IndexedPassages(self.index, self.layout, PassageRows(shard_files(self.passages)))

    @cached_property
    def most_views(self) -> int:
        """Largest number of views of a passage in the index."""
        return int(self.index.view_counts.max())

    @cached_property
    def sampled_views(self) -> list[list[IndexedView]]:
        """The views that the index holds of up to `SUMMARY_SAMPLE` random passages."""
        rows = self.random_rows(SUMMARY_SAMPLE)
        return [indexed.views for indexed in self.indexed_passages.read(rows)]

    @cached_property
    def shares_with_view(self) -> list[float]:
        """Share of the index's passages with an i-th view, for each view: always 1 if padding views are indexed."""
        counts = self.index.view_counts
        return [float((counts > view).mean()) for view in range(self.most_views)]

    def check_several_views(self) -> None:
        """Raises NotApplicable where the index holds one view per passage."""
        if self.most_views < 2:
            raise NotApplicable("the index holds one view per passage")

    def ordered_views(self) -> int:
        """Returns `most_views`, for analyses that compare views by their position. Raises NotApplicable as
        `check_several_views` does, and where the i-th row of a passage is not its i-th view."""
        self.check_several_views()
        if self.index.kept is not None:
            raise NotApplicable("index.merge_views leaves out views before other views of a passage")
        if any(view.number != row for views in self.sampled_views for row, view in enumerate(views)):
            raise NotApplicable(
                "the index leaves out padding views that come before other views of a passage: index padding views too"
            )
        return self.most_views
