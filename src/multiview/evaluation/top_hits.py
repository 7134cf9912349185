"""The first passages of each question, with their views' scores and the spans of text that the views represent."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.questions import Question
from multiview.data.tokens import Span
from multiview.index.indexed_passages import IndexedPassages
from multiview.index.ranking import TopPassages
from multiview.index.view_index import ViewIndex

TOP_HITS_FILE = "best.parquet"
HITS_PER_QUESTION = 5

QUESTIONS_AT_ONCE = 1024
"""Number of questions whose passages are read in one pass and held in memory."""

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


class HitViews(NamedTuple):
    """The views of a retrieved passage."""

    scores: Sequence[float]
    spans: Sequence[Span | None]
    """Part of the text that each view represents, [start, stop) in code points; None for a view of no part."""


FindViews = Callable[[Sequence[int], np.ndarray], list[list[HitViews]]]
"""Finds the views of retrieved passages: takes rows of questions [q] and rows of their passages [q, k], -1 for padding,
which comes last; returns the views of each passage per question, without padding."""


def index_views(index: ViewIndex, queries: np.ndarray, passages: IndexedPassages) -> FindViews:
    """Returns a function that finds the views of an index's passages; `queries` [q, dim] are the questions' vectors."""

    def find(questions: Sequence[int], passage_rows: np.ndarray) -> list[list[HitViews]]:
        spans = {
            indexed.row: [view.span for view in indexed.views] for indexed in passages.read(passage_rows)
        }
        found = [[HitViews((), ())] * int((rows >= 0).sum()) for rows in passage_rows]
        hits = np.argwhere(passage_rows >= 0)
        in_order = np.argsort(passage_rows[tuple(hits.T)], kind="stable")  # that of the stored views
        for position, column in hits[in_order].tolist():
            row = int(passage_rows[position, column])
            scores = index.view_scores(queries[questions[position]], row)
            found[position][column] = HitViews(scores.tolist(), spans[row])
        return found

    return find


def write_top_hits(
    file: Path,
    top: TopPassages,
    ids: pa.Array,
    holds: np.ndarray,
    gold: np.ndarray,
    questions: Sequence[Question],
    find_views: FindViews | None,
) -> list[Span | None]:
    """Writes the first `HITS_PER_QUESTION` passages of each question; returns the span of the winning view of each
    first passage [q].

    `holds` and `gold` [q, depth] say which passages hold an answer and which are gold. Of the columns `SCHEMA`, rank
    counts from 1, the winning view from 0, and view_starts and view_stops are null where a view represents no text, as
    all columns of views are without `find_views`.
    """
    first_spans: list[Span | None] = []
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            some = range(start, min(start + QUESTIONS_AT_ONCE, len(questions)))
            first = top.passages[some.start : some.stop, :HITS_PER_QUESTION]
            views = find_views(some, first) if find_views else [[]] * len(some)
            records: list[dict[str, object]] = []
            for question, hit_views in zip(some, views, strict=True):
                hits = top.hits(question)[:HITS_PER_QUESTION]
                for column, (passage, score, winner) in enumerate(hits):
                    record = {
                        "qid": questions[question].qid,
                        "rank": column + 1,
                        "passage_id": ids[passage].as_py(),
                        "score": score,
                        "answer": bool(holds[question, column]),
                        "gold": bool(gold[question, column]),
                    }
                    if hit_views:
                        scores, spans = hit_views[column]
                        record |= {"view": winner if spans else None, "view_scores": scores}
                        record["view_starts"] = [span and span[0] for span in spans]
                        record["view_stops"] = [span and span[1] for span in spans]
                    records.append(record)
                # BM25 also finds passages without views.
                first_spans.append(
                    hit_views[0].spans[hits[0][2]] if hit_views and hit_views[0].spans else None
                )
            writer.write_table(pa.Table.from_pylist(records, SCHEMA))
    return first_spans
