"""The report's charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from multiview import names
from multiview.report.contents import Contents, System, Training
from multiview.report.drawing import INK, MUTED, PAPER, WIDTH, Chart, Look, draw

HEAT = (47, 111, 196)
"""Of heat maps, in sRGB: over light and dark alike, the more of it, the higher the value."""
DEEPEST = 0.62
"""How much of it the highest value has, so that figures stay legible on it."""
WRITTEN = 8
"""Up to so many views a heat map's figures are written on it."""
WIDE = (360, 250)
TALL = (WIDTH, 318)
CURVES = {"loss": "Training loss", "temperature": "Temperature", "fallback_share": "Share of fallbacks"}
"""Metrics of a training with a chart of their own."""
SHARES = ("fallback_share",)
NAMED_BAND = 0.07
"""A band of the views' wins is named where it is as wide as this at the end."""


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None or np.isnan(value) else f"{100 * value:.{digits}f} %"


def metric_curves(contents: Contents, stem: str, title: str) -> Chart | None:
    """Metrics `<stem>_at_k` of all systems over k; nothing with fewer than two k."""
    found = {name for system in contents.systems for name in system.metrics}
    at = sorted(int(name.rpartition("_at_")[2]) for name in found if name.startswith(f"{stem}_at_"))
    drawn = [s for s in contents.systems if any(f"{stem}_at_{k}" in s.metrics for k in at)]
    if len(at) < 2:
        return None

    def paint(axes: Axes) -> None:
        for system in drawn:
            look = Look.of(system.place, contents.base)
            values = [system.metrics.get(f"{stem}_at_{k}", np.nan) for k in at]
            axes.plot(
                range(len(at)), values, look.line, color=look.stand_in, marker=look.marker,
                markeredgecolor=PAPER, zorder=2.5 if look.colour else 2,
            )  # fmt: skip
        axes.set_xticks(range(len(at)), [str(k) for k in at])
        axes.set_xlabel("first k passages")
        _percent(axes)
        axes.set_ylim(min(0.8, axes.get_ylim()[0]), 1.03)
        axes.margins(x=0.06)

    rows = [[system.name, *(percent(system.metrics.get(f"{stem}_at_{k}")) for k in at)] for system in drawn]
    description = f"A line a system over k = {', '.join(map(str, at))}, in per cent of the questions."
    return draw(stem, title, description, paint, ["system", *(f"k = {k}" for k in at)], rows, WIDE)


