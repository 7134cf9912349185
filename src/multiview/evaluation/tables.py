"""Metrics of several systems as tables: one row per system, one column per metric."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

import pyarrow as pa

from multiview import metric_names, names
from multiview.artifacts.record import Artifact, load_record
from multiview.config import JsonObject, PaperFigures
from multiview.data.questions import GENERATED
from multiview.errors import InputError, counted, nearest
from multiview.evaluation.files import question_ids
from multiview.evaluation.significance import SeedsFigure

Metrics = Mapping[str, Mapping[str, float]]
"""System to metric to value."""


class Significance(TypedDict):
    """The content of `significance.json`: how the systems were tested against the baseline, and the figures."""

    baseline: str
    test: str
    systems: dict[str, dict[str, JsonObject]]
    """System to metric to the fields of its `significance.Figure`; empty for means over seeds."""
    interval: NotRequired[str]
    confidence: NotRequired[float]
    resamples: NotRequired[int]
    seed: NotRequired[int]


LEVEL = 0.05
"""Corrected p-values below this level are marked (CAMVR Table 6)."""

MARK = "†"
SEEDS_MARK = "*"
"""The mark of CAMVR Table 6."""


def escaped(text: str) -> str:
    """Returns a text as Markdown that shows it: nothing in it is markup, an image, or the end of a table's cell."""
    return re.sub(r"[\\`*\[\]<>|]", r"\\\g<0>", " ".join(text.split()))


def markdown_table(
    metrics: Metrics,
    marked: Collection[tuple[str, str]] = (),
    paper: Mapping[str, PaperFigures] | None = None,
) -> str:
    """A Markdown table in per cent, its columns ordered by name and k, with the figures of papers in columns of their
    own. The best value of each metric is bold if another row's differs; the (system, metric) pairs in `marked` have a mark."""
    columns, best = metric_columns(metrics), best_values(metrics)

    def cell(system: str, name: str) -> str:
        if (value := metrics[system].get(name)) is None:
            return ""
        text = f"{100 * value:.1f}"
        return (f"**{text}**" if value == best.get(name) else text) + (
            MARK if (system, name) in marked else ""
        )

    return _markdown(columns, {row: [cell(row, name) for name in columns] for row in metrics}, paper)


def seeds_table(
    figures: Mapping[str, Mapping[str, SeedsFigure]],
    baseline: str,
    paper: Mapping[str, PaperFigures] | None = None,
) -> str:
    """Means over seeds ± standard deviations in per cent, as `markdown_table`, with the asterisks of CAMVR Table 6."""
    metrics = metric_columns(figures)

    def cell(figure: SeedsFigure | None) -> str:
        if figure is None:
            return ""
        spread = "" if figure.deviation is None else f" ± {100 * figure.deviation:.1f}"
        differs = figure.corrected_p is not None and figure.corrected_p < LEVEL
        return f"{100 * figure.value:.1f}{spread}{SEEDS_MARK if differs else ''}"

    cells = {row: [cell(by_metric.get(name)) for name in metrics] for row, by_metric in figures.items()}
    tested = any(figure.p is not None for by_metric in figures.values() for figure in by_metric.values())
    return f"{_markdown(metrics, cells, paper)}\n{seeds_legend(tested, baseline)}\n"


def seeds_legend(tested: bool, baseline: str) -> str:
    """One sentence that says what the figures are and how they were tested, if any was."""
    test = f"{SEEDS_MARK} differs from {baseline}, p < {LEVEL}: Welch's t-test over seeds, Holm's correction over the rows"
    if not tested:
        test = f"nothing is tested against {baseline}, which takes several seeds that differ"
    return f"mean ± standard deviation over seeds, per cent; {test}"


