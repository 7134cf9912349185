"""What padding views, those of empty snippets, change in what is retrieved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.subject import Findings, NotApplicable, Subject
from multiview.evaluation.analyses.tables import CaptionedTable
from multiview.evaluation.metrics import accuracy, first_rank
from multiview.model.layouts import TokenSequence

POOL = 3
"""Times `depth` that are ranked anew: far enough below the top for what padding views move."""


CAPTION = "Rankings of the passages retrieved by all of their views, and by all but padding views."


def padding(subject: Subject) -> Findings:
    """Rankings of the passages retrieved by all of their views, and by all but padding views.

    To encode the whole corpus again for the padding views that an index leaves out would cost too much. So
    `padding_questions` random questions are searched three times as deep as elsewhere, what is found is ranked
    twice, and only its padding views are encoded: a passage that padding views would lift from below that into
    the top `depth` is not seen. Table `padding`: k, overlap, with_padding and without_padding (accuracy). Metric
    `padding_wins_top_1`: share of questions whose first passage, with padding views, is there by one.
    """
    if not subject.view_summary.padding_made:
        raise NotApplicable("no passage has padding views")
    chosen = subject.sample(len(subject.questions), subject.settings.padding_questions)
    found = subject.index.search(subject.queries[chosen], POOL * subject.settings.depth).passages
    holds = subject.answers_in(found, chosen)
    every, real = best_scores(subject, found, subject.queries[chosen])
    with_order, without_order = (ranking(found, scores, subject.index.tie_order) for scores in (every, real))
    first = with_order[:, :1]
    wins = np.take_along_axis(every, first, axis=1) > np.take_along_axis(real, first, axis=1)
    metrics = {metric_names.PADDING_WINS: float(wins.mean())}
    answered = subject.answered[chosen]
    ranked = [np.take_along_axis(holds, order, axis=1) for order in (with_order, without_order)]
    accuracies = [accuracy(first_rank(holds)[answered], subject.at) for holds in ranked]
    rows = []
    for k in subject.at:
        same = overlap(with_order[:, :k], without_order[:, :k])
        row: dict[str, float | None] = {"k": k, "overlap": same}
        metrics[metric_names.padding_overlap_at(k)] = same
        accuracy_at_k = metric_names.accuracy_at(k)
        for which, found in zip(
            (metric_names.WITH_PADDING, metric_names.WITHOUT_PADDING), accuracies, strict=True
        ):
            row[which] = found.get(accuracy_at_k)
            if found:
                metrics[metric_names.of_group(which, accuracy_at_k)] = found[accuracy_at_k]
        rows.append(row)
    return Findings(metrics, {"padding": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def best_scores(
    subject: Subject, passage_rows: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The max over all views, and over all but padding views, of `passage_rows` [q, k] for `queries` [q, dim].

    Both [q, k] float32; -inf where a row is -1 or a passage has no such view. Views are the index's; padding views
    that it leaves out are encoded, and rounded to float16 as they would be there.
    """
    every = np.full(passage_rows.shape, -np.inf, np.float32)
    real = every.copy()
    flat = passage_rows.ravel()
    order = np.argsort(flat, kind="stable")

    def raise_to(best: np.ndarray, row: int, views: np.ndarray) -> None:
        hits = order[slice(*np.searchsorted(flat, [row, row + 1], sorter=order))]
        scores = (queries[hits // passage_rows.shape[1]] @ views.T).max(axis=1, initial=-np.inf)
        best.ravel()[hits] = np.maximum(best.ravel()[hits], scores)

    def left_out() -> Iterator[tuple[TokenSequence, int]]:
        for indexed in subject.read_passages(passage_rows):
            padded = np.array([view.padding for view in indexed.views], bool)
            held = subject.index.views_of(indexed.row)
            raise_to(every, indexed.row, held)
            raise_to(real, indexed.row, held[~padded])
            if len(held) < len(indexed.all_views):
                for sequence in indexed.sequences:
                    if any(view.padding for view in sequence.views):
                        yield sequence, indexed.row

    for sequence, row, vectors in subject.encoder.passages(left_out()):
        fresh = vectors[[view.padding for view in sequence.views]]
        raise_to(every, row, fresh.astype(np.float16).astype(np.float32))
    return every, real


def ranking(passage_rows: np.ndarray, scores: np.ndarray, tie_order: np.ndarray) -> np.ndarray:
    """The order [q, k] of passages [q, k] by falling score, ties by `tie_order`; padding (row -1) comes last."""
    ties = np.where(passage_rows >= 0, tie_order[passage_rows], len(tie_order))
    return np.lexsort((ties, -scores, passage_rows < 0))


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Mean share of the entries [q, k] of `one` that are also among those of `other`."""
    return float((one[:, :, None] == other[:, None, :]).any(axis=2).mean())
