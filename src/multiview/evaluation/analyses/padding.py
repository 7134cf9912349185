"""What padding views, those of empty snippets, change in what is retrieved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from multiview import names
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
    if not subject.indexed.padding_made:
        raise NotApplicable("no passage has padding views")
    chosen = subject.draw(len(subject.questions), subject.settings.padding_questions)
    numbers = subject.index.search(subject.queries[chosen], POOL * subject.settings.depth).passages
    holds = subject.answers_in(numbers, chosen)
    every, real = best_scores(subject, numbers, subject.queries[chosen])
    with_order, without_order = (ranking(numbers, scores, subject.rank) for scores in (every, real))
    first = with_order[:, :1]
    wins = np.take_along_axis(every, first, axis=1) > np.take_along_axis(real, first, axis=1)
    metrics = {names.PADDING_WINS: float(wins.mean())}
    answered = subject.answered[chosen]
    ranked = [np.take_along_axis(holds, order, axis=1) for order in (with_order, without_order)]
    accuracies = [accuracy(first_rank(holds)[answered], subject.at) for holds in ranked]
    rows = []
    for k in subject.at:
        same = overlap(with_order[:, :k], without_order[:, :k])
        row: dict[str, float | None] = {"k": k, "overlap": same}
        metrics[names.padding_overlap_at(k)] = same
        for which, found in zip((names.WITH_PADDING, names.WITHOUT_PADDING), accuracies, strict=True):
            row[which] = found.get(names.accuracy_at(k))
            if found:
                metrics[names.of_group(which, names.accuracy_at(k))] = found[names.accuracy_at(k)]
        rows.append(row)
    return Findings(metrics, {"padding": CaptionedTable(CAPTION, pa.Table.from_pylist(rows))})


def best_scores(subject: Subject, numbers: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The max over all views, and over all but padding views, of each passage `numbers` [q, k] for `queries` [q, dim].

    Both [q, k] float32; -inf where `numbers` is -1 or a passage has no such view. Views are the index's; padding
    views that it leaves out are encoded, and rounded to float16 as they would be there.
    """
    every = np.full(numbers.shape, -np.inf, np.float32)
    real = every.copy()
    flat = numbers.ravel()
    order = np.argsort(flat, kind="stable")

    def raise_to(best: np.ndarray, number: int, views: np.ndarray) -> None:
        places = order[slice(*np.searchsorted(flat, [number, number + 1], sorter=order))]
        scores = (queries[places // numbers.shape[1]] @ views.T).max(axis=1, initial=-np.inf)
        best.ravel()[places] = np.maximum(best.ravel()[places], scores)

    def left_out() -> Iterator[tuple[TokenSequence, int]]:
        for number, _, laid, views in subject.sequences_of(numbers):
            padded = np.array([view.padding for _, view in subject.rows_of(number, laid)])
            held = subject.index.views_of(number)
            raise_to(every, number, held)
            raise_to(real, number, held[~padded])
            if len(held) < len(views):
                yield from ((s, number) for s in laid if any(view.padding for view in s.views))

    for sequence, number, vectors in subject.encoder.passages(left_out()):
        fresh = vectors[[view.padding for view in sequence.views]]
        raise_to(every, number, fresh.astype(np.float16).astype(np.float32))
    return every, real


def ranking(numbers: np.ndarray, scores: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """The order [q, k] of passages `numbers` [q, k] by falling score, ties by `rank`; places without a passage come last."""
    ties = np.where(numbers >= 0, rank[numbers], len(rank))
    return np.lexsort((ties, -scores, numbers < 0))


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Mean share of the places [q, k] of `one` that are also among those of `other`."""
    return float((one[:, :, None] == other[:, None, :]).any(axis=2).mean())
