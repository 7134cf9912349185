"""Which views win, and how similar the views of a passage are, for the views that the index holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings
from multiview.evaluation.analyses.matrices import PairMeans, add_cosines, off_diagonal, table_of
from multiview.evaluation.analyses.tables import CaptionedTable

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex

PASSAGES_AT_ONCE = 1024
"""Number of passages whose cosines are added at once."""

USAGE = "The view-usage histogram: which view wins in the first passage retrieved, and in the gold passage."


def usage(given: AnalysisInput) -> Findings:
    """Returns the table that `USAGE` describes, and its metrics.

    Table `usage`: view (from 1); share_of_passages that have it; top_1 and gold, the numbers of questions;
    share_of_top_1 and share_of_gold.
    """
    summary = given.check_views()
    first = given.top.winning_views[:, 0]
    counts = {
        "top_1": histogram(first[first >= 0], summary.most),
        "gold": histogram(_gold_winners(given), summary.most),
    }
    columns: dict[str, np.ndarray] = {
        "view": np.arange(1, summary.most + 1),
        metric_names.SHARE_OF_PASSAGES: np.array(given.shares_with_view),
        **counts,
    }
    metrics: dict[str, float] = {}
    for name, count in zip(
        (metric_names.SHARE_OF_TOP_1, metric_names.SHARE_OF_GOLD), counts.values(), strict=True
    ):
        if count.sum():
            columns[name] = count / count.sum()
            metrics |= {
                metric_names.of_view(view, name): float(share) for view, share in enumerate(columns[name])
            }
    return Findings(metrics, {"usage": CaptionedTable(USAGE, pa.table(columns))})


def histogram(winners: np.ndarray, view_count: int) -> np.ndarray:
    """Returns how often each of `view_count` views wins [views] int64; `winners` count views from 0."""
    return np.bincount(winners, minlength=view_count)


def _gold_winners(given: AnalysisInput) -> np.ndarray:
    """The view, from 0, that scores best in the gold passage of each question that has one with views in the index."""
    rows = np.flatnonzero((given.gold >= 0) & (given.index.view_counts[given.gold] > 0))
    rows = rows[np.argsort(given.gold[rows])]  # so that views are read in their order
    winners = [given.index.view_scores(given.queries[row], int(given.gold[row])).argmax() for row in rows]
    return np.array(winners, np.int64)


COSINE = "Mean cosine between the views i and j of a passage, over the passages that have both."


def cosine(given: AnalysisInput) -> Findings:
    """Returns the table that `COSINE` describes, and its metrics.

    Table `cosine`: view, view_1 … view_n. Metrics `view_cosine` (the mean over the pairs i ≠ j), `_min` and `_max`.
    """
    summary = given.check_views()
    means = mean_cosines(given.index, summary.most)
    return Findings(
        off_diagonal(metric_names.VIEW_COSINE, means), {"cosine": CaptionedTable(COSINE, table_of(means))}
    )


def mean_cosines(index: ViewIndex, view_count: int) -> np.ndarray:
    """Mean cosine [views, views] float64 of views i and j over the passages that have both; NaN where no passage has."""
    means = PairMeans(view_count)
    for start in range(0, len(index), PASSAGES_AT_ONCE):
        counts = index.view_counts[start : start + PASSAGES_AT_ONCE]
        first = int(index.offsets[start])
        add_cosines(means, index.views[first : first + int(counts.sum())], counts)
    return means.means()
