"""The report's charts of metrics and of models' views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from multiview import metric_names
from multiview.errors import counted
from multiview.report.contents import Contents, System
from multiview.report.curves import CURVES, training_curve, view_wins
from multiview.report.drawing import (
    GREY,
    SMALL,
    WIDE,
    Chart,
    Look,
    curve,
    draw,
    most_of,
    percent,
    percent_axis,
    view_axis,
)

MODELS = 12
"""Most systems with charts of their models."""
WRITTEN = 8
"""Most views of a heat map with figures written on it."""


@dataclass(frozen=True)
class Group:
    """One kind of chart for several systems, side by side."""

    title: str
    note: str
    charts: list[tuple[System, Chart]]


def metric_charts(contents: Contents) -> list[Chart]:
    """Returns the charts of metrics over k, one line per system; none with fewer than two k."""
    stems = {
        "accuracy": "An answer among the first k passages",
        "recall": "Gold passages among the first k",
    }
    return [chart for stem, title in stems.items() if (chart := _over_k(contents, f"{stem}_at_", title))]


def model_charts(contents: Contents) -> list[Group]:
    """Returns the charts of the models: one per system, on the same scale where they can be compared."""
    kinds: list[tuple[str, str, Callable[[System, Look], Chart | None]]] = [
        (
            "Which views win",
            "Share of the questions whose first passage, and whose gold passage, scores by that view; dashed: an even "
            "share.",
            lambda system, look: _view_shares(contents, system, look),
        ),
        (
            "Each view alone",
            "What one view retrieves as the passage's only vector; dashed: all views together.",
            _alone,
        ),
        (
            "Attention divergence",
            "Whether two views look at different tokens; near 0 they look at the same.",
            lambda system, _: _heat_map("Attention divergence", system, contents, lambda s: s.attention),
        ),
        (
            "Cosine between views",
            "Mean over the passages; near 1 two views are one.",
            lambda system, _: _heat_map("Cosine between views", system, contents, lambda s: s.cosine, 1.0),
        ),
        ("Views per passage", "", _views_per_passage),
        (
            "Views that win in training",
            "Share of the training questions whose positive passage scores by that view.",
            view_wins,
        ),
        *(
            (title, "", lambda system, look, name=name: training_curve(name, system, look))
            for name, title in CURVES.items()
        ),
    ]
    looks = [(system, Look.of(system.position, contents.base)) for system in contents.systems[:MODELS]]
    groups = [
        Group(title, note, [(system, chart) for system, look in looks if (chart := chart_of(system, look))])
        for title, note, chart_of in kinds
    ]
    return [group for group in groups if group.charts]


def _over_k(contents: Contents, stem: str, title: str) -> Chart | None:
    found = {name for system in contents.systems for name in system.metrics if name.startswith(stem)}
    cuts = sorted(int(name.removeprefix(stem)) for name in found)
    lines = {
        system.position: {str(k): system.metrics.get(f"{stem}{k}", np.nan) for k in cuts}
        for system in contents.systems
        if found & set(system.metrics)
    }

    def paint(axes: Axes) -> None:
        for position, points in lines.items():
            curve(axes, Look.of(position, contents.base), points)
        axes.set_xlabel("first k passages")
        percent_axis(axes, bottom=None)

    description = f"One line per system over k = {', '.join(map(str, cuts))}, in per cent of the questions."
    return draw(title, description, paint, WIDE) if len(cuts) > 1 else None


def _view_shares(contents: Contents, system: System, look: Look) -> Chart | None:
    """The chart of the shares of questions whose best passage, and gold passage, each view wins."""
    labels = {
        metric_names.SHARE_OF_TOP_1: "of the first passages",
        metric_names.SHARE_OF_GOLD: "of the gold passages",
    }
    series = {label: system.usage[name] for name, label in labels.items() if name in system.usage}
    if not series:
        return None
    (first, shares), *_ = series.items()
    highest = max(share for s in contents.systems for values in s.usage.values() for share in values)

    def paint(axes: Axes) -> None:
        for number, (label, values) in enumerate(series.items()):
            width = 0.8 / len(series)
            x = np.arange(1, len(values) + 1) + (number - (len(series) - 1) / 2) * width
            axes.bar(x, values, width, color=look.colour, alpha=0.4 if number else 1, label=label)
        axes.axhline(1 / len(shares), color=GREY, linestyle="--", linewidth=1)
        view_axis(axes)
        percent_axis(axes, top=1.08 * highest)
        axes.legend(frameon=False, ncols=2, fontsize=8, loc="lower left", bbox_to_anchor=(-0.12, 1))

    most, share = most_of(shares)
    description = (
        f"Two bars per view. View {most} wins {percent(share)} {first}; the dashed line is an even share, "
        f"{percent(1 / len(shares))}."
    )
    return draw(f"Which views win, {system.name}", description, paint)


def _alone(system: System, look: Look) -> Chart | None:
    """The chart of each view's accuracy alone and of all views together, at the smallest k above 1."""
    if not system.alone:
        return None
    metric = next((name for name in system.alone if not name.endswith("_at_1")), next(iter(system.alone)))
    values, together = system.alone[metric], system.metrics.get(metric)

    def paint(axes: Axes) -> None:
        axes.bar(range(1, len(values) + 1), values, color=look.colour)
        if together is not None:
            axes.axhline(together, color="black", linestyle="--", linewidth=1)
        view_axis(axes)
        percent_axis(axes, top=1.02)

    best, value = most_of(values)
    whole = "" if together is None else f"; all together reach {percent(together)}, the dashed line"
    description = f"One bar per view. View {best} is the best with {percent(value)}{whole}."
    return draw(f"{metric_names.short(metric)} of each view alone, {system.name}", description, paint)


