"""The report's summary of results, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from multiview import metric_names
from multiview.errors import counted
from multiview.evaluation.generated import asked_legend
from multiview.evaluation.tables import LEVEL, metric_columns
from multiview.report.contents import Contents, System

HEADLINES = ("accuracy_at_1", "accuracy_at_5", "accuracy_at_20", "mrr_at_10", "ndcg_at_10", "recall_at_5")
"""Metrics that the summary may name, at most `MOST` of them, in this order."""
MOST = 4

ALIKE = 0.99
"""Mean cosine between views above which they have collapsed into one."""
ALL_WINS = 0.9
"""Share of questions won by one view above which a system's views have collapsed."""


@dataclass(frozen=True)
class Statement:
    """One or two sentences, and their subject."""

    about: str
    text: str


def summary(contents: Contents) -> list[Statement]:
    """Returns sentences on the questions, the best systems, the significant differences, the costs and the views."""
    statements = [
        ("Asked", " ".join(_asked(contents))),
        ("Trained", _trained(contents.systems)),
        *_best(contents),
        ("Tests", " ".join(_differences(contents))),
        ("Cost", " ".join(_cost(contents))),
        ("Views", " ".join(_views(contents.systems))),
    ]
    return [Statement(about, text) for about, text in statements if text]


def points(difference: float) -> str:
    """Returns the difference of two shares in percentage points."""
    return f"{100 * abs(difference):.1f} points"


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


def _asked(contents: Contents) -> Iterator[str]:
    single = len(contents.systems) == 1
    systems = contents.systems[0].name if single else counted(len(contents.systems), "system")
    same = "" if single or contents.questions == 1 else "the same "
    over = f" over {counted(contents.passages, 'passage')}" if contents.passages else ""
    yield f"{systems} answered {same}{counted(contents.questions, 'question')}{over}."
    if text := asked_legend(contents.generated, contents.questions):
        yield f"{text[0].upper()}{text[1:]}."
    if 0 < contents.questions < 30 and not single:
        yield "So few questions say little: differences must be large not to be chance."


def _trained(systems: Sequence[System]) -> str:
    """Which systems were trained on generated questions; empty for labelled ones."""
    by_origin: dict[str, list[str]] = {}
    for system in systems:
        if system.generated_by and system.trainings:
            by_origin.setdefault(system.generated_by, []).append(system.name)
    return " ".join(
        f"{_listed(trained)} learned from questions that were generated from the corpus (questions.origin={origin})."
        for origin, trained in by_origin.items()
    )


def _headlines(contents: Contents) -> list[str]:
    columns = metric_columns({system.name: system.metrics for system in contents.systems})
    return ([name for name in HEADLINES if name in columns] or columns)[:MOST]


def _best(contents: Contents) -> Iterator[tuple[str, str]]:
    if len(contents.systems) == 1:
        only = contents.systems[0].metrics
        figures = [f"{100 * only[m]:.1f} % at {metric_names.short(m)}" for m in _headlines(contents)]
        if figures:
            yield "Reached", f"{_listed(figures)}."
        return
    for metric in _headlines(contents):
        ranked = sorted(
            (s for s in contents.systems if metric in s.metrics), key=lambda s: -s.metrics[metric]
        )
        if len(ranked) > 1:
            yield metric_names.short(metric), _winner(contents, metric, ranked)


def _winner(contents: Contents, metric: str, ranked: Sequence[System]) -> str:
    value = ranked[0].metrics[metric]
    first = [system for system in ranked if system.metrics[metric] == value]
    if len(first) == len(ranked):
        return f"All systems reach the same, {100 * value:.1f} %."
    winners, verb = _listed([system.name for system in first]), "is" if len(first) == 1 else "are"
    if contents.baseline in (system.name for system in first):
        second = next(system for system in ranked if system.metrics[metric] != value)
        ahead = value - second.metrics[metric]
        significant = _significant(contents, second.name, metric)
        return f"{winners} {verb} best with {100 * value:.1f} %, {points(ahead)} above {second.name}{significant}."
    base = next((system for system in ranked if system.name == contents.baseline), None)
    if base is None:
        return f"{winners} {verb} best with {100 * value:.1f} %."
    above = f"{points(value - base.metrics[metric])} above {base.name}"
    tested = {_significant(contents, system.name, metric) for system in first}
    significant = (
        tested.pop() if len(tested) == 1 else ""
    )  # equal means may have different p: the table shows them
    return f"{winners} {verb} best with {100 * value:.1f} %, {above}{significant}."


