"""The report's charts of training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import MaxNLocator

from multiview import metric_names
from multiview.report.contents import Contents, System, Training
from multiview.report.drawing import (
    GREY,
    WIDE,
    Chart,
    Look,
    curve,
    draw,
    most_of,
    percent,
    percent_axis,
)

CURVES = {"loss": "Training loss", "temperature": "Temperature", "fallback_share": "Share of fallbacks"}
"""Metrics of a training that get a chart per system, and its title."""
SHARES = ("fallback_share",)
MOST_VIEWS = 16
"""Most views to draw the wins of."""
VALIDATION = {
    metric_names.of_validation(metric_names.MRR): "Validation: MRR@10",
    metric_names.of_validation(metric_names.VIEW_COSINE): "Validation: cosine between views",
}
"""Metrics of a training that get one chart of all systems, and its title."""


def validation_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of `VALIDATION`, each with the curves of all systems that were validated."""
    return [chart for name in VALIDATION if (chart := _validation(contents, name))]


def _validation(contents: Contents, name: str) -> Chart | None:
    """The chart of one of `VALIDATION` over the steps of all rounds, with a gap between two rounds."""
    lines = [
        (system.position, offset, training.curves[name])
        for system in contents.systems
        for offset, training in _with_offsets(system.trainings)
        if name in training.curves
    ]

    def paint(axes: Axes) -> None:
        for position, offset, points in lines:
            curve(axes, Look.of(position, contents.base), points, offset)
        _training_steps(axes)
        percent_axis(axes, bottom=None)

    description = "One line per system and round, over the steps of all rounds."
    return draw(VALIDATION[name], description, paint, WIDE) if lines else None


def training_curve(name: str, system: System, look: Look) -> Chart | None:
    """Returns the chart of one of `CURVES` over the steps of all rounds, one line per round."""
    rounds = [(offset, t.curves[name]) for offset, t in _with_offsets(system.trainings) if name in t.curves]
    if not rounds:
        return None

    def paint(axes: Axes) -> None:
        for offset, points in rounds:
            axes.plot([offset + step for step in points], list(points.values()), color=look.colour)
        _training_steps(axes, system.trainings)
        axes.set_ylim(bottom=0)
        if name in SHARES:
            percent_axis(axes, top=1.02)

    last = list(rounds[-1][1].values())[-1]
    ends = percent(last) if name in SHARES else f"{last:.3g}"
    description = f"A line over the steps of {_named(system.trainings)}. It ends at {ends}."
    return draw(f"{CURVES[name]}, {system.name}", description, paint)


def view_wins(system: System, look: Look) -> Chart | None:
    """Returns the chart of the share of training questions that each view wins, stacked, over the steps of all rounds."""
    rounds = [
        (offset, t.wins[:MOST_VIEWS]) for offset, t in _with_offsets(system.trainings) if len(t.wins) > 1
    ]
    if not rounds:
        return None
    last = rounds[-1][1]
    colours = [to_rgba(look.colour, 1 - 0.84 * view / (len(last) - 1)) for view in range(len(last))]

    def paint(axes: Axes) -> None:
        for offset, wins in rounds:
            steps = list(wins[0])
            shares = [[won.get(step, 0.0) for step in (steps[0], *steps)] for won in wins]
            axes.stackplot([offset + step for step in (0, *steps)], shares, colors=colours)
        bands, names = axes.collections[-len(last) :], [f"view {view + 1}" for view in range(len(last))]
        axes.legend(
            bands[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=7
        )
        _training_steps(axes, system.trainings)
        percent_axis(axes, top=1)

    most, share = most_of([list(won.values())[-1] for won in last])
    steps = f"One band per view, over the steps of {_named(system.trainings)}."
    description = f"{steps} At the end view {most} wins {percent(share)}."
    return draw(f"Views that win in training, {system.name}", description, paint)


def _with_offsets(trainings: Sequence[Training]) -> list[tuple[int, Training]]:
    """Each training, after the number of steps of the trainings before it."""
    shifted, offset = [], 0
    for training in trainings:
        shifted.append((offset, training))
        offset += max((step for curve in training.curves.values() for step in curve), default=0)
    return shifted


def _named(trainings: Sequence[Training]) -> str:
    return " and ".join(training.name for training in trainings)


def _training_steps(axes: Axes, trainings: Sequence[Training] = ()) -> None:
    """Labels the steps, and separates and names the rounds where there are several."""
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if len(trainings) < 2:
        return
    for offset, training in _with_offsets(trainings):
        axes.text(offset, 1.02, f" {training.name}", transform=axes.get_xaxis_transform(), color=GREY)
        axes.axvline(offset, color=GREY, linewidth=1, linestyle=":")
