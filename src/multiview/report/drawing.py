"""Charts as SVG that takes its colours and its font from the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

WIDTH, HEIGHT = 340, 220
"""Size of a chart in CSS pixels, which a phone shows without shrinking it."""

MARGINS = (44, 40, 24, 38)
"""Margins around the axes in CSS pixels: left, right, top, bottom."""

POINTS_PER_INCH = 72
"""Units per inch of matplotlib's SVG."""

INK, MUTED, LINE, PAPER = "#010101", "#010102", "#010103", "#010104"
"""Stand-ins for CSS variables, which matplotlib does not know."""
VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)", PAPER: "var(--paper)"}

COLOURS = 6
"""Number of systems' colours; the first is the baseline's."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
SYMBOLS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★", "◀", "▶", "⬟")
"""The markers as characters, for the page's text."""

STYLE = {
    "svg.fonttype": "none",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 1,
    "grid.color": LINE,
    "grid.linewidth": 1,
    "xtick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.color": LINE,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 2,
    "lines.markersize": 7,
    "lines.solid_capstyle": "round",
}

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class Look:
    """The look of a system, the same in every chart and table."""

    colour: int
    """Number of a CSS variable `--system-…`."""
    dashed: bool
    marker: str
    symbol: str

    @classmethod
    def of(cls, position: int, base: int) -> Look:
        """Returns the look of the system at `position`; the baseline, at `base`, is grey.

        Colours repeat with dashed lines, markers after eleven systems.
        """
        order = 0 if position == base else position + 1 if position < base else position
        colour = 0 if order == 0 else (order - 1) % (COLOURS - 1) + 1
        return cls(colour, order >= COLOURS, MARKERS[order % len(MARKERS)], SYMBOLS[order % len(SYMBOLS)])

    @property
    def stand_in(self) -> str:
        return f"#0202{self.colour:02x}"

    @property
    def line(self) -> str:
        return "--" if self.dashed else "-"


def _variable(stand_in: str) -> str:
    return VARIABLES.get(stand_in) or f"var(--system-{int(stand_in[-2:], 16)})"


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, and its data as a table."""

    title: str
    svg: Markup
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def bytes(self) -> int:
        """Approximate size on a page."""
        return len(self.svg) + sum(len(cell) + len("<td></td>") for row in self.rows for cell in row)


def draw(
    name: str,
    title: str,
    description: str,
    paint: Callable[[Axes], None],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Chart:
    """Returns a chart that `paint` fills, with a description for screen readers. `name` is unique on the page.

    Equal data give equal bytes. What `paint` writes should be the page's own words: a user's `$` is mathematics
    to matplotlib.
    """
    with matplotlib.rc_context(cast(Any, {**STYLE, "svg.hashsalt": name})):
        figure = Figure((size[0] / POINTS_PER_INCH, size[1] / POINTS_PER_INCH))
        FigureCanvasSVG(figure)
        # Fixed margins: matplotlib's layout takes as long as the drawing, and all charts have similar texts.
        (width, height), (left, right, top, bottom) = size, MARGINS
        paint(
            figure.add_axes(
                (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
            )
        )
        file = io.BytesIO()
        undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=undated)
    return Chart(title, _themed(file.getvalue(), name, title, description), columns, rows)


def _themed(svg: bytes, name: str, title: str, description: str) -> Markup:
    """The drawing as an element of the page, with CSS variables as colours, unique ids, and no style sheet."""
    root = ElementTree.fromstring(svg)
    for child in list(root):
        if child.tag == f"{{{SVG}}}metadata" or child.find(f"{{{SVG}}}style") is not None:
            root.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        element.text, element.tail = (element.text or "").strip() or None, None
        _clean(element, name)
    used = set(re.findall(r"#([\w-]+)", " ".join(v for e in root.iter() for v in e.attrib.values())))
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-description")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        label = ElementTree.Element(tag, id=f"{name}-{'title' if tag == 'title' else 'description'}")
        label.text = text
        root.insert(position, label)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, name: str) -> None:
    attributes = element.attrib
    if "id" in attributes:
        attributes["id"] = f"{name}-{attributes['id']}"
    if LINK in attributes:
        link = attributes.pop(LINK)
        attributes["href"] = f"#{name}-{link[1:]}" if link.startswith("#") else "".join(link.split())
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("#", f"#{name}-")
    if "d" in attributes:
        attributes["d"] = re.sub(r"\d+\.\d+", _rounded, " ".join(attributes["d"].split()))
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    if style := attributes.get("style"):
        style = re.sub(r"font-family:[^;]*;?\s*", "", style)
        attributes["style"] = re.sub(r"#0[12]0[12]\w\w", lambda found: _variable(found[0]), style)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
