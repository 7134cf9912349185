"""The comparison of several evaluations in one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from multiview.artifacts.record import file_sha256
from multiview.errors import InputError
from multiview.evaluation.evaluate import METRICS_FILE, QRELS_FILE, QUESTIONS_FILE

TABLE_FILE = "table.md"


def compare(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: table the metrics of several systems.

    Input `evaluations`, in the order of `settings.comparison.rows`; output `comparison`: `metrics.json` (system to metric to value) and `table.md`.
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
    folder = output["comparison"]
    (folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1) + "\n")
    (folder / TABLE_FILE).write_text(markdown_table(metrics))
    for system, values in metrics.items():
        for name, value in values.items():
            tell.metric(f"{system}/{name}", value)


def _questions(folder: Path) -> tuple[str, tuple[str, ...]]:
    """What must be the same of all systems: the gold passages, and the questions with and without."""
    qids = pq.read_table(folder / QUESTIONS_FILE, columns=["qid"]).column("qid").to_pylist()
    return file_sha256(folder / QRELS_FILE), tuple(qids)


def markdown_table(metrics: Mapping[str, Mapping[str, float]]) -> str:
    """A row a system, a column a metric, in per cent, by name and k; the best of each is bold."""
    names, best = metric_names(metrics), best_values(metrics)
    width = max(len("system"), *(len(system) for system in metrics))
    lines = [
        f"| {'system':<{width}} | " + " | ".join(names) + " |",
        f"|{'-' * (width + 2)}|" + "|".join("-" * (len(name) + 1) + ":" for name in names) + "|",
    ]
    for system, values in metrics.items():
        cells = []
        for name in names:
            text = f"{100 * values[name]:.1f}" if name in values else ""
            cells.append(f"**{text}**" if text and values[name] == best[name] else text)
        row = " | ".join(f"{cell:>{len(name)}}" for cell, name in zip(cells, names, strict=True))
        lines.append(f"| {system:<{width}} | {row} |")
    return "\n".join(lines) + "\n"


def metric_names(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The metrics that any system has, by name and k."""
    return sorted({name for values in metrics.values() for name in values}, key=_name_and_k)


def best_values(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The highest value of each metric."""
    return {
        name: max(values[name] for values in metrics.values() if name in values)
        for name in metric_names(metrics)
    }


def _name_and_k(name: str) -> tuple[str, int]:
    """`accuracy_at_20` as (accuracy_at, 20)."""
    stem, _, k = name.rpartition("_")
    return stem, int(k)
