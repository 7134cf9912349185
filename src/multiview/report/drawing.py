"""How the report draws: the look of each system, and matplotlib's SVG with a description and its numbers."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

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

SMALL, WIDE = (4.2, 2.8), (5.2, 3.2)
"""Sizes of charts in inches."""
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
    """A drawing, with its title and its description."""

    title: str
    description: str
    address: str
    """The drawing as a `data:` address."""


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def draw(
    title: str, description: str, paint: Callable[[Axes], None], size: tuple[float, float] = SMALL
) -> Chart:
    """Returns a chart that `paint` fills. Equal data give equal bytes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        paint(figure.add_subplot())
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(file.getvalue()).decode()
    return Chart(title, description, f"data:image/svg+xml;base64,{encoded}")


def curve(axes: Axes, look: Look, points: Mapping[int, float] | Mapping[str, float], offset: int = 0) -> None:
    """Draws a line of a system through points, `offset` to the right."""
    x = [point if isinstance(point, str) else point + offset for point in points]
    axes.plot(x, list(points.values()), color=look.colour, marker=look.marker, markersize=5)  # pyright: ignore[reportArgumentType]


def view_axis(axes: Axes, label: str = "view") -> None:
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def percent_axis(axes: Axes, bottom: float | None = 0, top: float | None = None) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0, symbol=" %"))
    axes.set_ylim(bottom, top)


def most_of(values: Sequence[float]) -> tuple[int, float]:
    """The view with the highest of these values, counted from 1, and that value."""
    most = int(np.argmax(values))
    return most + 1, values[most]
