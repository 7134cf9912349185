"""The report's charts: metrics over k, validation, models' views, and the curves of trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from multiview import metric_names
from multiview.errors import counted
from multiview.report.contents import Contents, System, Training
from multiview.report.drawing import (
    Chart,
    Look,
    band_chart,
    bar_chart,
    heat_map,
    highest,
    line_chart,
    percent,
)

MODELS = 12
"""Most systems with charts of their models."""

OVER_K = {
    "accuracy_at_": "An answer among the first k passages",
    "recall_at_": "Gold passages among the first k",
}
"""Metrics that are drawn over k, with the titles of their charts."""
VALIDATION = {
    metric_names.of_validation(metric_names.MRR): "Validation: MRR@10",
    metric_names.of_validation(metric_names.VIEW_COSINE): "Validation: cosine between views",
}
"""Metrics of a training with one chart of all systems, and its title."""
CURVES = {"loss": "Training loss", "temperature": "Temperature", "fallback_share": "Share of fallbacks"}
"""Metrics of a training with a chart per system, and its title."""

HEAT_MAPS = {"attention": "Attention divergence", "cosine": "Cosine between views"}
"""Matrices of a system with a heat map, and its title."""

FIRST = "Share of the questions whose first passage, and whose gold passage, scores by that view; dashed: an even share."
ALONE = "What one view retrieves as the passage's only vector; dashed: all views together."
ATTENTION = "Whether two views look at different tokens; near 0 they look at the same."
COSINE = "Mean over the passages; near 1 two views are one."
IN_TRAINING = "Share of the training questions whose positive passage scores by that view."


class Group(NamedTuple):
    """One kind of chart for several systems, side by side."""

    title: str
    note: str
    charts: list[tuple[System, Chart]]


def metric_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of metrics over k, one line per system; none with fewer than two k."""
    charts = []
    for stem, title in OVER_K.items():
        found = {name for system in contents.systems for name in system.metrics if name.startswith(stem)}
        cuts = sorted(int(name.removeprefix(stem)) for name in found)
        lines = [
            (_look(contents, system), {str(k): system.metrics.get(f"{stem}{k}", np.nan) for k in cuts})
            for system in contents.systems
            if found & set(system.metrics)
        ]
        described = f"One line per system over k = {', '.join(map(str, cuts))}, in per cent of the questions."
        if len(cuts) > 1:
            charts.append(line_chart(title, described, lines, "first k passages", wide=True))
    return charts


def validation_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of `VALIDATION` over the steps of all rounds, a line per system and round."""
    charts = []
    for name, title in VALIDATION.items():
        lines = [
            (_look(contents, system), curve) for system in contents.systems for curve in _curves(system, name)
        ]
        if lines:
            described = "One line per system and round, over the steps of all rounds."
            charts.append(line_chart(title, described, lines, "step", wide=True))
    return charts


def model_charts(contents: Contents) -> list[Group]:
    """Returns the charts of the models: one per system, on the same scale where they can be compared."""
    kinds: list[tuple[str, str, Callable[[Contents, System, Look], Chart | None]]] = [
        ("Which views win", FIRST, _view_shares),
        ("Each view alone", ALONE, _alone),
        (HEAT_MAPS["attention"], ATTENTION, partial(_heat_map, "attention", None)),
        (HEAT_MAPS["cosine"], COSINE, partial(_heat_map, "cosine", 1.0)),
        ("Views per passage", "", _views_per_passage),
        ("Views that win in training", IN_TRAINING, _view_wins),
        *((title, "", partial(_training_curve, name)) for name, title in CURVES.items()),
    ]
    groups = [
        Group(
            title,
            note,
            [
                (system, chart)
                for system in contents.systems[:MODELS]
                if (chart := chart_of(contents, system, _look(contents, system)))
            ],
        )
        for title, note, chart_of in kinds
    ]
    return [group for group in groups if group.charts]


def _look(contents: Contents, system: System) -> Look:
    return Look.of(system.position, contents.base)


def _by_view(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values, start=1))


def _view_shares(contents: Contents, system: System, look: Look) -> Chart | None:
    """The shares of questions whose best passage, and whose gold passage, each view wins."""
    labels = {
        metric_names.SHARE_OF_TOP_1: "of the first passages",
        metric_names.SHARE_OF_GOLD: "of the gold passages",
    }
    series = {label: system.usage[name] for name, label in labels.items() if name in system.usage}
    if not series:
        return None
    (first, shares), *_ = series.items()
    view, share = highest(shares)
    even = 1 / len(shares)
    described = (
        f"Two bars per view. View {view} wins {percent(share)} {first}; the dashed line is an even share, "
        f"{percent(even)}."
    )
    top = 1.08 * max(of for s in contents.systems for values in s.usage.values() for of in values)
    bars = {label: _by_view(values) for label, values in series.items()}
    return bar_chart(f"Which views win, {system.name}", described, look, bars, top=top, dashed=even)


def _alone(_: Contents, system: System, look: Look) -> Chart | None:
    """Each view's accuracy alone and that of all views together, at the smallest k above 1."""
    if not system.alone:
        return None
    metric = next((name for name in system.alone if not name.endswith("_at_1")), next(iter(system.alone)))
    values, together = system.alone[metric], system.metrics.get(metric)
    view, value = highest(values)
    whole = "" if together is None else f"; all together reach {percent(together)}, the dashed line"
    described = f"One bar per view. View {view} is the best with {percent(value)}{whole}."
    title = f"{metric_names.short(metric)} of each view alone, {system.name}"
    return bar_chart(title, described, look, {"": _by_view(values)}, top=1.02, dashed=together)


