"""The facts in the report's summary: the best systems, significant differences, and collapsed views."""

from __future__ import annotations

from multiview import metric_names
from multiview.config import JsonObject
from multiview.evaluation.tables import LEVEL, asked_legend, metric_columns
from multiview.report.contents import Contents, System

HEADLINES = ("accuracy_at_1", "accuracy_at_5", "accuracy_at_20", "mrr_at_10", "ndcg_at_10", "recall_at_5")
"""Metrics that the summary may name, at most `SHOWN_HEADLINES` of them, in this order."""
SHOWN_HEADLINES = 4

ALIKE = 0.99
"""Mean cosine between views above which they have collapsed into one."""
ALL_WINS = 0.9
"""Share of questions won by one view above which a system's views have collapsed."""


def summary(contents: Contents) -> JsonObject:
    """Returns what the template `summary.html` fills in."""
    columns = metric_columns({system.name: system.metrics for system in contents.systems})
    headlines = ([name for name in HEADLINES if name in columns] or columns)[:SHOWN_HEADLINES]
    trained: dict[str, list[str]] = {}
    for system in contents.systems:
        if system.generated_by and system.trainings:
            trained.setdefault(system.generated_by, []).append(system.name)
    return {
        "contents": contents,
        "generated_legend": asked_legend(contents.generated, contents.questions),
        "trained": trained,
        "headlines": headlines,
        "best": [best for metric in headlines if (best := _best(contents, metric))],
        "tested": [
            tested for system in contents.significance["systems"] if (tested := _tested(contents, system))
        ],
        "collapsed": {system.name: how for system in contents.systems if (how := _collapse(system))},
    }


def _best(contents: Contents, metric: str) -> JsonObject | None:
    """The best systems by a metric, and their lead over the baseline, or over the next best where the baseline is the
    best; None where fewer than two systems have the metric."""
    values = {s.name: s.metrics[metric] for s in contents.systems if metric in s.metrics}
    if len(values) < 2:
        return None
    value = max(values.values())
    first = [name for name in values if values[name] == value]
    others = [name for name in sorted(values, key=lambda name: -values[name]) if name not in first]
    against_baseline = contents.baseline not in first
    other = next((name for name in others if not against_baseline or name == contents.baseline), None)
    p_values = {
        contents.figure(name, metric).get("corrected_p")
        for name in (first if against_baseline else others[:1])
    }
    return {
        "metric": metric,
        "value": value,
        "systems": first,
        "tied": not others,
        "other": other,
        "ahead": value - values[other] if other else 0.0,
        "p": p_values.pop() if other and len(p_values) == 1 else None,
    }


def _tested(contents: Contents, system: str) -> JsonObject | None:
    """On how many metrics a system was tested, and on how many it is significantly better or worse than the baseline."""
    figures = contents.significance["systems"][system].values()
    tested = [figure for figure in figures if figure["corrected_p"] is not None]
    differences = [figure["difference"] for figure in tested if figure["corrected_p"] < LEVEL]
    better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return {"name": system, "better": better, "worse": worse, "metrics": len(tested)} if tested else None


def _collapse(system: System) -> str:
    """How a system's views have collapsed; empty for views that have not."""
    cosine, shares = system.view_cosine, system.usage.get(metric_names.SHARE_OF_TOP_1, [])
    if cosine is not None and cosine > ALIKE:
        return f"the mean cosine between two of them is {cosine:.3f}, so they are one view in all but name"
    if len(shares) > 1 and max(shares) > ALL_WINS:
        return f"view {shares.index(max(shares)) + 1} wins {100 * max(shares):.0f} % of the questions"
    return ""
