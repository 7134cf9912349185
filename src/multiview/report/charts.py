"""The report's charts of metrics and of models' views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from multiview import metric_names
from multiview.errors import counted
from multiview.report.contents import Contents, System
from multiview.report.drawing import INK, MUTED, PAPER, WIDTH, Chart, Look, draw

HEAT = (47, 111, 196)
"""Colour of heat maps, in sRGB, on light and dark pages alike: the more opaque, the higher the value."""
DEEPEST = 0.62
"""Opacity of the highest value's colour, which leaves figures legible."""
WRITTEN = 8
"""Most views of a heat map with figures written on it."""
WIDE = (360, 250)
TALL = (WIDTH, 318)


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None or np.isnan(value) else f"{100 * value:.{digits}f} %"


def metric_curves(contents: Contents, stem: str, title: str) -> Chart | None:
    """Returns the chart of metrics `<stem>_at_k` of all systems over k; None with fewer than two k."""
    found = {name for system in contents.systems for name in system.metrics}
    cuts = sorted(int(name.rpartition("_at_")[2]) for name in found if name.startswith(f"{stem}_at_"))
    shown = [s for s in contents.systems if any(f"{stem}_at_{k}" in s.metrics for k in cuts)]
    if len(cuts) < 2:
        return None

    def paint(axes: Axes) -> None:
        for system in shown:
            look = Look.of(system.position, contents.base)
            values = [system.metrics.get(f"{stem}_at_{k}", np.nan) for k in cuts]
            axes.plot(
                range(len(cuts)), values, look.line, color=look.stand_in, marker=look.marker,
                markeredgecolor=PAPER, zorder=2.5 if look.colour else 2,
            )  # fmt: skip
        axes.set_xticks(range(len(cuts)), [str(k) for k in cuts])
        axes.set_xlabel("first k passages")
        percent_axis(axes)
        axes.set_ylim(min(0.8, axes.get_ylim()[0]), 1.03)
        axes.margins(x=0.06)

    rows = [[system.name, *(percent(system.metrics.get(f"{stem}_at_{k}")) for k in cuts)] for system in shown]
    description = f"One line per system over k = {', '.join(map(str, cuts))}, in per cent of the questions."
    return draw(stem, title, description, paint, ["system", *(f"k = {k}" for k in cuts)], rows, WIDE)


