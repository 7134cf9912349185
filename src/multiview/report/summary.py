"""The facts in the report's summary: the best systems, significant differences, costs, and collapsed views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multiview import metric_names
from multiview.evaluation.tables import LEVEL, asked_legend, metric_columns
from multiview.report.contents import Contents, System

HEADLINES = ("accuracy_at_1", "accuracy_at_5", "accuracy_at_20", "mrr_at_10", "ndcg_at_10", "recall_at_5")
"""Metrics that the summary may name, at most `MOST` of them, in this order."""
MOST = 4

ALIKE = 0.99
"""Mean cosine between views above which they have collapsed into one."""
ALL_WINS = 0.9
"""Share of questions won by one view above which a system's views have collapsed."""


@dataclass(frozen=True)
class Best:
    """The best systems by one metric, and the system that they are compared with."""

    metric: str
    value: float
    names: list[str]
    """The systems with this value."""
    tied: bool
    """Whether all systems reach it."""
    other: str | None
    """The baseline, or the next best system where the baseline is the best."""
    ahead: float
    """Difference from `other`."""
    p: float | None
    """Corrected p-value of that difference; None where it was not tested, or where it differs between `names`."""


@dataclass(frozen=True)
class Tested:
    """The significant differences of one system from the baseline."""

    name: str
    better: int
    worse: int
    metrics: int
    """Number of metrics that were tested."""

    @property
    def differs(self) -> bool:
        return self.better + self.worse > 0


def summary(contents: Contents) -> dict[str, object]:
    """Returns what the template `summary.html` fills in."""
    return {
        "contents": contents,
        "generated_legend": asked_legend(contents.generated, contents.questions),
        "trained": trained_on_generated(contents.systems),
        "headlines": headlines(contents),
        "best": best(contents),
        "tested": tested(contents),
        "seconds": extremes(contents.cost, "compute_seconds"),
        "bytes": extremes(contents.cost, "index_bytes"),
        "collapsed": {system.name: how for system in contents.systems if (how := collapsed(system))},
    }


def headlines(contents: Contents) -> list[str]:
    columns = metric_columns({system.name: system.metrics for system in contents.systems})
    return ([name for name in HEADLINES if name in columns] or columns)[:MOST]


def best(contents: Contents) -> list[Best]:
    """Returns the best systems by each headline that several systems have."""
    ranked = [
        (
            metric,
            sorted((s for s in contents.systems if metric in s.metrics), key=lambda s: -s.metrics[metric]),
        )
        for metric in headlines(contents)
    ]
    return [_best(contents, metric, systems) for metric, systems in ranked if len(systems) > 1]


def _best(contents: Contents, metric: str, ranked: Sequence[System]) -> Best:
    values = {system.name: system.metrics[metric] for system in ranked}
    value = ranked[0].metrics[metric]
    first = [name for name in values if values[name] == value]
    others = [name for name in values if values[name] != value]
    against_baseline = contents.baseline not in first
    other = next((name for name in others if not against_baseline or name == contents.baseline), None)
    tested = first if against_baseline else others[:1]
    p_values = {contents.figure(name, metric).get("corrected_p") for name in tested}
    p = p_values.pop() if other is not None and len(p_values) == 1 else None
    return Best(metric, value, first, not others, other, value - values[other] if other else 0.0, p)


def tested(contents: Contents) -> list[Tested]:
    """Returns the significant differences of every system that was tested."""
    found = []
    for name, figures in contents.significance["systems"].items():
        compared = [figure for figure in figures.values() if figure["corrected_p"] is not None]
        signs = [figure["difference"] for figure in compared if figure["corrected_p"] < LEVEL]
        if compared:
            better, worse = (sum(sign * of > 0 for of in signs) for sign in (1, -1))
            found.append(Tested(name, better, worse, len(compared)))
    return found


def extremes(cost: Mapping[str, Mapping[str, float]], name: str) -> list[tuple[str, float]]:
    """Returns the systems with the highest and the lowest of these costs, or the only one; empty where all are equal."""
    values = {system: costs[name] for system, costs in cost.items() if name in costs}
    ranked = sorted(values.items(), key=lambda found: -found[1])
    if len(ranked) < 2:
        return ranked
    return [ranked[0], ranked[-1]] if ranked[0][1] != ranked[-1][1] else []


def collapsed(system: System) -> str:
    """Returns how a system's views have collapsed; empty where they have not."""
    cosine = system.analyses.get(metric_names.VIEW_COSINE)
    shares = system.usage.get(metric_names.SHARE_OF_TOP_1, [])
    if cosine is not None and cosine > ALIKE:
        return (
            f"the mean cosine between two of them is {cosine:.3f}, so that they are one view in all but name"
        )
    if len(shares) > 1 and max(shares) > ALL_WINS:
        return f"view {shares.index(max(shares)) + 1} wins {100 * max(shares):.0f} % of the questions"
    return ""


def trained_on_generated(systems: Sequence[System]) -> dict[str, list[str]]:
    """Returns the systems that were trained on generated questions, by `questions.origin`."""
    found: dict[str, list[str]] = {}
    for system in systems:
        if system.generated_by and system.trainings:
            found.setdefault(system.generated_by, []).append(system.name)
    return found


# --- figures in words --------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Returns a duration as text, such as `48 s`, `7 min 5 s`, `3 h 12 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(number: float) -> str:
    """Returns a number of bytes as text, such as `2.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
