"""Gathers the contents of the report from a comparison, its evaluations, and the artifacts behind them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names, names
from multiview.artifacts.staging import Staged
from multiview.config import JsonObject, Model
from multiview.errors import InputError
from multiview.evaluation.costs import COSTS
from multiview.evaluation.files import (
    ANALYSES_FILE,
    METRICS_FILE,
    SEEDS_FILE,
    SETTINGS_FILE,
    SIGNIFICANCE_FILE,
    WON_FILE,
    analysis_table_file,
)
from multiview.evaluation.tables import (
    Significance,
    count_generated,
    generated_training,
    metric_columns,
    read_paper,
)
from multiview.index.view_index import PASSAGES_FILE
from multiview.lineage.trace import Ancestor
from multiview.model.base_model import checkpoint
from multiview.report.contents import Contents, System, Training
from multiview.report.question_selection import chosen_questions
from multiview.steps.events import Events, read_metrics

Found = TypeVar("Found")


def gather(
    rows: Sequence[str], comparison: Staged, evaluations: Sequence[Staged], events: Events
) -> Contents:
    """Returns the contents of the page. `rows` are the comparison's systems, and `evaluations` theirs, in order.

    Artifacts behind an evaluation that are gone from the store are left out, with a warning.
    """
    found = {row: Ancestor.of(staged) for row, staged in zip(rows, evaluations, strict=True)}
    metrics = _read(comparison.path, METRICS_FILE)
    analyses = _read(comparison.path, ANALYSES_FILE)
    significance = cast(Significance, _read(comparison.path, SIGNIFICANCE_FILE))

    def kept(subject: str, look: Callable[[], Found], otherwise: Found) -> Found:
        try:
            return look()
        except InputError as error:
            events.warning(f"the report leaves out {subject}: {error}")
            return otherwise

    systems = []
    for position, (row, staged) in enumerate(zip(rows, evaluations, strict=True)):
        evaluation, folder = found[row], staged.path / names.ANALYSES
        index, model = (
            kept(f"{row}'s {name}", lambda e=evaluation, name=name: e and e.input(name), None)
            for name in ("index", "model")
        )
        generated_by = kept(
            f"{row}'s training questions", lambda e=evaluation: e and generated_training(e), None
        )
        systems.append(
            System(
                name=row,
                position=position,
                metrics=metrics[row],
                architecture=kept(f"{row}'s architecture", lambda m=model: _architecture(m), None),
                analyses=analyses.get(row, {}),
                view_counts=kept(f"{row}'s views per passage", lambda i=index: _view_counts(i), {}),
                generated_by=generated_by,
                trainings=kept(f"{row}'s training", lambda m=model: trainings(m) if m else [], []),
                usage=_usage(folder),
                alone=_each_view(folder),
                attention=_matrix(folder, "attention"),
                cosine=_matrix(folder, "cosine"),
            )
        )
    first = next((evaluation for evaluation in found.values() if evaluation is not None), None)
    passages = kept("the passages", lambda: first and first.input("passages"), None)
    questions = kept("the questions", lambda: first and first.input("questions"), None)
    folders = [staged.path for staged in evaluations]
    base = next((s.position for s in systems if s.name == significance["baseline"]), 0)
    asked, texts = kept(
        "the questions", lambda: chosen_questions(folders, base, passages, questions), ([], {})
    )
    generated, question_count = count_generated(folders[0])
    return Contents(
        systems=systems,
        baseline=significance["baseline"],
        significance=significance,
        passages=sum(file.rows or 0 for file in passages.record.files) if passages else 0,
        questions=question_count,
        asked=asked,
        texts=texts,
        digest=comparison.digest,
        settings=_read(comparison.path, SETTINGS_FILE),
        cost=_costs(rows, Ancestor.of(comparison)),
        won=_read(comparison.path, WON_FILE),
        seeds=_read(comparison.path, SEEDS_FILE),
        paper=read_paper(comparison.path),
        generated=generated,
    )


def _read(folder: Path, name: str) -> JsonObject:
    file = folder / name
    return json.loads(file.read_text()) if file.exists() else {}


def _costs(rows: Sequence[str], comparison: Ancestor | None) -> dict[str, dict[str, float]]:
    """Costs by system and name, from the comparison's metrics: no file holds them, because they differ between runs."""
    metrics = read_metrics(comparison.store, comparison.record.data) if comparison else ()
    values = {metric.name: metric.value for metric in metrics}
    costs = {row: {cost: values.get(metric_names.of_group(row, cost)) for cost in COSTS} for row in rows}
    found = {
        row: {n: of for n, of in row_costs.items() if of is not None} for row, row_costs in costs.items()
    }
    return {row: row_costs for row, row_costs in found.items() if row_costs}