def view_shares(contents: Contents, system: System, top: float) -> Chart | None:
    """Returns the chart of the shares of questions whose best passage, and gold passage, each view wins.

    `top` is the end of the axis. None for a system without shares of wins.
    """
    if not system.usage:
        return None
    look, view_count = Look.of(system.position, contents.base), len(next(iter(system.usage.values())))
    series = [
        ("of the first passages", system.usage.get(metric_names.SHARE_OF_TOP_1), 1.0),
        ("of the gold passages", system.usage.get(metric_names.SHARE_OF_GOLD), 0.4),
    ]
    present = [(label, shares, alpha) for label, shares, alpha in series if shares is not None]

    def paint(axes: Axes) -> None:
        width = 0.76 / len(present)
        for number, (label, shares, alpha) in enumerate(present):
            x = np.arange(view_count) + (number - (len(present) - 1) / 2) * width
            axes.bar(x, shares, width, color=look.stand_in, alpha=alpha, label=label)
        axes.axhline(1 / view_count, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        _views_below(axes, view_count)
        percent_axis(axes)
        axes.set_ylim(0, top)
        axes.legend(frameon=False, fontsize=10, ncols=2, loc="lower left", bbox_to_anchor=(-0.03, 1.0),
                    borderpad=0, handlelength=1, handletextpad=0.5, columnspacing=1.2)  # fmt: skip

    most, share = most_of(present[0][1])
    return draw(
        f"shares-{system.position}",
        f"Which views win, {system.name}",
        f"Two bars per view. View {most} wins {percent(share)} {present[0][0]}; the dashed line is an even share, "
        f"{percent(1 / view_count)}.",
        paint,
        ["view", *(label for label, _, _ in present)],
        [[str(v + 1), *(percent(shares[v]) for _, shares, _ in present)] for v in range(view_count)],
    )


def alone(contents: Contents, system: System) -> Chart | None:
    """Returns the chart of each view's accuracy alone and of all views together, at the smallest k above 1."""
    if not system.alone:
        return None
    metric = next((name for name in system.alone if not name.endswith("_at_1")), next(iter(system.alone)))
    values, all_views = system.alone[metric], system.metrics.get(metric)
    look = Look.of(system.position, contents.base)

    def paint(axes: Axes) -> None:
        axes.bar(range(len(values)), values, 0.7, color=look.stand_in)
        if all_views is not None:
            axes.axhline(all_views, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        _views_below(axes, len(values))
        percent_axis(axes)
        axes.set_ylim(0, 1.02)

    best, value = most_of(values)
    whole = "" if all_views is None else f"; all together reach {percent(all_views)}, the dashed line"
    rarest = min(system.having, default=1.0)
    rare = (
        ""
        if rarest == 1
        else f" View {system.having.index(rarest) + 1} is in {percent(rarest)} of the passages."
    )
    having = {"of the passages": system.having} if system.having else {}
    return draw(
        f"alone-{system.position}",
        f"{metric_names.short(metric)} of each view alone, {system.name}",
        f"One bar per view. View {best} is the best with {percent(value)}{whole}.{rare}",
        paint,
        ["view", *having, *(metric_names.short(name) for name in system.alone)],
        [
            [str(v + 1), *(percent(shares[v]) for shares in (*having.values(), *system.alone.values()))]
            for v in range(len(values))
        ],
    )


def heat_map(contents: Contents, system: System, kind: Literal["attention", "cosine"]) -> Chart | None:
    """Returns the heat map of means between views i (down) and j (across), on one colour scale for all systems."""
    values: np.ndarray | None = getattr(system, kind)
    if values is None:
        return None
    low, high = _scale(contents.systems, kind)
    view_count = len(values)
    scaled = np.clip((np.nan_to_num(values, nan=low) - low) / ((high - low) or 1), 0, 1)
    image = np.zeros((view_count, view_count, 4))
    image[..., :3], image[..., 3] = np.array(HEAT) / 255, DEEPEST * scaled

    def paint(axes: Axes) -> None:
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.imshow(image, interpolation="none", extent=(-0.5, view_count - 0.5, view_count - 0.5, -0.5))
        for (i, j), value in np.ndenumerate(values):
            if view_count <= WRITTEN and not np.isnan(value):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center_baseline", fontsize=9)
        every = -(-view_count // 16)
        ticks = range(0, view_count, every)
        axes.set_xticks(ticks, [str(view + 1) for view in ticks])
        axes.set_yticks(ticks, [str(view + 1) for view in ticks])
        axes.set_xlabel("view j")
        axes.set_ylabel("view i")

    shown = min(view_count, 16)
    pairs = values[~np.eye(view_count, dtype=bool)]
    present = pairs[~np.isnan(pairs)]
    said = (
        f"Between two views they are {present.min():.2f} to {present.max():.2f}."
        if len(present)
        else "No two views."
    )
    return draw(
        f"{kind}-{system.position}",
        f"{'Attention divergence' if kind == 'attention' else 'Cosine between views'}, {system.name}",
        f"A square of {view_count} by {view_count} values. {said}",
        paint,
        ["view", *(str(view + 1) for view in range(shown))],
        [[str(i + 1), *("" if np.isnan(v) else f"{v:.3f}" for v in values[i, :shown])] for i in range(shown)],
        TALL,
    )


def views_per_passage(contents: Contents, system: System) -> Chart | None:
    """Returns the chart of the number of passages per number of views; None where all have one view."""
    counts = system.view_counts
    if not counts or set(counts) <= {1}:
        return None
    look, total = Look.of(system.position, contents.base), sum(counts.values())
    mean = sum(views * count for views, count in counts.items()) / total

    def paint(axes: Axes) -> None:
        axes.bar(list(counts), [count / total for count in counts.values()], 0.8, color=look.stand_in)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("views")
        if len(counts) == 1:
            axes.set_xticks(list(counts))
            axes.set_xlim(next(iter(counts)) - 3, next(iter(counts)) + 3)
        percent_axis(axes)

    return draw(
        f"views-{system.position}",
        f"Views per passage, {system.name}",
        f"One bar per number of views, in per cent of {counted(total, 'passage')}; {mean:.1f} on average.",
        paint,
        ["views", "passages", "share"],
        [[str(views), f"{count:,}", percent(count / total)] for views, count in counts.items()],
    )


def most_of(values: Sequence[float]) -> tuple[int, float]:
    """Returns the view with the highest of these values, counted from 1, and that value."""
    most = int(np.argmax(values))
    return most + 1, values[most]


def _views_below(axes: Axes, view_count: int) -> None:
    every = -(-view_count // 16)
    axes.set_xticks(range(0, view_count, every), [str(view + 1) for view in range(0, view_count, every)])
    axes.set_xlabel("view")


def percent_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0, symbol=" %"))


def widest(systems: Sequence[System]) -> float:
    """Returns the end of an axis that all systems' shares of wins fit on."""
    shares: list[Mapping[str, list[float]]] = [system.usage for system in systems]
    return 1.08 * max(
        (share for usage in shares for values in usage.values() for share in values), default=1.0
    )


def _scale(systems: Sequence[System], kind: str) -> tuple[float, float]:
    """The values of the palest and the deepest colour, over all systems' heat maps."""
    every = [values for system in systems if (values := getattr(system, kind)) is not None]
    between = np.concatenate([values[~np.eye(len(values), dtype=bool)] for values in every])
    between = between[~np.isnan(between)]
    if kind == "cosine":
        return (float(min(0.0, between.min())) if len(between) else 0.0), 1.0
    return 0.0, float(between.max()) if len(between) else 1.0
