"""The report's charts of training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from multiview.report.charts import most_of, percent, percent_axis
from multiview.report.contents import Contents, System, Training
from multiview.report.drawing import MUTED, PAPER, Chart, Look, draw
from multiview.report.trainings import CURVES

SHARES = ("fallback_share",)
NAMED_BAND = 0.07
"""A band of the views' wins is named where it is as wide as this at the end."""


def training_curve(contents: Contents, system: System, name: str) -> Chart | None:
    """One of `CURVES` over the steps of all rounds, a line a round."""
    rounds = [(at, of, of.curves[name]) for at, of in _laid(system.trainings) if name in of.curves]
    if not rounds:
        return None
    look, share = Look.of(system.place, contents.base), name in SHARES

    def paint(axes: Axes) -> None:
        for at, _, curve in rounds:
            axes.plot([at + step for step in curve], list(curve.values()), color=look.stand_in,
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
        f"{name.replace('_', '-')}-{system.place}",
        f"{CURVES[name]}, {system.name}",
        f"A line over the steps of {_named(system.trainings)}. It ends at {ends}.",
        paint,
        ["round", "step", "value"],
        [
            [of.name, str(step), percent(v) if share else f"{v:.4g}"]
            for _, of, curve in rounds
            for step, v in curve.items()
        ],
    )


def view_wins(contents: Contents, system: System) -> Chart | None:
    """The share of training questions that each view wins, stacked, over the steps of all rounds."""
    rounds = [(at, of) for at, of in _laid(system.trainings) if len(of.wins) > 1]
    if not rounds:
        return None
    look = Look.of(system.place, contents.base)

    def paint(axes: Axes) -> None:
        axes.grid(False)
        for at, of in rounds:
            steps = list(of.wins[0])
            shares = [[curve.get(step, 0.0) for step in steps] for curve in of.wins]
            # Each value is the mean of the steps up to its own.
            steps, shares = [0, *steps], [[of[0], *of] for of in shares]
            bands = axes.stackplot(
                [at + step for step in steps], shares, step="pre", linewidth=0.8, edgecolor=PAPER
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
    views = max(len(of.wins) for _, of in rounds)
    return draw(
        f"wins-{system.place}",
        f"Views that win in training, {system.name}",
        f"Bands, one a view, over the steps of {_named(system.trainings)}. At the end view {most} wins {percent(share)}.",
        paint,
        ["round", "step", *(f"view {view + 1}" for view in range(views))],
        [
            [of.name, str(step), *(percent(curve.get(step), 0) for curve in of.wins)]
            for _, of in rounds
            for step in of.wins[0]
        ],
    )


def _name_bands(axes: Axes, at: int, training: Training) -> None:
    """Write beside the end of each wide band which view's it is."""
    last = list(training.wins[0])[-1]
    low = 0.0
    for view, curve in enumerate(training.wins, start=1):
        share = curve.get(last, 0.0)
        if share >= NAMED_BAND:
            axes.annotate(f"view {view}", (at + last, low + share / 2), xytext=(5, 0), fontsize=9, color=MUTED,
                          textcoords="offset points", va="center_baseline", annotation_clip=False)  # fmt: skip
        low += share


def _laid(trainings: Sequence[Training]) -> list[tuple[int, Training]]:
    """Each training with the steps of those before it."""
    laid, at = [], 0
    for training in trainings:
        laid.append((at, training))
        at += max((step for curve in training.curves.values() for step in curve), default=0)
    return laid


def _rounds(axes: Axes, trainings: Sequence[Training]) -> None:
    """Name the rounds above the axes, with a line between two."""
    laid = _laid(trainings)
    for at, training in laid:
        if len(laid) > 1:
            axes.text(
                at, 1.03, f" {training.name}", transform=axes.get_xaxis_transform(), fontsize=10, color=MUTED
            )
        if at:
            axes.axvline(at, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _named(trainings: Sequence[Training]) -> str:
    return " and ".join(training.name for training in trainings)
