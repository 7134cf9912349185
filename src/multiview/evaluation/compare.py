"""The comparison of several evaluations in one table, with tests of their differences."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from multiview.artifacts.record import file_sha256
from multiview.config import Comparison
from multiview.errors import InputError
from multiview.evaluation.evaluate import METRICS_FILE, QRELS_FILE, QUESTIONS_FILE
from multiview.evaluation.significance import CONFIDENCE, paired_figures
from multiview.evaluation.tables import (
    SIGNIFICANCE_FILE,
    baseline_of,
    legend,
    markdown_table,
    marked_of,
)

TABLE_FILE = "table.md"


def compare(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: table the metrics of several systems and test how they differ from the baseline's.

    Input `evaluations`, in the order of `settings.comparison.rows`; output `comparison`: `metrics.json`
    (system to metric to value), `significance.json` (system to metric to a `PairedFigure`, and how it was tested)
    and `table.md`.
    Raises InputError unless all were evaluated on the same questions with the same gold passages.
    """
    systems = settings.comparison.rows
    folders = [staged.path for staged in inputs["evaluations"]]
    if len({_questions(folder) for folder in folders}) > 1:
        raise InputError("the systems were not evaluated on the same questions: run the comparison whole")
    metrics = {
        system: json.loads((folder / METRICS_FILE).read_text())
        for system, folder in zip(systems, folders, strict=True)
    }
    values = {
        system: _values(folder, metrics[system]) for system, folder in zip(systems, folders, strict=True)
    }
    significance = _significance(values, settings.comparison, tell)
    table = markdown_table(metrics, marked_of(significance))
    folder = output["comparison"]
    (folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1) + "\n")
    (folder / SIGNIFICANCE_FILE).write_text(json.dumps(significance, indent=1) + "\n")
    (folder / TABLE_FILE).write_text("\n".join(filter(None, (table, legend(significance)))).rstrip() + "\n")
    for system, figures in metrics.items():
        for name, value in figures.items():
            tell.metric(f"{system}/{name}", value)
    tell.fact("baseline", significance["baseline"])


def _significance(
    values: dict[str, dict[str, np.ndarray]], comparison: Comparison, tell: Any
) -> dict[str, Any]:
    baseline = baseline_of(comparison.baseline, list(values))
    figures = paired_figures(
        values,
        baseline,
        comparison.resamples,
        comparison.seed,
        lambda done, total: tell.progress(done, total, "tests"),
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


def _values(folder: Path, metrics: Collection[str]) -> dict[str, np.ndarray]:
    """Of the metrics that have one value a question, those [q], nan where there is none."""
    present = pq.read_schema(folder / QUESTIONS_FILE).names
    table = pq.read_table(folder / QUESTIONS_FILE, columns=[name for name in metrics if name in present])
    return {
        name: table.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        for name in table.column_names
    }


def _questions(folder: Path) -> tuple[str, tuple[str, ...]]:
    """What must be the same of all systems: the gold passages, and the questions with and without."""
    qids = pq.read_table(folder / QUESTIONS_FILE, columns=["qid"]).column("qid").to_pylist()
    return file_sha256(folder / QRELS_FILE), tuple(qids)
