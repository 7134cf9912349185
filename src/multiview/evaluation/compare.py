"""The comparison of several evaluations in one table, with tests of their differences."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from multiview import metric_names, names
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Comparison
from multiview.evaluation import files, tables
from multiview.evaluation.costs import check_alike, cost_of, differing_settings
from multiview.evaluation.evaluate import comparable_ranks, values_of
from multiview.evaluation.significance import CONFIDENCE, RESAMPLES, paired_figures, seeds_figures
from multiview.evaluation.tables import Metrics, Significance
from multiview.steps.context import StepContext
from multiview.steps.events import Events


def compare(context: StepContext) -> None:
    """Step: tabulate the metrics of several systems and test their differences from the baseline.

    Input: `evaluations`, in the order of `settings.comparison.rows`. Files of the output `comparison`:

    - `metrics.json`: system to metric to value.
    - `significance.json`: system to metric to a `PairedFigure`, and how the differences were tested.
    - `table.md`: the table of metrics.
    - `seeds.json` (system to metric to a `SeedsFigure`) and `seeds.md`, with `comparison.seeds_of`.
    - `paper.json`: row to its `PaperFigures`, with `comparison.paper`.
    - `analyses.json` and `analyses.md`: the metrics of the systems' analyses side by side.
    - `settings.json`: system to setting to value, for the settings that differ.
    - `won.json`: the questions won and lost (see `_won`).

    Costs differ from run to run: they are metrics, in no file. Raises InputError as `check_alike` does.
    """
    comparison, output = context.settings.comparison, context.output("comparison")
    evaluations = dict(zip(comparison.rows, context.list_input("evaluations"), strict=True))
    folders = {system: staged.path for system, staged in evaluations.items()}
    addresses = {system: staged.address for system, staged in evaluations.items() if staged.address}
    if addresses:
        check_alike(addresses)
    metrics = {system: _metrics_of(folder) for system, folder in folders.items()}
    if comparison.seeds_of:
        significance, seeds = _seeds(metrics, comparison, output)
    else:
        values = {system: values_of(folder, metrics[system]) for system, folder in folders.items()}
        significance, seeds = _significance(values, comparison, context.events), ""
    legends = (
        tables.legend(significance),
        tables.UNIT,
        tables.PAPER_LEGEND if comparison.paper else "",
        tables.asked_legend(*tables.count_generated(folders[comparison.rows[0]])),
        tables.trained_legend(addresses),
    )
    table = tables.markdown_table(metrics, tables.marked_of(significance), comparison.paper)
    text = "\n".join(filter(None, (seeds, table, *legends))).rstrip()
    (output / files.TABLE_FILE).write_text(f"{text}\n", encoding="utf-8")
    files.write_json(output / files.METRICS_FILE, metrics)
    files.write_json(output / files.SIGNIFICANCE_FILE, significance)
    files.write_json(output / files.SETTINGS_FILE, differing_settings(addresses))
    if comparison.paper:
        paper = {row: figures.model_dump() for row, figures in comparison.paper.items()}
        files.write_json(output / files.PAPER_FILE, paper)
    if significance["baseline"] in folders:
        files.write_json(output / files.WON_FILE, _won(evaluations, significance["baseline"]))
    _write_analyses(folders, output)
    costs = {system: cost_of(address) for system, address in addresses.items()}
    for figures in (metrics, costs):
        for system, by_name in figures.items():
            for name, value in by_name.items():
                context.events.metric(metric_names.of_group(system, name), value)
    context.events.fact(baseline=significance["baseline"])


def _won(evaluations: Mapping[str, LocalArtifact], baseline: str) -> dict[str, dict[str, int]]:
    """Numbers of questions `won`, `lost` and `tied` per system, against the baseline, by their `comparable_ranks`."""
    ranks = dict(zip(evaluations, comparable_ranks([*evaluations.values()]), strict=True))
    base = ranks.pop(baseline)
    outcomes = {"won": np.less, "lost": np.greater, "tied": np.equal}
    return {
        system: {outcome: int(compared(mine, base).sum()) for outcome, compared in outcomes.items()}
        for system, mine in ranks.items()
    }


def _metrics_of(folder: Path) -> dict[str, float]:
    """The metrics of an evaluation. Means of equal values that were summed in another order are equal here."""
    return {
        name: round(value, 12)
        for name, value in json.loads((folder / files.METRICS_FILE).read_text()).items()
    }


def _seeds(metrics: Metrics, comparison: Comparison, folder: Path) -> tuple[Significance, str]:
    """Writes the means over seeds, tested against the baseline's; returns the tests' description, and the table."""
    values: dict[str, dict[str, list[float]]] = {}
    for row, figures in metrics.items():
        of_system = values.setdefault(comparison.seeds_of.get(row, row), {})
        for name, value in figures.items():
            of_system.setdefault(name, []).append(value)
    chosen = tables.baseline_of(comparison.baseline, list(values))
    figures = seeds_figures(values, chosen)
    files.write_json(folder / files.SEEDS_FILE, figures)
    table = tables.seeds_table(figures, chosen, comparison.paper)
    (folder / files.SEEDS_TABLE_FILE).write_text(table, encoding="utf-8")
    return {"baseline": chosen, "test": "Welch's t-test over seeds: see seeds.json", "systems": {}}, table


def _write_analyses(folders: Mapping[str, Path], output: Path) -> None:
    """Writes the metrics of the evaluations' analyses: one row per metric, one column per system."""
    paths = {system: folder / names.ANALYSES / files.METRICS_FILE for system, folder in folders.items()}
    analyses = {system: json.loads(file.read_text()) for system, file in paths.items() if file.exists()}
    if not analyses:
        return
    rows = list(dict.fromkeys(name for metrics in analyses.values() for name in metrics))
    columns = {system: [metrics.get(name) for name in rows] for system, metrics in analyses.items()}
    files.write_json(output / files.ANALYSES_FILE, analyses)
    (output / files.ANALYSES_TABLE_FILE).write_text(
        tables.arrow_markdown(pa.table({"metric": rows, **columns})), encoding="utf-8"
    )


def _significance(
    values: dict[str, dict[str, np.ndarray]], comparison: Comparison, events: Events
) -> Significance:
    baseline = tables.baseline_of(comparison.baseline, list(values))
    figures = paired_figures(
        values, baseline, RESAMPLES, comparison.seed, partial(events.progress, unit="tests")
    )
    return {
        "baseline": baseline,
        "test": "paired randomisation over questions, two-sided; corrected_p by Holm over the systems",
        "interval": "percentile bootstrap over questions",
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "seed": comparison.seed,
        "systems": {
            system: {name: asdict(figure) for name, figure in by_metric.items()}
            for system, by_metric in figures.items()
        },
    }