def _architecture(model: Ancestor | None) -> str | None:
    if model is None:
        return None
    return Model.model_validate_json(model.file(checkpoint.SETTINGS_FILE).read_bytes()).architecture


def _view_counts(index: Ancestor | None) -> dict[int, int]:
    """Number of views to the number of passages with that many, from the index's table of passages."""
    if index is None:
        return {}
    counts = pq.read_table(index.file(PASSAGES_FILE), columns=["views"])["views"].to_pylist()
    return dict(sorted(Counter(counts).items()))


def trainings(model: Ancestor) -> list[Training]:
    """Returns a model's warm-up and rounds in order; none for a model that was not trained here.

    A round reads negatives that were mined with the model of the round before, regardless of the model that
    the round started from. Raises InputError if a record on the way is gone.
    """
    rounds: list[Ancestor] = []
    ancestor: Ancestor | None = model
    while ancestor is not None and ancestor.record.step == "train":
        rounds.insert(0, ancestor)
        negatives = ancestor.input("negatives")
        if negatives is not None and negatives.record.step == "teach":
            negatives = negatives.input("hard_negatives")
        mined = negatives is not None and negatives.record.step == "mine"
        ancestor = negatives.input("model") if negatives and mined else None
    start = rounds[0].input("start") if rounds else model
    warmed = [start] if start is not None and start.record.step == "warm-up" else []
    stages = [("warm-up", made) for made in warmed]
    stages += [(f"round {number}", made) for number, made in enumerate(rounds, start=1)]
    return [Training(name, curves) for name, made in stages if (curves := _curves(made))]


def _curves(made: Ancestor) -> dict[str, dict[int, float]]:
    """The curves that the attempt reported in training; for a step that was reported twice, the last value."""
    curves: dict[str, dict[int, float]] = {}
    for metric in read_metrics(made.store, made.record.data):
        if metric.step is not None:
            curves.setdefault(metric.name, {})[metric.step] = metric.value
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def _usage(folder: Path) -> dict[str, list[float]]:
    usage = _table(folder, "usage")
    shares = (metric_names.SHARE_OF_TOP_1, metric_names.SHARE_OF_GOLD)
    return {name: usage[name].to_pylist() for name in shares if usage and name in usage.column_names}


def _each_view(folder: Path) -> dict[str, list[float]]:
    """Each metric's value per view alone."""
    table = _table(folder, "each_view")
    if table is None:
        return {}
    views = [row for row in table.to_pylist() if row["view"] is not None]
    accuracies = [name for name in table.column_names if name.startswith(metric_names.ACCURACY_PREFIX)]
    metrics = metric_columns({"": dict.fromkeys(accuracies, 0.0)})
    return {name: [row[name] for row in views] for name in metrics}


def _matrix(folder: Path, name: str) -> np.ndarray | None:
    table = _table(folder, name)
    if table is None:
        return None
    return np.array([column.to_pylist() for column in table.drop_columns("view").columns], np.float64).T


def _table(folder: Path, name: str) -> pa.Table | None:
    file = folder / analysis_table_file(name)
    return pq.read_table(file) if file.exists() else None
