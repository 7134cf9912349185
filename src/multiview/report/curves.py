"""The report's charts of training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from multiview.report.charts import WIDE, most_of, percent, percent_axis
from multiview.report.contents import Contents, System, Training
from multiview.report.drawing import MUTED, PAPER, Chart, Look, draw
from multiview.report.trainings import CURVES, VALIDATION

SHARES = ("fallback_share",)
NAMED_BAND = 0.07
"""Least share at the end of training for which a view's band is labelled."""


def training_curve(contents: Contents, system: System, name: str) -> Chart | None:
    """Returns the chart of one of `CURVES` over the steps of all rounds, one line per round."""
    rounds = [
        (offset, training, training.curves[name])
        for offset, training in _with_offsets(system.trainings)
        if name in training.curves
    ]
    if not rounds:
        return None
    look, share = Look.of(system.position, contents.base), name in SHARES

    def paint(axes: Axes) -> None:
        for offset, _, curve in rounds:
            axes.plot([offset + step for step in curve], list(curve.values()), color=look.stand_in,
                      marker="o" if len(curve) < 12 else "", markersize=4)  # fmt: skip
        _rounds(axes, system.trainings)
        if share:
            percent_axis(axes)
            axes.set_ylim(0, 1.02)
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    last = rounds[-1][2]
    value = list(last.values())[-1]
    ends = percent(value) if share else f"{value:.3g}"
    return draw(
        f"{name.replace('_', '-')}-{system.position}",
        f"{CURVES[name]}, {system.name}",
        f"A line over the steps of {_named(system.trainings)}. It ends at {ends}.",
        paint,
        ["round", "step", "value"],
        [
            [training.name, str(step), percent(v) if share else f"{v:.4g}"]
            for _, training, curve in rounds
            for step, v in curve.items()
        ],
    )


def validation_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of `VALIDATION`, each with the curves of all systems that were validated."""
    return [chart for name in VALIDATION if (chart := _validation_chart(contents, name))]


def _validation_chart(contents: Contents, name: str) -> Chart | None:
    """Returns the chart of one of `VALIDATION` over the steps of all rounds, with a gap between two rounds."""
    lines = [
        (system, offset, training)
        for system in contents.systems
        for offset, training in _with_offsets(system.trainings)
        if name in training.curves
    ]
    if not lines:
        return None

    def paint(axes: Axes) -> None:
        for system, offset, training in lines:
            look, curve = Look.of(system.position, contents.base), training.curves[name]
            axes.plot(
                [offset + step for step in curve], list(curve.values()), look.line, color=look.stand_in,
                marker=look.marker, markeredgecolor=PAPER, zorder=2.5 if look.colour else 2,
            )  # fmt: skip
        percent_axis(axes)
        axes.set_ylim(min(0, axes.get_ylim()[0]), 1.03)
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))

    return draw(
        name.replace("/", "-").replace("_", "-"),
        VALIDATION[name],
        "One line per system and round, over the steps of all rounds.",
        paint,
        ["system", "round", "step", "value"],
        [
            [system.name, training.name, str(step), percent(value)]
            for system, _, training in lines
            for step, value in training.curves[name].items()
        ],
        WIDE,
    )


def view_wins(contents: Contents, system: System) -> Chart | None:
    """Returns the chart of the share of training questions that each view wins, stacked, over the steps of all rounds."""
    rounds = [
        (offset, training) for offset, training in _with_offsets(system.trainings) if len(training.wins) > 1
    ]
    if not rounds:
        return None
    look = Look.of(system.position, contents.base)

    def paint(axes: Axes) -> None:
        axes.grid(False)
        for offset, training in rounds:
            steps = list(training.wins[0])
            shares = [[curve.get(step, 0.0) for step in steps] for curve in training.wins]
            # Each value is the mean of the steps up to it.
            steps, shares = [0, *steps], [[values[0], *values] for values in shares]
            bands = axes.stackplot(
                [offset + step for step in steps], shares, step="pre", linewidth=0.8, edgecolor=PAPER
            )
            for view, band in enumerate(bands):
                band.set_facecolor(look.stand_in)
                band.set_alpha(1 - 0.84 * view / max(1, len(bands) - 1))
        _name_bands(axes, *rounds[-1])
        _rounds(axes, system.trainings)
        percent_axis(axes)
        axes.set_ylim(0, 1)

    _, last = rounds[-1]
    most, share = most_of([list(curve.values())[-1] for curve in last.wins])
    view_count = max(len(training.wins) for _, training in rounds)
    return draw(
        f"wins-{system.position}",
        f"Views that win in training, {system.name}",
        f"One band per view, over the steps of {_named(system.trainings)}. At the end view {most} wins {percent(share)}.",
        paint,
        ["round", "step", *(f"view {view + 1}" for view in range(view_count))],
        [
            [training.name, str(step), *(percent(curve.get(step), 0) for curve in training.wins)]
            for _, training in rounds
            for step in training.wins[0]
        ],
    )


def _name_bands(axes: Axes, offset: int, training: Training) -> None:
    """Writes the name of the view beside the end of each wide band."""
    last = list(training.wins[0])[-1]
    low = 0.0
    for view, curve in enumerate(training.wins, start=1):
        share = curve.get(last, 0.0)
        if share >= NAMED_BAND:
            axes.annotate(f"view {view}", (offset + last, low + share / 2), xytext=(5, 0), fontsize=9, color=MUTED,
                          textcoords="offset points", va="center_baseline", annotation_clip=False)  # fmt: skip
        low += share


def _with_offsets(trainings: Sequence[Training]) -> list[tuple[int, Training]]:
    """Each training, after the number of steps of the trainings before it."""
    shifted, offset = [], 0
    for training in trainings:
        shifted.append((offset, training))
        offset += max((step for curve in training.curves.values() for step in curve), default=0)
    return shifted


def _rounds(axes: Axes, trainings: Sequence[Training]) -> None:
    """Names the rounds above the axes, with a line between two rounds."""
    shifted = _with_offsets(trainings)
    for offset, training in shifted:
        if len(shifted) > 1:
            axes.text(
                offset,
                1.03,
                f" {training.name}",
                transform=axes.get_xaxis_transform(),
                fontsize=10,
                color=MUTED,
            )
        if offset:
            axes.axvline(offset, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _named(trainings: Sequence[Training]) -> str:
    return " and ".join(training.name for training in trainings)