def view_shares(contents: Contents, system: System, top: float) -> Chart | None:
    """Share of questions whose best passage, and gold passage, each view wins; `top` is the axis's end."""
    if not system.usage:
        return None
    look, views = Look.of(system.place, contents.base), len(next(iter(system.usage.values())))
    series = [
        ("of the first passages", system.usage.get(names.SHARE_OF_TOP_1), 1.0),
        ("of the gold passages", system.usage.get(names.SHARE_OF_GOLD), 0.4),
    ]
    there = [(label, shares, alpha) for label, shares, alpha in series if shares is not None]

    def paint(axes: Axes) -> None:
        width = 0.76 / len(there)
        for number, (label, shares, alpha) in enumerate(there):
            place = np.arange(views) + (number - (len(there) - 1) / 2) * width
            axes.bar(place, shares, width, color=look.stand_in, alpha=alpha, label=label)
        axes.axhline(1 / views, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        _views_below(axes, views)
        _percent(axes)
        axes.set_ylim(0, top)
        axes.legend(frameon=False, fontsize=10, ncols=2, loc="lower left", bbox_to_anchor=(-0.03, 1.0),
                    borderpad=0, handlelength=1, handletextpad=0.5, columnspacing=1.2)  # fmt: skip

    most, share = _most(there[0][1])
    return draw(
        f"shares-{system.place}",
        f"Which views win, {system.name}",
        f"Bars, two a view. View {most} wins {percent(share)} {there[0][0]}; the dashed line is an even share, "
        f"{percent(1 / views)}.",
        paint,
        ["view", *(label for label, _, _ in there)],
        [[str(v + 1), *(percent(shares[v]) for _, shares, _ in there)] for v in range(views)],
    )


def alone(contents: Contents, system: System) -> Chart | None:
    """Accuracy of each view alone beside that of all together, at the smallest k above 1."""
    if not system.alone:
        return None
    metric = next((name for name in system.alone if not name.endswith("_at_1")), next(iter(system.alone)))
    values, together = system.alone[metric], system.metrics.get(metric)
    look = Look.of(system.place, contents.base)

    def paint(axes: Axes) -> None:
        axes.bar(range(len(values)), values, 0.7, color=look.stand_in)
        if together is not None:
            axes.axhline(together, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        _views_below(axes, len(values))
        _percent(axes)
        axes.set_ylim(0, 1.02)

    best, value = _most(values)
    whole = "" if together is None else f"; all together reach {percent(together)}, the dashed line"
    return draw(
        f"alone-{system.place}",
        f"{names.short(metric)} of each view alone, {system.name}",
        f"A bar a view. View {best} is the best with {percent(value)}{whole}.",
        paint,
        ["view", *(names.short(name) for name in system.alone)],
        [[str(v + 1), *(percent(of[v]) for of in system.alone.values())] for v in range(len(values))],
    )


def heat_map(contents: Contents, system: System, kind: Literal["attention", "cosine"]) -> Chart | None:
    """Means between views i (down) and j (across), in the same colours for all systems."""
    values: np.ndarray | None = getattr(system, kind)
    if values is None:
        return None
    low, high = _scale(contents.systems, kind)
    views = len(values)
    scaled = np.clip((np.nan_to_num(values, nan=low) - low) / ((high - low) or 1), 0, 1)
    image = np.zeros((views, views, 4))
    image[..., :3], image[..., 3] = np.array(HEAT) / 255, DEEPEST * scaled

    def paint(axes: Axes) -> None:
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.imshow(image, interpolation="none", extent=(-0.5, views - 0.5, views - 0.5, -0.5))
        for (i, j), value in np.ndenumerate(values):
            if views <= WRITTEN and not np.isnan(value):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center_baseline", fontsize=9)
        every = -(-views // 16)
        ticks = range(0, views, every)
        axes.set_xticks(ticks, [str(view + 1) for view in ticks])
        axes.set_yticks(ticks, [str(view + 1) for view in ticks])
        axes.set_xlabel("view j")
        axes.set_ylabel("view i")

    shown = min(views, 16)
    pairs = values[~np.eye(views, dtype=bool)]
    there = pairs[~np.isnan(pairs)]
    said = (
        f"Between two views they are {there.min():.2f} to {there.max():.2f}."
        if len(there)
        else "No two views."
    )
    return draw(
        f"{kind}-{system.place}",
        f"{'Attention divergence' if kind == 'attention' else 'Cosine between views'}, {system.name}",
        f"A square of {views} by {views} values. {said}",
        paint,
        ["view", *(str(view + 1) for view in range(shown))],
        [[str(i + 1), *("" if np.isnan(v) else f"{v:.3f}" for v in values[i, :shown])] for i in range(shown)],
        TALL,
    )


def views_a_passage(contents: Contents, system: System) -> Chart | None:
    """How many passages have how many views; nothing where all have one."""
    counts = system.views
    if not counts or set(counts) <= {1}:
        return None
    look, total = Look.of(system.place, contents.base), sum(counts.values())
    mean = sum(views * count for views, count in counts.items()) / total

    def paint(axes: Axes) -> None:
        axes.bar(list(counts), [count / total for count in counts.values()], 0.8, color=look.stand_in)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("views")
        if len(counts) == 1:
            axes.set_xticks(list(counts))
            axes.set_xlim(next(iter(counts)) - 3, next(iter(counts)) + 3)
        _percent(axes)

    return draw(
        f"views-{system.place}",
        f"Views a passage, {system.name}",
        f"A bar a number of views, in per cent of {total:,} passages; {mean:.1f} on average.",
        paint,
        ["views", "passages", "share"],
        [[str(views), f"{count:,}", percent(count / total)] for views, count in counts.items()],
    )


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
            _percent(axes)
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
        _percent(axes)
        axes.set_ylim(0, 1)

    _, last = rounds[-1]
    most, share = _most([list(curve.values())[-1] for curve in last.wins])
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


def _most(values: Sequence[float]) -> tuple[int, float]:
    """Which view, from 1, has the highest of these values, and that."""
    most = int(np.argmax(values))
    return most + 1, values[most]


def _views_below(axes: Axes, views: int) -> None:
    every = -(-views // 16)
    axes.set_xticks(range(0, views, every), [str(view + 1) for view in range(0, views, every)])
    axes.set_xlabel("view")


def _percent(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0, symbol=" %"))


def widest(systems: Sequence[System]) -> float:
    """The end of an axis on which all systems' shares of wins fit."""
    shares: list[Mapping[str, list[float]]] = [system.usage for system in systems]
    return 1.08 * max((share for of in shares for values in of.values() for share in values), default=1.0)


def _scale(systems: Sequence[System], kind: str) -> tuple[float, float]:
    """What the palest and the deepest colour of all systems' heat maps stand for."""
    every = [values for system in systems if (values := getattr(system, kind)) is not None]
    between = np.concatenate([values[~np.eye(len(values), dtype=bool)] for values in every])
    between = between[~np.isnan(between)]
    if kind == "cosine":
        return (float(min(0.0, between.min())) if len(between) else 0.0), 1.0
    return 0.0, float(between.max()) if len(between) else 1.0
