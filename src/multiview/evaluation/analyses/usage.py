"""Which views win, and how similar the views of a passage are, for the views that the index holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from multiview import metric_names
from multiview.evaluation.analyses.analysis_input import AnalysisInput, CaptionedTable, Findings
from multiview.evaluation.analyses.matrices import mean_cosines, off_diagonal, table_of


def usage(given: AnalysisInput) -> Findings:
    """Table `usage`: view (from 1); share_of_passages that have it; top_1 and gold, the numbers of questions;
    share_of_top_1 and share_of_gold. The shares are metrics.
    """
    views = given.ordered_views().most
    first = given.top.winning_views[:, 0]
    top_1, gold = (
        np.bincount(winners, minlength=views) for winners in (first[first >= 0], _gold_winners(given))
    )
    columns: dict[str, np.ndarray] = {
        "view": np.arange(1, views + 1),
        metric_names.SHARE_OF_PASSAGES: np.array(given.shares_with_view),
        "top_1": top_1,
        "gold": gold,
    }
    metrics: dict[str, float] = {}
    for name, count in ((metric_names.SHARE_OF_TOP_1, top_1), (metric_names.SHARE_OF_GOLD, gold)):
        if count.sum():
            columns[name] = count / count.sum()
            metrics |= {
                metric_names.of_view(view, name): float(share) for view, share in enumerate(columns[name])
            }
    caption = (
        "The view-usage histogram: which view wins in the first passage retrieved, and in the gold passage."
    )
    return Findings(metrics, {"usage": CaptionedTable(caption, pa.table(columns))})


def _gold_winners(given: AnalysisInput) -> np.ndarray:
    """The view, from 0, that scores best in the gold passage of each question that has one with views in the index."""
    rows = np.flatnonzero((given.gold >= 0) & (given.index.view_counts[given.gold] > 0))
    rows = rows[np.argsort(given.gold[rows])]  # so that views are read in their order
    winners = [given.index.view_scores(given.queries[row], int(given.gold[row])).argmax() for row in rows]
    return np.array(winners, np.int64)


def cosine(given: AnalysisInput) -> Findings:
    """Table `cosine`: view, view_1 … view_n. Metrics `view_cosine` (the mean over the pairs i ≠ j), `_min` and `_max`."""
    views = given.ordered_views().most
    means = mean_cosines(given.index.views, given.index.stored_counts)[:views, :views]
    caption = "Mean cosine between the views i and j of a passage, over the passages that have both."
    return Findings(
        off_diagonal(metric_names.VIEW_COSINE, means), {"cosine": CaptionedTable(caption, table_of(means))}
    )
