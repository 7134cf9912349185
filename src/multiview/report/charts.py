"""The report's charts, drawn by matplotlib: metrics over k, validation, the models' views, and training curves."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from multiview import metric_names
from multiview.evaluation.analyses.matrices import between_views
from multiview.report.contents import GREY, Contents, Look, System

OVER_K = {
    metric_names.ACCURACY_PREFIX: "An answer among the first k passages",
    "recall_at_": "Gold passages among the first k",
}
"""Metrics that are drawn over k, with the titles of their charts."""
VALIDATION = {
    metric_names.of_validation(metric_names.MRR): "Validation: MRR@10",
    metric_names.of_validation(metric_names.VIEW_COSINE): "Validation: cosine between views",
}
"""Training metrics with one chart for all systems, and its title."""
FALLBACK = "fallback_share"
CURVES = {"loss": "Training loss", "temperature": "Temperature", FALLBACK: "Share of fallbacks"}
"""Training metrics with a chart per system, and its title."""
USAGE = {
    metric_names.SHARE_OF_TOP_1: "of the first passages",
    metric_names.SHARE_OF_GOLD: "of the gold passages",
}
"""Shares of passages that a view wins, with their legends."""

SMALL, WIDE = (4.2, 2.8), (5.2, 3.2)
"""Width and height of a chart in inches."""
TICKS = 8
"""Most ticks on an axis, and most views in a heat map whose values are written out."""
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "multiview", "axes.axisbelow": True}
"""Text stays text in the SVG, and equal data give equal bytes."""


class Chart(NamedTuple):
    """A drawing as a `data:` address, with its title and its description."""

    title: str
    description: str
    address: str


class Group(NamedTuple):
    """One kind of chart for several systems, side by side."""

    title: str
    note: str
    charts: list[tuple[System, Chart]]


@matplotlib.rc_context(STYLE)
def metric_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of metrics over k, one line per system; none with fewer than two k."""
    charts = []
    for stem, title in OVER_K.items():
        found = {name for system in contents.systems for name in system.metrics if name.startswith(stem)}
        cuts = sorted(int(name.removeprefix(stem)) for name in found)
        if len(cuts) < 2:
            continue
        axes = _axes(WIDE)
        for system in contents.systems:
            values = {k: value for k in cuts if (value := system.metrics.get(f"{stem}{k}")) is not None}
            _marked_line(axes, contents.look(system), [cuts.index(k) for k in values], list(values.values()))
        axes.set_xticks(range(len(cuts)), list(map(str, cuts)))
        described = f"One line per system over k = {', '.join(map(str, cuts))}, in per cent of the questions."
        charts.append(_drawn(axes, title, described, "first k passages", None))
    return charts


@matplotlib.rc_context(STYLE)
def validation_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of `VALIDATION` over the steps of all rounds, with a line per system and round."""
    charts = []
    for name, title in VALIDATION.items():
        axes = _axes(WIDE)
        for system in contents.systems:
            for curve in system.curves(name):
                _marked_line(axes, contents.look(system), list(curve), list(curve.values()))
        if axes.lines:
            described = "One line per system and round, over the steps of all rounds."
            shares = name != metric_names.of_validation(metric_names.VIEW_COSINE)
            charts.append(_drawn(axes, title, described, "step", None, shares=shares))
    return charts


@matplotlib.rc_context(STYLE)
def model_charts(contents: Contents) -> list[Group]:
    """Returns the charts of the models: one per system, on the same scale where they can be compared."""
    wins = "Share of the questions whose first passage, and whose gold passage, scores by that view; dashed: an even share."
    alone = "What one view retrieves as the passage's only vector; dashed: all views together."
    tokens = "Whether two views look at different tokens; near 0 they look at the same."
    cosine = "Mean over the passages; near 1 two views are one."
    fallback = "Share of the training questions of which no view of the gold passage is known to hold an answer: the best view stands in for it."
    kinds: list[tuple[str, str, Callable[[Contents, System], Chart | None]]] = [
        ("Which views win", wins, _view_shares),
        ("Each view alone", alone, _alone),
        ("Attention divergence", tokens, partial(_heat_map, "Attention divergence", "attention", None)),
        ("Cosine between views", cosine, partial(_heat_map, "Cosine between views", "cosine", 1.0)),
        *(
            (title, fallback if name == FALLBACK else "", partial(_training_curve, name))
            for name, title in CURVES.items()
        ),
    ]
    groups = [
        Group(title, note, [(s, chart) for s in contents.systems if (chart := chart_of(contents, s))])
        for title, note, chart_of in kinds
    ]
    return [group for group in groups if group.charts]


def _view_shares(contents: Contents, system: System) -> Chart | None:
    """The shares of questions whose best passage, and whose gold passage, each view wins."""
    if not system.usage:
        return None
    top = 1.08 * max(share for s in contents.systems for shares in s.usage.values() for share in shares)
    series = {USAGE[name]: shares for name, shares in system.usage.items()}
    even = 1 / len(next(iter(series.values())))
    return _bars(f"Which views win, {system.name}", contents.look(system), series, top, even)


def _alone(contents: Contents, system: System) -> Chart | None:
    """Each view's accuracy alone and that of all views together, at the smallest k above 1."""
    if not system.alone:
        return None
    metric = next((name for name in system.alone if not name.endswith("_at_1")), next(iter(system.alone)))
    short = metric_names.short(metric)
    series = {short: system.alone[metric]}
    return _bars(
        f"{short} of each view alone, {system.name}",
        contents.look(system),
        series,
        1.02,
        system.together.get(metric),
    )


