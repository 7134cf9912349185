"""A run's figures on the screen: a row per system, or, on a narrow terminal, each system's below its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from multiview import metric_names
from multiview.config import PaperFigures
from multiview.evaluation.tables import (
    MARK,
    SOURCE,
    Significance,
    best_values,
    legend,
    markdown_table,
    marked_of,
    metric_columns,
    paper_columns,
    paper_legend,
)
from multiview.terminal import Console

WIDEST = 10_000
"""More columns of text than any terminal has."""


def show_table(
    console: Console,
    metrics: Mapping[str, Mapping[str, float]],
    significance: Significance | None,
    paper: Mapping[str, PaperFigures] | None = None,
) -> None:
    """Prints the table and the meaning of its marks and columns; on a terminal with lines, elsewhere as Markdown. Where
    the terminal is too narrow for the table, each system has its figures below its name."""
    marked = marked_of(significance) if significance else ()
    table = as_table(metrics, marked, paper)
    # Rich would leave out the figures where the columns do not fit.
    width = console.measure(table, options=console.options.update_width(WIDEST)).maximum
    if not console.is_terminal:
        console.print(markdown_table(metrics, marked, paper), markup=False)
    else:
        if width <= console.width:
            console.print(table)
        else:
            for part in _below_names(metrics, marked, paper):
                console.print(part)
        meaning = "per cent; acc: an answer among the top k passages, gold: the gold passage"
        console.print(meaning, style="dim", soft_wrap=False)
    if significance and (marks := legend(significance)):
        console.print(marks, style="dim", markup=False, soft_wrap=not console.is_terminal)
    if paper:
        console.print(paper_legend(paper), style="dim", markup=False, soft_wrap=not console.is_terminal)
    if console.is_terminal or significance:
        console.print()


def as_table(
    metrics: Mapping[str, Mapping[str, float]],
    marked: Collection[tuple[str, str]] = (),
    paper: Mapping[str, PaperFigures] | None = None,
) -> Table:
    """Returns a row per system and a column per metric, in per cent: the best value of a column is bold, and the
    `marked` pairs of system and metric have a mark. The figures of papers are in columns behind them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    columns, best = metric_columns(metrics), best_values(metrics)
    wider = {name for _, name in marked}
    for name in columns:
        table.add_column(metric_names.short(name), justify="right")
    heads, papers = paper_columns(metrics, paper or {})
    for head in heads:
        table.add_column(head, justify="left" if head == SOURCE else "right", style="dim")
    for system, values in metrics.items():
        cells: list[Text | str] = []
        for name in columns:
            value = values.get(name)
            text = "" if value is None else f"{100 * value:.1f}"
            # rich strips the spaces at the end of a cell that it justifies; figures should stand below each other.
            end = MARK if (system, name) in marked else " " if name in wider else ""
            pad = " " * (max(len(metric_names.short(name)), len("100.0") + len(end)) - len(text) - len(end))
            style = "bold green" if value == best[name] else ""
            cells.append(Text.assemble(pad, (text, style), end, justify="left"))
        table.add_row(Text(system), *cells, *papers[system])
    return table


def _below_names(
    metrics: Mapping[str, Mapping[str, float]],
    marked: Collection[tuple[str, str]],
    paper: Mapping[str, PaperFigures] | None,
) -> Iterator[Text | Columns]:
    """Yields each system's name, and below it `acc@5 75.0†` and so on, as many side by side as a terminal is wide."""
    columns, best = metric_columns(metrics), best_values(metrics)
    heads, papers = paper_columns(metrics, paper or {})
    for system, values in metrics.items():
        figures = [
            Text.assemble(
                f"{metric_names.short(name)} ",
                (f"{100 * value:.1f}", "bold green" if value == best[name] else ""),
                MARK if (system, name) in marked else "",
            )
            for name in columns
            if (value := values.get(name)) is not None
        ]
        figures += [
            Text(f"{head} {cell}", "dim") for head, cell in zip(heads, papers[system], strict=True) if cell
        ]
        yield Text(system, "bold")
        yield Columns(figures, padding=(0, 2), equal=True)
        yield Text()
