"""Metrics of several systems as tables: a row a system, a column a metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multiview import metric_names
from multiview.errors import InputError, nearest

if TYPE_CHECKING:  # scipy takes a second, and a table that is shown needs none of it
    from multiview.evaluation.significance import SeedsFigure

Metrics = Mapping[str, Mapping[str, float]]
"""System to metric to value."""

SIGNIFICANCE_FILE = "significance.json"
"""Of a comparison; what the marks come from."""

ANALYSES_FILE = "analyses.json"
SEEDS_FILE = "seeds.json"
SETTINGS_FILE = "settings.json"
WON_FILE = "won.json"
"""Other files of a comparison, which the report reads too."""

LEVEL = 0.05
"""A corrected p-value below it makes a mark (CAMVR Table 6)."""

MARK = "†"
SEEDS_MARK = "*"
"""CAMVR Table 6's."""


def markdown_table(metrics: Metrics, marked: Collection[tuple[str, str]] = ()) -> str:
    """In per cent, by name and k; the best of each metric is bold, and those of `marked`, pairs of system
    and metric, have a mark."""
    names, best = metric_columns(metrics), best_values(metrics)
    cells = {
        system: [
            _cell(values[name], values[name] == best[name], (system, name) in marked)
            if name in values
            else ""
            for name in names
        ]
        for system, values in metrics.items()
    }
    return _markdown(names, cells)


def _cell(value: float, best: bool, marked: bool) -> str:
    text = f"{100 * value:.1f}"
    return (f"**{text}**" if best else text) + (MARK if marked else "")


def _markdown(columns: list[str], rows: Mapping[str, list[str]]) -> str:
    columns = [metric_names.short(name) for name in columns]
    width = max(len("system"), *(len(system) for system in rows))
    widths = [max(len(name), *(len(cells[i]) for cells in rows.values())) for i, name in enumerate(columns)]
    head = " | ".join(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True))
    lines = [
        f"| {'system':<{width}} | {head} |",
        f"|{'-' * (width + 2)}|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|",
    ]
    for system, cells in rows.items():
        row = " | ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"| {system:<{width}} | {row} |")
    return "\n".join(lines) + "\n"


def metric_columns(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The metrics that any system has, by name and k."""
    return sorted({name for values in metrics.values() for name in values}, key=_name_and_k)


def best_values(metrics: Metrics) -> dict[str, float]:
    """The highest value of each metric."""
    return {
        name: max(values[name] for values in metrics.values() if name in values)
        for name in metric_columns(metrics)
    }


def _name_and_k(name: str) -> tuple[str, int]:
    """`accuracy_at_20` as (accuracy_at, 20); a name without k as it is."""
    stem, _, k = name.rpartition("_")
    return (stem, int(k)) if k.isdigit() else (name, 0)


def baseline_of(named: str | None, rows: Sequence[str]) -> str:
    """The row that the others are tested against: `comparison.baseline`, or the first. Raises InputError."""
    if named is not None and named not in rows:
        raise InputError(f"comparison.baseline: {named} is no row{nearest(named, rows)}")
    return named or rows[0]


def marked_of(significance: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The (system, metric) pairs of `significance.json` that differ from the baseline's."""
    return {
        (system, name)
        for system, figures in significance["systems"].items()
        for name, figure in figures.items()
        if (p := figure["corrected_p"]) is not None and p < LEVEL
    }


def legend(significance: Mapping[str, Any]) -> str:
    """One sentence that says what the mark means and how it was tested; empty where nothing was."""
    figures = [f for of in significance["systems"].values() for f in of.values()]
    if all(figure["p"] is None for figure in figures):
        return ""
    found = f"{MARK} differs from" if marked_of(significance) else "no row differs from"
    return (
        f"{found} {significance['baseline']}, p < {LEVEL}: paired randomisation test over the questions, "
        f"{significance['resamples']:,} resamples, Holm's correction over the rows"
    )


def seeds_table(figures: Mapping[str, Mapping[str, SeedsFigure]], baseline: str) -> str:
    """Means over seeds ± standard deviations in per cent, as Markdown, with the asterisks of CAMVR Table 6."""
    names = metric_columns(figures)
    rows = {
        system: [_seeds_cell(of[name]) if name in of else "" for name in names]
        for system, of in figures.items()
    }
    return (
        f"{_markdown(names, rows)}\nmean ± standard deviation over seeds, per cent; {SEEDS_MARK} differs from "
        f"{baseline}, p < {LEVEL}: Welch's t-test over seeds, Holm's correction over the rows\n"
    )


def _seeds_cell(figure: SeedsFigure) -> str:
    spread = "" if figure.deviation is None else f" ± {100 * figure.deviation:.1f}"
    differs = figure.corrected_p is not None and figure.corrected_p < LEVEL
    return f"{100 * figure.value:.1f}{spread}{SEEDS_MARK if differs else ''}"
