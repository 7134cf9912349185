"""The effect of padding views (the views of empty snippets) on the retrieved passages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.index.ranking import Ties, best_first
from multiview.model.layouts import TokenSequence

DEEPER = 3
"""The ranking is repeated on `DEEPER` times `depth` passages: deep enough for the passages that padding views move."""


QUESTIONS = 200
"""Random questions whose passages are encoded again."""

CAPTION = "Rankings of the passages retrieved by all of their views, and by all but padding views."


def padding(given: AnalysisInput) -> Findings:
    """Returns the table that `CAPTION` describes, and its metrics.

    Encoding the whole corpus again for the padding views that an index leaves out would cost too much. Instead,
    `QUESTIONS` random questions are searched three times as deep as elsewhere, the passages found are ranked
    twice, and only their padding views are encoded. A passage that padding views would lift from a lower rank into the
    top `depth` is missed. Table `padding`: k, overlap, with_padding and without_padding (accuracy). Metric
    `padding_wins_top_1`: share of questions for which a padding view wins in the first passage of the ranking with
    padding views.
    """
    if not given.view_summary.padding_made:
        raise NotApplicable("no passage has padding views")
    chosen = given.random_rows(len(given.questions), QUESTIONS)
    pool = given.index.search(given.queries[chosen], DEEPER * given.settings.depth).passages
    holds = given.answers.holds(pool, chosen)
    by_all, by_real = best_scores(given, pool, given.queries[chosen])
    with_order, without_order = (ranking(pool, scores, given.index.tie_order) for scores in (by_all, by_real))
    first = with_order[:, :1]
    wins = np.take_along_axis(by_all, first, axis=1) > np.take_along_axis(by_real, first, axis=1)
    metrics = {"padding_wins_top_1": float(wins.mean())}
    rows: list[dict[str, float | None]] = []
    for k in given.cuts:
        shared = overlap(with_order[:, :k], without_order[:, :k])
        metrics[metric_names.padding_overlap_at(k)] = shared
        rows.append({"k": k, "overlap": shared})
    answered = given.answered[chosen]
    orders = {"with_padding": with_order, "without_padding": without_order}
    for group, order in orders.items():
        figures = accuracy(first_rank(np.take_along_axis(holds, order, axis=1))[answered], given.cuts)
        metrics |= {metric_names.of_group(group, name): value for name, value in figures.items()}
        for row, k in zip(rows, given.cuts, strict=True):
            row[group] = figures.get(metric_names.accuracy_at(k))
    return Findings(metrics, {"padding": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def best_scores(
    given: AnalysisInput, passage_rows: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of `passage_rows` [q, k] for `queries` [q, dim]: the max over all views, and the max over real views.

    Both are [q, k] float32, with -inf where a row is -1 or a passage has no such view. The views are read from the
    index. Padding views that it leaves out are encoded, and rounded to float16 as they would be in the index.
    """
    by_all = np.full(passage_rows.shape, -np.inf, np.float32)
    by_real = by_all.copy()
    flat = passage_rows.ravel()
    order = np.argsort(flat, kind="stable")

    def raise_to(row: int, views: np.ndarray, padded: np.ndarray) -> None:
        # One product for both maxima: of another number of views, the same product may round otherwise.
        hits = order[slice(*np.searchsorted(flat, [row, row + 1], sorter=order))]
        scores = queries[hits // passage_rows.shape[1]] @ views.T
        for best, columns in ((by_all, slice(None)), (by_real, ~padded)):
            raised = scores[:, columns].max(axis=1, initial=-np.inf)
            best.ravel()[hits] = np.maximum(best.ravel()[hits], raised)

    def left_out() -> Iterator[tuple[TokenSequence, int]]:
        for indexed in given.indexed_passages.read(passage_rows):
            padded = np.array([view.padding for view in indexed.views], bool)
            views = given.index.views_of(indexed.row)
            raise_to(indexed.row, views, padded)
            if len(views) < len(indexed.parts):
                for sequence in indexed.sequences:
                    if any(view.padding for view in sequence.views):
                        yield sequence, indexed.row

    for sequence, row, vectors in given.encoder.passages(left_out()):
        fresh = vectors[[view.padding for view in sequence.views]]
        raise_to(row, fresh.astype(np.float16).astype(np.float32), np.ones(len(fresh), bool))
    return by_all, by_real


def ranking(passage_rows: np.ndarray, scores: np.ndarray, tie_order: Ties) -> np.ndarray:
    """Returns the order [q, k] of passages [q, k] by falling score, ties by `tie_order`; padding (row -1, score -inf) comes last."""
    ties = np.where(passage_rows >= 0, tie_order[passage_rows], np.iinfo(np.int64).max)
    return best_first(scores, ties)


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Mean share of the entries of `first` [q, k] that are also in the same row of `second` [q, k]."""
    return float((first[:, :, None] == second[:, None, :]).any(axis=2).mean())