def _views_per_passage(_: Contents, system: System, look: Look) -> Chart | None:
    """The shares of passages with each number of views; None where all have one view."""
    counts = system.view_counts
    if set(counts) <= {1}:
        return None
    total = sum(counts.values())
    mean = sum(views * count for views, count in counts.items()) / total
    described = (
        f"One bar per number of views, in per cent of {counted(total, 'passage')}; {mean:.1f} on average."
    )
    shares = {views: count / total for views, count in counts.items()}
    return bar_chart(f"Views per passage, {system.name}", described, look, {"": shares}, "views")


def _heat_map(name: str, top: float | None, contents: Contents, system: System, _: Look) -> Chart | None:
    """Means between two views, on one colour scale for all systems that ends at `top` or at the highest mean."""
    values = getattr(system, name)
    if values is None:
        return None
    matrices = [getattr(other, name) for other in contents.systems]
    all_pairs = np.concatenate([_pairs(matrix) for matrix in matrices if matrix is not None])
    low, high = min(0.0, all_pairs.min(initial=0.0)), top or all_pairs.max(initial=1e-9)
    pairs = _pairs(values)
    between = (
        f"Between two views they are {pairs.min():.2f} to {pairs.max():.2f}."
        if len(pairs)
        else "No two views."
    )
    described = f"A square of {len(values)} by {len(values)} values. {between}"
    return heat_map(f"{HEAT_MAPS[name]}, {system.name}", described, values, low, high)


def _pairs(values: np.ndarray) -> np.ndarray:
    """The values between two different views, without nan."""
    between = values[~np.eye(len(values), dtype=bool)]
    return between[~np.isnan(between)]


def _training_curve(name: str, _: Contents, system: System, look: Look) -> Chart | None:
    """One of `CURVES` over the steps of all rounds, a line per round."""
    curves = _curves(system, name)
    if not curves:
        return None
    shares = name == "fallback_share"
    last = list(curves[-1].values())[-1]
    end = percent(last) if shares else f"{last:.3g}"
    described = f"A line over the steps of {_names(system)}. It ends at {end}."
    lines = [(look, curve) for curve in curves]
    title = f"{CURVES[name]}, {system.name}"
    return line_chart(title, described, lines, "step", _rounds(system), shares)


def _view_wins(_: Contents, system: System, look: Look) -> Chart | None:
    """The share of training questions that each view wins, stacked, over the steps of all rounds."""
    parts = {step: t.wins for step, t in _trainings(system) if len(t.wins) > 1}
    if not parts:
        return None
    view, share = highest([list(won.values())[-1] for won in list(parts.values())[-1]])
    described = f"One band per view, over the steps of {_names(system)}. At the end view {view} wins {percent(share)}."
    title = f"Views that win in training, {system.name}"
    return band_chart(title, described, look, parts, _rounds(system))


def _trainings(system: System) -> Iterator[tuple[int, Training]]:
    """Each training, with the number of steps of the trainings before it."""
    before = 0
    for training in system.trainings:
        yield before, training
        before += max((step for curve in training.curves.values() for step in curve), default=0)


def _curves(system: System, name: str) -> list[dict[int, float]]:
    """A metric of each training that has it, by step over all trainings."""
    return [
        {before + step: value for step, value in training.curves[name].items()}
        for before, training in _trainings(system)
        if name in training.curves
    ]


def _rounds(system: System) -> dict[int, str]:
    return {before: training.name for before, training in _trainings(system)}


def _names(system: System) -> str:
    return " and ".join(training.name for training in system.trainings)
