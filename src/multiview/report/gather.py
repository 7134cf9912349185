"""Gathers the contents of the report from a comparison, its evaluations, and the artifacts behind them."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names, names
from multiview.artifacts.record import Artifact, load_record
from multiview.artifacts.staging import LocalArtifact, stage
from multiview.config import JsonObject, PaperFigures
from multiview.errors import InputError
from multiview.evaluation import files, tables
from multiview.evaluation.costs import COSTS
from multiview.model.base_model.checkpoint import SETTINGS_FILE
from multiview.model.systems import architecture_label, load_settings
from multiview.report.contents import Contents, System, Training
from multiview.report.shown_questions import chosen_questions
from multiview.steps.events import Events, read_metrics


def gather(
    rows: Sequence[str], comparison: LocalArtifact, evaluations: Sequence[LocalArtifact], events: Events
) -> Contents:
    """Returns the page's contents, from a comparison and its `evaluations` in the order of `rows`; what is gone from
    the store is left out with a warning."""

    @contextlib.contextmanager
    def optional(subject: str) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            events.warning(f"the report leaves out {subject}: {error}")

    metrics = _read(comparison.path, files.METRICS_FILE)
    analyses = _read(comparison.path, files.ANALYSES_FILE)
    significance = cast(tables.Significance, _read(comparison.path, files.SIGNIFICANCE_FILE))
    found = [load_record(staged.address) for staged in evaluations]
    folders = [staged.path for staged in evaluations]
    systems, models = [], set()
    for position, (row, evaluation) in enumerate(zip(rows, found, strict=True)):
        system = System(row, position, metrics[row], **_analyses(folders[position] / names.ANALYSES))
        system.view_cosine = analyses.get(row, {}).get(metric_names.VIEW_COSINE)
        systems.append(system)
        with optional(f"{row}'s model"):
            if model := evaluation.input("model"):
                system.architecture = architecture_label(load_settings(stage(*model, SETTINGS_FILE).path))
                with optional(f"{row}'s training"):
                    # The rows of one model, such as that fused with BM25, would hide each other's curves.
                    system.trainings = [] if model.record.digest in models else trainings(model)
                models.add(model.record.digest)
        with optional(f"{row}'s training questions"):
            system.generated_by = tables.generated_training(evaluation)

    passages = None
    with optional("the passages"):
        passages = found[0].input("passages")
    generated, question_count = tables.count_generated(folders[0])
    contents = Contents(
        systems=systems,
        baseline=significance["baseline"],
        significance=significance,
        passages=sum(file.rows or 0 for file in passages.record.files) if passages else 0,
        questions=question_count,
        results=[],
        texts={},
        digest=comparison.digest,
        settings=_read(comparison.path, files.SETTINGS_FILE),
        cost=_costs(rows, load_record(comparison.address)),
        won=_read(comparison.path, files.WON_FILE),
        seeds=_read(comparison.path, files.SEEDS_FILE),
        paper={
            row: PaperFigures.model_validate(of)
            for row, of in _read(comparison.path, files.PAPER_FILE).items()
        },
        generated=generated,
    )
    with optional("the questions"):
        questions = found[0].input("questions")
        if passages and questions:
            contents.results, contents.texts = chosen_questions(
                evaluations, contents.base, passages, questions
            )
    return contents


def _read(folder: Path, name: str) -> JsonObject:
    file = folder / name
    return json.loads(file.read_bytes()) if file.exists() else {}


def _costs(rows: Sequence[str], comparison: Artifact) -> dict[str, dict[str, float]]:
    """Costs by system and name, from the comparison's metrics: no file holds them, as they differ from run to run."""
    costs: dict[str, dict[str, float]] = {}
    for metric in read_metrics(comparison.store, comparison.record.data):
        cost, _, row = metric.name.partition("/")
        if cost in COSTS and row in rows:
            costs.setdefault(row, {})[cost] = metric.value
    return costs


def trainings(model: Artifact) -> list[Training]:
    """Returns a model's warm-up and rounds that were trained here, in order. Raises InputError if a record is gone."""
    rounds: list[Artifact] = []
    trained: Artifact | None = model
    while trained and trained.record.step == "train":
        rounds.insert(0, trained)
        negatives = trained.input("negatives")
        if negatives and negatives.record.step == "teach":
            negatives = negatives.input("hard_negatives")
        # Negatives are mined with the model of the round before, whatever this round started from.
        trained = negatives.input("model") if negatives and negatives.record.step == "mine" else None
    stages = [(f"round {number}", made) for number, made in enumerate(rounds, start=1)]
    start = rounds[0].input("start") if rounds else model
    if start and start.record.step == "warm-up":
        stages.insert(0, ("warm-up", start))
    found: list[Training] = []
    before = 0
    for name, made in stages:
        if curves := _curves(made, before):
            found.append(Training(name, curves, before))
            before = max(step for curve in curves.values() for step in curve)
    return found


def _curves(made: Artifact, start: int) -> dict[str, dict[int, float]]:
    """The curves of a training, its steps counted on from `start`; of a step reported twice, the last value."""
    curves: dict[str, dict[int, float]] = {}
    for metric in read_metrics(made.store, made.record.data):
        if metric.step is not None:
            curves.setdefault(metric.name, {})[start + metric.step] = metric.value
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def _analyses(folder: Path) -> dict[str, Any]:
    """The fields of a `System` that the tables of its analyses fill."""
    usage, each = _table(folder, "usage"), _table(folder, "each_view")
    shares = (metric_names.SHARE_OF_TOP_1, metric_names.SHARE_OF_GOLD)
    *views, together = each.to_pylist() if each else [{}]
    accuracies = [n for n in each.column_names if n.startswith(metric_names.ACCURACY_PREFIX)] if each else []
    return {
        "usage": {name: usage[name].to_pylist() for name in shares if usage and name in usage.column_names},
        "alone": {name: [row[name] for row in views] for name in accuracies},
        "together": {name: together[name] for name in accuracies},
        "attention": _matrix(folder, "attention"),
        "cosine": _matrix(folder, "cosine"),
    }


def _matrix(folder: Path, name: str) -> np.ndarray | None:
    table = _table(folder, name)
    if table is None:
        return None
    return np.array([column.to_pylist() for column in table.drop_columns("view").columns], np.float64).T


def _table(folder: Path, name: str) -> pa.Table | None:
    file = folder / f"{name}.parquet"
    return pq.read_table(file) if file.exists() else None
