"""How the report draws: the look of each system, and charts of lines, bands and bars and heat maps as SVG."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, MaxNLocator, PercentFormatter

GREY = "#6a737d"
"""The baseline's colour, and that of lines that belong to no system."""
LOOKS = (
    (GREY, "o", "●"),
    ("#0b69a8", "s", "■"),
    ("#c95a00", "^", "▲"),
    ("#0a7f5f", "D", "◆"),
    ("#ac4a86", "v", "▼"),
    ("#8a6a00", "P", "✚"),
    ("#6f42c1", "X", "✖"),
    ("#c62828", "*", "★"),
    ("#00838f", "<", "◀"),
    ("#5d4037", ">", "▶"),
    ("#37474f", "p", "⬟"),
)
"""Colour, matplotlib's marker, and the same marker as a character."""

SMALL = (4.2, 2.8)
"""Inches of a chart."""
TICKS = 8
"""Most ticks of an axis, and most views of a heat map with values written on it."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "multiview",
    "text.parse_math": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e3e6ea",
}


@dataclass(frozen=True)
class Look:
    """The look of a system, the same in every chart and table."""

    colour: str
    marker: str
    symbol: str

    @classmethod
    def of(cls, position: int, base: int) -> Look:
        """Returns the look of the system at `position`; the baseline, at `base`, is grey. Looks repeat after eleven."""
        order = 0 if position == base else position + 1 if position < base else position
        return cls(*LOOKS[order % len(LOOKS)])


@dataclass(frozen=True)
class Chart:
    """A drawing as a `data:` address, with its title and its description."""

    title: str
    description: str
    address: str


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def highest(values: Sequence[float]) -> tuple[int, float]:
    """Returns the view with the highest of these values, counted from 1, and that value."""
    view = int(np.argmax(values))
    return view + 1, values[view]


def line_chart(
    title: str,
    description: str,
    lines: Iterable[tuple[Look, Mapping[int, float] | Mapping[str, float]]],
    label: str,
    rounds: Mapping[int, str] | None = None,
    shares: bool = True,
    wide: bool = False,
) -> Chart:
    """Returns a chart of lines. `rounds` names each part that begins at a step; a wide chart marks the points, and its
    values need not begin at 0."""

    def paint(axes: Axes) -> None:
        for look, points in lines:
            marker = look.marker if wide else ""
            axes.plot(list(points), list(points.values()), color=look.colour, marker=marker, markersize=5)  # pyright: ignore[reportArgumentType]
        _finish(axes, label, None if wide else 0, None, shares, rounds)

    return _draw(title, description, paint, (5.2, 3.2) if wide else SMALL)


def band_chart(
    title: str,
    description: str,
    look: Look,
    parts: Mapping[int, Sequence[Mapping[int, float]]],
    rounds: Mapping[int, str],
) -> Chart:
    """Returns a chart of the views' shares by step, stacked; `parts` are one for each of `rounds`, by its first step."""

    def paint(axes: Axes) -> None:
        for offset, views in parts.items():
            steps = list(views[0])
            shares = [[view.get(step, 0.0) for step in (steps[0], *steps)] for view in views]
            colours = [to_rgba(look.colour, 1 - 0.84 * n / max(1, len(views) - 1)) for n in range(len(views))]
            labels = [] if axes.collections else [f"view {n + 1}" for n in range(len(views))]
            axes.stackplot([offset + step for step in (0, *steps)], shares, colors=colours, labels=labels)
        axes.legend(reverse=True, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=7)
        _finish(axes, "step", 0, 1, rounds=rounds)

    return _draw(title, description, paint)


def bar_chart(
    title: str,
    description: str,
    look: Look,
    series: Mapping[str, Mapping[int, float]],
    label: str = "view",
    top: float | None = None,
    dashed: float | None = None,
) -> Chart:
    """Returns a chart of bars side by side, one of each series, with a dashed line; several series have a legend."""

    def paint(axes: Axes) -> None:
        width = 0.8 / len(series)
        for number, (of, values) in enumerate(series.items()):
            x = [at + (number - (len(series) - 1) / 2) * width for at in values]
            axes.bar(x, list(values.values()), width, color=look.colour, alpha=0.4 if number else 1, label=of)
        if dashed is not None:
            axes.axhline(dashed, color="black", linestyle="--", linewidth=1)
        if len(series) > 1:
            axes.legend(frameon=False, ncols=2, fontsize=8, loc="lower left", bbox_to_anchor=(-0.12, 1))
        axes.set_xlim(min(map(min, series.values())) - 1, max(map(max, series.values())) + 1)
        _finish(axes, label, 0, top)

    return _draw(title, description, paint)


def heat_map(title: str, description: str, values: np.ndarray, low: float, high: float) -> Chart:
    """Returns a chart of values between views i (down) and j (across), written out where there are few."""

    def paint(axes: Axes) -> None:
        axes.grid(False)
        end = len(values) + 0.5
        axes.imshow(
            values, "Blues", alpha=0.5, vmin=low, vmax=high, interpolation="none", extent=(0.5, end, end, 0.5)
        )
        for (i, j), value in np.ndenumerate(values):
            if len(values) <= TICKS and not np.isnan(value):
                axes.text(j + 1, i + 1, f"{value:.2f}", ha="center", va="center", fontsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
        axes.set_ylabel("view i")
        _finish(axes, "view j", end, 0.5, shares=False)

    return _draw(title, description, paint, (SMALL[0], SMALL[0]))


def _finish(
    axes: Axes,
    label: str,
    low: float | None,
    high: float | None,
    shares: bool = True,
    rounds: Mapping[int, str] | None = None,
) -> None:
    axes.set_xlabel(label)
    axes.set_ylim(low, high)
    if shares:
        axes.yaxis.set_major_formatter(PercentFormatter(1, None, symbol=" %"))
    if isinstance(axes.xaxis.get_major_locator(), AutoLocator):  # texts stay as they are
        axes.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
    for step, name in (rounds or {}).items() if len(rounds or {}) > 1 else ():
        axes.text(step, 1.02, f" {name}", transform=axes.get_xaxis_transform(), color=GREY)
        axes.axvline(step, color=GREY, linewidth=1, linestyle=":")


def _draw(
    title: str, description: str, paint: Callable[[Axes], None], size: tuple[float, float] = SMALL
) -> Chart:
    """Equal data give equal bytes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        paint(figure.add_subplot())
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(file.getvalue()).decode()
    return Chart(title, description, f"data:image/svg+xml;base64,{encoded}")
