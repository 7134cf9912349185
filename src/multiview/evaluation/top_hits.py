"""The best passages of each question, with the score of each of their views and what the views stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import PassageLookup
from multiview.data.questions import Question
from multiview.index.exact import TopPassages
from multiview.model.layouts import Layout, numbered_views

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

BEST_FILE = "best.parquet"
SHOWN = 5
"""Passages a question."""

QUESTIONS_AT_ONCE = 256
"""Questions whose passages are held at once."""

SCHEMA = pa.schema(
    {
        "qid": pa.string(),
        "rank": pa.int32(),
        "passage_id": pa.string(),
        "score": pa.float32(),
        "answer": pa.bool_(),
        "gold": pa.bool_(),
        "view": pa.int32(),
        "view_scores": pa.list_(pa.float32()),
        "view_starts": pa.list_(pa.int32()),
        "view_stops": pa.list_(pa.int32()),
    }
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Views:
    """What is known of a passage's views: scores [views], and the parts of the text that they stand for."""

    scores: Sequence[float]
    spans: Sequence[Span | None]
    """Of each view [start, stop) in code points; none where it stands for no part of the text."""


FindViews = Callable[[Sequence[int], np.ndarray], list[list[Views]]]
"""Of each question in `rows` the views of its passages; `numbers` [rows, k], -1 for none, which come last."""


class IndexViews:
    """The views of passages of an index, for questions that found them: a `FindViews`."""

    def __init__(self, layout: Layout, index: ViewIndex, queries: np.ndarray, passages: Path):
        """`queries` [q, dim] are the questions' vectors, `passages` the folder of the texts."""
        self.layout, self.index, self.queries = layout, index, queries
        self._lookup = PassageLookup(passages)

    def __call__(self, rows: Sequence[int], numbers: np.ndarray) -> list[list[Views]]:
        spans = self._spans(np.unique(numbers[numbers >= 0]).tolist())
        return [
            [
                Views(self.index.view_scores(self.queries[row], number).tolist(), spans[number])
                for number in found[found >= 0].tolist()
            ]
            for row, found in zip(rows, numbers, strict=True)
        ]

    def _spans(self, numbers: list[int]) -> dict[int, list[Span | None]]:
        asked = self.index.queries(numbers)
        texts = self._lookup.passages(self.index.passage_id(number) for number in numbers)
        spans = {}
        for number in numbers:
            sequences = self.layout.passage(texts[self.index.passage_id(number)], asked[number])
            views = numbered_views(sequences, int(self.index.views[number]))
            spans[number] = [view.span for _, view in views]
        return spans


def write_best(
    file: Path,
    top: TopPassages,
    ids: pa.Array,
    holds: np.ndarray,
    gold: np.ndarray,
    questions: Sequence[Question],
    views_of: FindViews | None,
) -> list[Span | None]:
    """Write the first five passages of each question; the part of the first one's text that matched [q], or none.

    `holds` and `gold` [q, depth] say which passages hold an answer and which are gold. The columns of views are
    null without `views_of`, for retrievers that have none. Columns: qid, rank from 1, passage_id, score, answer, gold,
    view (from 0, the one that won), view_scores, view_starts and view_stops (null where a view stands for no text).
    """
    matched: list[Span | None] = []
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            rows = range(start, min(start + QUESTIONS_AT_ONCE, len(questions)))
            numbers = top.passages[rows.start : rows.stop, :SHOWN]
            views = views_of(rows, numbers) if views_of else None
            found: list[dict[str, Any]] = []
            for place, row in enumerate(rows):
                best: Span | None = None
                for rank, number in enumerate(numbers[place][numbers[place] >= 0].tolist()):
                    shown = {
                        "qid": questions[row].qid,
                        "rank": rank + 1,
                        "passage_id": ids[number].as_py(),
                        "score": float(top.scores[row, rank]),
                        "answer": bool(holds[row, rank]),
                        "gold": bool(gold[row, rank]),
                    }
                    if views:
                        won, seen = int(top.views[row, rank]), views[place][rank]
                        shown |= _columns(won, seen)
                        best = best if rank else seen.spans[won]
                    found.append(shown)
                matched.append(best)
            writer.write_table(pa.Table.from_pylist(found, SCHEMA))
    return matched


def _columns(won: int, views: Views) -> dict[str, Any]:
    return {
        "view": won,
        "view_scores": views.scores,
        "view_starts": [span and span[0] for span in views.spans],
        "view_stops": [span and span[1] for span in views.spans],
    }
