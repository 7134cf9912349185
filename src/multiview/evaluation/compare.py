"""The comparison of several evaluations in one table, with tests of their differences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names, names
from multiview.artifacts.record import file_sha256
from multiview.config import Comparison
from multiview.errors import InputError
from multiview.evaluation.analyses.tables import markdown
from multiview.evaluation.costs import check_alike, cost_of, differing_settings, figures_of
from multiview.evaluation.evaluate import METRICS_FILE, QRELS_FILE, QUESTIONS_FILE, ranks_of, values_of
from multiview.evaluation.significance import CONFIDENCE, paired_figures, seeds_figures
from multiview.evaluation.tables import (
    ANALYSES_FILE,
    SEEDS_FILE,
    SETTINGS_FILE,
    SIGNIFICANCE_FILE,
    WON_FILE,
    Metrics,
    baseline_of,
    legend,
    markdown_table,
    marked_of,
    seeds_table,
)
from multiview.steps.context import StepContext
from multiview.steps.events import Events

TABLE_FILE = "table.md"
SEEDS_TABLE_FILE = "seeds.md"
ANALYSES_TABLE_FILE = "analyses.md"


def compare(context: StepContext) -> None:
    """Step: table the metrics of several systems and test how they differ from the baseline's.

    Input `evaluations`, in the order of `settings.comparison.rows`; output `comparison`: `metrics.json`
    (system to metric to value), `significance.json` (system to metric to a `PairedFigure`, and how it was tested)
    and `table.md`; with `comparison.seeds_of` also `seeds.json` (system to metric to a `SeedsFigure`) and `seeds.md`;
    `analyses.json` and `analyses.md` have the metrics of the systems' analyses side by side, `settings.json` (system
    to setting to value) the settings that differ, and `won.json` (see `_won`) the questions won and lost. Costs, which
    differ from run to run, are metrics alone. Raises InputError unless all were evaluated on the same questions
    with the same gold passages, over the same corpus.
    """
    systems = context.settings.comparison.rows
    folders_of_evaluations = [staged.path for staged in context.list_input("evaluations")]
    addresses = {
        system: staged.address
        for system, staged in zip(systems, context.list_input("evaluations"), strict=True)
        if staged.address
    }
    if addresses:
        check_alike(addresses)
    if len({_questions(folder) for folder in folders_of_evaluations}) > 1:
        raise InputError("the systems were not evaluated on the same questions: run the comparison whole")
    metrics = {
        system: json.loads((folder / METRICS_FILE).read_text())
        for system, folder in zip(systems, folders_of_evaluations, strict=True)
    }
    values = {
        system: values_of(folder, metrics[system])
        for system, folder in zip(systems, folders_of_evaluations, strict=True)
    }
    folder = context.output("comparison")
    if of := context.settings.comparison.seeds_of:
        significance, first = _seeds(metrics, of, context.settings.comparison.baseline, folder)
    else:
        significance, first = _significance(values, context.settings.comparison, context.events), ""
    table = markdown_table(metrics, marked_of(significance))
    folders = dict(zip(systems, folders_of_evaluations, strict=True))
    _analyses(folders, folder)
    if significance["baseline"] in folders:
        _write(folder / WON_FILE, _won(folders, significance["baseline"]))
    _write(folder / SETTINGS_FILE, differing_settings(addresses))
    (folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1) + "\n")
    (folder / SIGNIFICANCE_FILE).write_text(json.dumps(significance, indent=1) + "\n")
    (folder / TABLE_FILE).write_text(
        "\n".join(filter(None, (first, table, legend(significance)))).rstrip() + "\n"
    )
    for system, figures in metrics.items():
        for name, value in figures.items():
            context.events.metric(metric_names.of_group(system, name), value)
    for system, address in addresses.items():
        for name, value in figures_of(cost_of(address)).items():
            context.events.metric(metric_names.of_group(system, name), value)
    context.events.fact("baseline", significance["baseline"])


def _won(folders: Mapping[str, Path], baseline: str) -> dict[str, dict[str, int]]:
    """System to `won`, `lost` and `tied` questions: where its first answer stands above, below or with the baseline's.

    For a question without answers the first gold passage counts. One that was not retrieved stands below all.
    """
    ranks = {system: ranks_of(folder) for system, folder in folders.items()}
    return {
        system: {
            "won": int((of < ranks[baseline]).sum()),
            "lost": int((of > ranks[baseline]).sum()),
            "tied": int((of == ranks[baseline]).sum()),
        }
        for system, of in ranks.items()
        if system != baseline
    }


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _seeds(
    metrics: Metrics, of: Mapping[str, str], baseline: str | None, folder: Path
) -> tuple[dict[str, Any], str]:
    """Systems by their means over seeds, tested against the baseline's; what significance.json says, and the table."""
    values: dict[str, dict[str, list[float]]] = {}
    for row, figures in metrics.items():
        for name, value in figures.items():
            values.setdefault(of.get(row, row), {}).setdefault(name, []).append(value)
    first = baseline_of(baseline, list(values))
    figures = seeds_figures(values, first)
    text = json.dumps({s: {n: asdict(f) for n, f in named.items()} for s, named in figures.items()}, indent=1)
    (folder / SEEDS_FILE).write_text(text + "\n")
    table = seeds_table(figures, first)
    (folder / SEEDS_TABLE_FILE).write_text(table)
    return {"baseline": first, "test": "Welch's t-test over seeds: see seeds.json", "systems": {}}, table


def _analyses(folders: Mapping[str, Path], output: Path) -> None:
    """What the evaluations' analyses found, a metric a row and a system a column."""
    files = {system: folder / names.ANALYSES / METRICS_FILE for system, folder in folders.items()}
    found = {system: json.loads(file.read_text()) for system, file in files.items() if file.exists()}
    if not found:
        return
    rows = list(dict.fromkeys(name for metrics in found.values() for name in metrics))
    columns = {system: [metrics.get(name) for name in rows] for system, metrics in found.items()}
    (output / ANALYSES_FILE).write_text(json.dumps(found, indent=1) + "\n")
    (output / ANALYSES_TABLE_FILE).write_text(markdown(pa.table({"metric": rows, **columns})))


def _significance(
    values: dict[str, dict[str, np.ndarray]], comparison: Comparison, events: Events
) -> dict[str, Any]:
    baseline = baseline_of(comparison.baseline, list(values))
    figures = paired_figures(
        values,
        baseline,
        comparison.resamples,
        comparison.seed,
        lambda done, total: events.progress(done, total, "tests"),
    )
    return {
        "baseline": baseline,
        "test": "paired randomisation over questions, two-sided; corrected_p by Holm over the systems",
        "interval": "percentile bootstrap over questions",
        "confidence": CONFIDENCE,
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "systems": {
            system: {name: asdict(figure) for name, figure in of.items()} for system, of in figures.items()
        },
    }


def _questions(folder: Path) -> tuple[str, tuple[str, ...]]:
    """What must be the same of all systems: the gold passages, and the questions with and without."""
    qids = pq.read_table(folder / QUESTIONS_FILE, columns=["qid"]).column("qid").to_pylist()
    return file_sha256(folder / QRELS_FILE), tuple(qids)