def _significant(contents: Contents, system: str, metric: str) -> str:
    """Whether a system's difference from the baseline is significant, in words; empty where it was not tested."""
    p = contents.figure(system, metric).get("corrected_p")
    if p is None:
        return ""
    return f" (significant, {p_value(p)})" if p < LEVEL else f" (not significant, {p_value(p)})"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _differences(contents: Contents) -> Iterator[str]:
    """Sentences on how many metrics of each system differ significantly from the baseline's."""
    tested = {
        system.name: {name: figure for name, figure in figures.items() if figure["corrected_p"] is not None}
        for system in contents.systems
        if (figures := contents.significance["systems"].get(system.name))
    }
    tested = {name: figures for name, figures in tested.items() if figures}
    if not tested:
        return
    found = {name: (_differing(figures, 1), _differing(figures, -1)) for name, figures in tested.items()}
    if not any(above + below for above, below in found.values()):
        yield (
            f"No system differs significantly from {contents.baseline} on any metric: their differences may be chance."
        )
        return
    alike = [name for name, (above, below) in found.items() if not above + below]
    yield f"Against {contents.baseline}:"
    for name, (above, below) in found.items():
        parts = [f"better on {above}"] * bool(above) + [f"worse on {below}"] * bool(below)
        if parts:
            end = "." if not alike and name == list(found)[-1] else ";"
            yield f"{name} is significantly {' and '.join(parts)} of {counted(len(tested[name]), 'metric')}{end}"
    if alike:
        yield f"no significant difference of {_listed(alike)} on any."


def _differing(figures: Mapping[str, Mapping[str, float]], sign: int) -> int:
    return sum(
        figure["corrected_p"] < LEVEL and sign * figure["difference"] > 0 for figure in figures.values()
    )


def _cost(contents: Contents) -> Iterator[str]:
    seconds = {
        name: costs["compute_seconds"] for name, costs in contents.cost.items() if "compute_seconds" in costs
    }
    if len(seconds) == 1:
        ((name, only),) = seconds.items()
        yield f"{name} took {duration(only)} of computing, from the corpus to its evaluation."
    elif len(set(seconds.values())) > 1:
        most, least = max(seconds, key=seconds.__getitem__), min(seconds, key=seconds.__getitem__)
        yield (
            f"{most} took the most computing, {duration(seconds[most])}, {least} the least, "
            f"{duration(seconds[least])}, from the corpus to the evaluation."
        )
    sizes = {name: costs["index_bytes"] for name, costs in contents.cost.items() if "index_bytes" in costs}
    if len(sizes) > 1 and len(set(sizes.values())) > 1:
        most, least = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        times = f", {sizes[most] / sizes[least]:.1f} times" if sizes[least] else ""
        yield f"{most}'s index is the largest with {size(sizes[most])}{times} that of {least} ({size(sizes[least])})."


def _views(systems: Sequence[System]) -> Iterator[str]:
    for system in systems:
        cosine = system.analyses.get(metric_names.VIEW_COSINE)
        shares = system.usage.get(metric_names.SHARE_OF_TOP_1, [])
        if cosine is not None and cosine > ALIKE:
            yield (
                f"{system.name}'s views have collapsed: the mean cosine between two of them is {cosine:.3f}, "
                "so that they are one view in all but name."
            )
        elif len(shares) > 1 and max(shares) > ALL_WINS:
            most = shares.index(max(shares)) + 1
            yield (
                f"{system.name}'s views have collapsed: view {most} wins {100 * max(shares):.0f} % of the questions."
            )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