def _heat_map(
    title: str,
    system: System,
    contents: Contents,
    of: Callable[[System], np.ndarray | None],
    highest: float | None = None,
) -> Chart | None:
    """The heat map of means between views i (down) and j (across), on one colour scale for all systems.

    The scale ends at `highest`, or at the highest value between two views.
    """
    values = of(system)
    if values is None:
        return None
    every = np.concatenate([_pairs(found) for other in contents.systems if (found := of(other)) is not None])
    low, high = min(0.0, every.min(initial=0.0)), highest or every.max(initial=1e-9)

    def paint(axes: Axes) -> None:
        axes.grid(False)
        end = len(values) + 0.5
        extent = (0.5, end, end, 0.5)
        axes.imshow(values, cmap="Blues", alpha=0.5, vmin=low, vmax=high, interpolation="none", extent=extent)
        for (i, j), value in np.ndenumerate(values):
            if len(values) <= WRITTEN and not np.isnan(value):
                axes.text(j + 1, i + 1, f"{value:.2f}", ha="center", va="center", fontsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(WRITTEN, integer=True))
        axes.set_ylabel("view i")
        view_axis(axes, "view j")

    pairs = _pairs(values)
    said = (
        f"Between two views they are {pairs.min():.2f} to {pairs.max():.2f}."
        if len(pairs)
        else "No two views."
    )
    description = f"A square of {len(values)} by {len(values)} values. {said}"
    return draw(f"{title}, {system.name}", description, paint, (SMALL[0], SMALL[0]))


def _pairs(values: np.ndarray) -> np.ndarray:
    """The values between two different views, without nan."""
    between = values[~np.eye(len(values), dtype=bool)]
    return between[~np.isnan(between)]


def _views_per_passage(system: System, look: Look) -> Chart | None:
    """The chart of the number of passages per number of views; None where all have one view."""
    counts = system.view_counts
    if set(counts) <= {1}:
        return None
    total = sum(counts.values())
    mean = sum(views * count for views, count in counts.items()) / total

    def paint(axes: Axes) -> None:
        axes.bar(list(counts), [count / total for count in counts.values()], color=look.colour)
        view_axis(axes, "views")
        axes.set_xlim(min(counts) - 1.5, max(counts) + 1.5)
        percent_axis(axes)

    description = (
        f"One bar per number of views, in per cent of {counted(total, 'passage')}; {mean:.1f} on average."
    )
    return draw(f"Views per passage, {system.name}", description, paint)