def _markdown(
    metrics: Sequence[str], cells: Mapping[str, list[str]], paper: Mapping[str, PaperFigures] | None
) -> str:
    """A table of the rows' `cells`, one per metric, right-aligned, and of the papers' figures if a row has any."""
    columns, others = paper_columns(cells, paper or {})
    rows = [["system", *map(metric_names.short, metrics), *columns]]
    rows += [[row, *values, *others[row]] for row, values in cells.items()]
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    figures = [[f"{cell:>{width}} |" for cell, width in zip(row[1:], widths, strict=True)] for row in rows]
    lines = [" ".join([f"| {row[0]:{first}} |", *cells]) for row, cells in zip(rows, figures, strict=True)]
    rule = "|".join(["", "-" * (first + 2), *("-" * (width + 1) + ":" for width in widths), ""])
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def arrow_markdown(table: pa.Table) -> str:
    """An Arrow table as Markdown: text left-aligned, numbers right-aligned, fractions with three digits, null empty."""

    def cell(value: object) -> str:
        return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)

    columns = [map(cell, column.to_pylist()) for column in table.columns]
    rules = ["---" if pa.types.is_string(field.type) else "---:" for field in table.schema]
    lines = [table.column_names, rules, *zip(*columns, strict=True)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paper_columns(
    rows: Iterable[str], paper: Mapping[str, PaperFigures]
) -> tuple[list[str], dict[str, list[str]]]:
    """The heads of the columns with the papers' figures and their source, and the cells of these columns per row.

    >>> mvr = PaperFigures(source="MVR Table 2, SQuAD dev", figures={"accuracy_at_5": 75.5})
    >>> paper_columns(["mvr-8", "bm25"], {"mvr-8": mvr})
    (["paper's acc@5", 'paper'], {'mvr-8': ['75.5', 'MVR Table 2, SQuAD dev'], 'bm25': ['', '']})
    """
    rows = list(rows)
    cited = {row: paper[row] for row in rows if row in paper}
    metrics = metric_columns({row: found.figures for row, found in cited.items()})
    heads = [*(f"paper's {metric_names.short(name)}" for name in metrics), "paper"] if cited else []
    cells = {row: [""] * len(heads) for row in rows}
    for row, found in cited.items():
        figures = [f"{found.figures[name]:.1f}" if name in found.figures else "" for name in metrics]
        cells[row] = [*figures, found.source]
    return heads, cells


def metric_columns(metrics: Mapping[str, Mapping[str, object]]) -> list[str]:
    """All metrics that at least one system has, ordered by name and k."""

    def name_and_k(name: str) -> tuple[str, int]:
        stem, _, k = name.rpartition("_")
        return (stem, int(k)) if k.isdigit() else (name, 0)

    return sorted({name for values in metrics.values() for name in values}, key=name_and_k)


def best_values(metrics: Metrics) -> dict[str, float]:
    """The highest value of each metric in which another row differs."""
    columns = {
        name: {row[name] for row in metrics.values() if name in row} for name in metric_columns(metrics)
    }
    return {name: max(values) for name, values in columns.items() if len(values) > 1}


def baseline_of(chosen: str | None, rows: Sequence[str]) -> str:
    """The row that the others are tested against: `chosen`, or the first. Raises InputError if it is not in `rows`."""
    if chosen is not None and chosen not in rows:
        raise InputError(f"comparison.baseline: {chosen} is no row{nearest(chosen, rows)}")
    return chosen or rows[0]


def marked_of(significance: Significance) -> set[tuple[str, str]]:
    """The (system, metric) pairs of `significance.json` that differ significantly from the baseline."""
    return {
        (system, name)
        for system, figures in significance["systems"].items()
        for name, figure in figures.items()
        if (p := figure["corrected_p"]) is not None and p < LEVEL
    }


PAPER_LEGEND = (
    "paper's: what the paper reports for the row, on its own corpus and base model; figures of different papers or "
    "tables need not be comparable"
)
"""The sentence about the columns of the papers."""


UNIT = "per cent; acc: an answer among the top k passages, gold: the gold passage"
"""The sentence about the figures of every table."""


def legend(significance: Significance) -> str:
    """One sentence that says what the mark means and how it was tested; empty where nothing was tested."""
    figures = [figure for by_metric in significance["systems"].values() for figure in by_metric.values()]
    if all(figure["p"] is None for figure in figures):
        return ""
    finding = f"{MARK} differs from" if marked_of(significance) else "no row differs from"
    return (
        f"{finding} {significance['baseline']}, p < {LEVEL}: paired randomisation test over the questions, "
        f"{significance.get('resamples', 0):,} resamples, Holm's correction over the rows"
    )


# --- figures that rest on generated questions ----------------------------------------------------


def count_generated(evaluation: Path) -> tuple[int, int]:
    """Returns the number of questions of an evaluation that were generated from the corpus, and of all of them."""
    qids = question_ids(evaluation)
    return sum(qid.startswith(GENERATED) for qid in qids), len(qids)


def asked_legend(generated: int, questions: int) -> str:
    """One sentence that says that questions were generated, and how many; empty if all questions are labelled."""
    if not generated:
        return ""
    some = counted(generated, "generated question")
    share = "generated questions" if generated == questions else f"{some} of {questions:,}"
    return (
        f"measured on {share}: each was made from a snippet of the corpus, which counts as its answer; figures on "
        "questions of people may differ, and order systems otherwise"
    )


def generated_training(evaluation: Artifact) -> str | None:
    """Returns the `questions.origin` of the generated questions that an evaluated model was trained on, else None."""
    model = evaluation.remembered_input(names.MODEL)
    questions = model.remembered_input("questions") if model and model.record.step == "train" else None
    return questions.record.facts.get(names.GENERATED) if questions else None


def trained_legend(evaluations: Mapping[str, str]) -> str:
    """One sentence that names the rows whose training questions were generated, by the addresses of their
    `evaluations`; empty where there are none. Training questions that are gone count as labelled."""
    rows = []
    for row, address in evaluations.items():
        with suppress(InputError):
            if origin := generated_training(load_record(address)):
                rows.append(f"{row} ({origin})")
    return f"training questions were generated from the corpus: {', '.join(rows)}" if rows else ""