def _heat_map(title: str, name: str, top: float | None, contents: Contents, system: System) -> Chart | None:
    """Means between views i (down) and j (across), on one colour scale for all systems; written out if few."""
    values = getattr(system, name)
    if values is None:
        return None
    every = [between_views(matrix) for s in contents.systems if (matrix := getattr(s, name)) is not None]
    low = min(0.0, *(pairs.min(initial=0.0) for pairs in every))
    high = top or max(pairs.max(initial=1e-9) for pairs in every)
    axes, end = _axes((SMALL[0], SMALL[0])), len(values) + 0.5
    axes.imshow(values, "Blues", alpha=0.5, vmin=low, vmax=high, extent=(0.5, end, end, 0.5))
    for (i, j), value in np.ndenumerate(values):
        if len(values) <= TICKS and not np.isnan(value):
            axes.text(j + 1, i + 1, f"{value:.2f}", ha="center", va="center", fontsize=8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(TICKS, integer=True))
    axes.set_ylabel("view i")
    pairs = between_views(values)
    described = (
        f"Between two views {pairs.min():.2f} to {pairs.max():.2f}." if len(pairs) else "No two views."
    )
    return _drawn(axes, f"{title}, {system.name}", described, "view j", end, 0.5, shares=False)


def _training_curve(name: str, contents: Contents, system: System) -> Chart | None:
    """One of `CURVES` over the steps of all rounds, with a line per round; None for fallbacks where there are none."""
    curves = system.curves(name)
    if not curves or (name == FALLBACK and not any(any(curve.values()) for curve in curves)):
        return None
    axes = _axes()
    for curve in curves:
        point = "." if len(curve) == 1 else None
        axes.plot(list(curve), list(curve.values()), color=contents.look(system).colour, marker=point)
    for training in system.trainings if len(system.trainings) > 1 else ():
        axes.text(training.start, 1.02, f" {training.name}", transform=axes.get_xaxis_transform(), color=GREY)
        axes.axvline(training.start, color=GREY, linewidth=1, linestyle=":")
    shares, last = name == FALLBACK, list(curves[-1].values())[-1]
    described = f"A line over the steps. It ends at {f'{last:.1%}' if shares else f'{last:.3g}'}."
    return _drawn(axes, f"{CURVES[name]}, {system.name}", described, "step", shares=shares)


def _marked_line(axes: Axes, look: Look, at: Any, values: Sequence[float]) -> None:
    axes.plot(at, values, color=look.colour, marker=look.marker, markersize=5)


def _bars(
    title: str, look: Look, series: Mapping[str, Sequence[float]], top: float, dashed: float | None
) -> Chart:
    """A bar chart with one bar per view and series, and a dashed line. Several series have a legend; the only one's name
    is beside the axis."""
    axes, width = _axes(), 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        at = np.arange(1, len(values) + 1) + (number - (len(series) - 1) / 2) * width
        axes.bar(at, values, width, color=look.colour, alpha=0.4 if number else 1, label=label)
    if dashed is not None:
        axes.axhline(dashed, color="black", linestyle="--", linewidth=1)
    if len(series) > 1:
        axes.legend(frameon=False, ncols=2, fontsize=8, loc="lower left", bbox_to_anchor=(-0.12, 1))
    axes.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
    label, values = next(iter(series.items()))
    if len(series) == 1:
        axes.set_ylabel(label)
    line = "" if dashed is None else f"; the dashed line is at {dashed:.1%}"
    highest = f"view {int(np.argmax(values)) + 1} is the highest with {max(values):.1%}"
    described = f"A bar per view, {label}: {highest}{line}."
    return _drawn(axes, title, described, "view", 0, top)


def _axes(size: tuple[float, float] = SMALL) -> Axes:
    return Figure(size, layout="constrained").add_subplot()


def _drawn(
    axes: Axes,
    title: str,
    description: str,
    label: str,
    low: float | None = 0,
    high: float | None = None,
    shares: bool = True,
) -> Chart:
    """The chart of finished axes, whose y-axis goes from `low` to `high`."""
    axes.set_xlabel(label)
    axes.set_ylim(low, high)
    if shares:
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    file, figure = io.BytesIO(), axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(file, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(file.getvalue()).decode()
    return Chart(title, description, f"data:image/svg+xml;base64,{encoded}")
