"""MLflow runs of systems, between a pipeline's and its steps': each holds the steps of one system, all of its settings
and its final figures, to be compared on MLflow's page. Steps that systems share lie directly
in the pipeline's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from multiview import metric_names, names
from multiview.config import Config, JsonObject
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.model.layouts import architecture
from multiview.model.systems import fused_config, fused_row, resolve, resolve_systems
from multiview.steps.events import MetricEvent, read_metrics
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.tracking.mlflow_runs import Tags, fill, log_metrics, parameters, set_status, status_of
from multiview.tracking.shipment import Shipment
from multiview.tracking.tags import question_tags

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

FIGURES = (*metric_names.SHORT, metric_names.ROUGE_L, metric_names.SELF_BLEU)
"""Prefixes of the evaluation metrics that are a system's figures; metrics of analyses would drown them."""

VALIDATION = metric_names.of_validation("")
"""Prefix of a training's metrics on held-out questions."""

SECTIONS = ("corpus", "questions", "bm25", "model", "train", "mining", "encode", "index", "search", "evaluation")  # fmt: skip
"""Sections of the settings that decide the figures of every trained system."""


def fill_systems(shipment: Shipment, parent: str, states: Iterable[StepState]) -> None:
    """Logs settings, figures and status of each system that has one of these steps; of all systems if a finished
    comparison, which knows their costs, is among them. A comparison of other runs' evaluations has no systems: its
    metrics go to the whole run."""
    states = list(states)
    compared = [state for state in states if state.step == "compare" and state.finished]
    mine = {StepPath.parse(state.path).system for state in states}
    for system in shipment.systems:
        if compared or system in mine:
            _fill_system(shipment, parent, system)
    if not shipment.systems and compared:
        log_metrics(shipment.client, parent, read_metrics(shipment.store, compared[0].attempt))


def _fill_system(shipment: Shipment, parent: str, system: str) -> None:
    client, states = shipment.client, shipment.systems[system]
    opened = client.get_run(shipment.system(parent, system))
    metrics, tags = _figures(shipment, opened, system)
    # Before the system's tag says that they are logged.
    log_metrics(client, parent, _headlines(shipment.run, system, metrics))
    fill(client, opened, parameters(settings_of(shipment.run, system, states)), metrics, tags)
    paths = {path for path in shipment.run.steps if StepPath.parse(path).system == system}
    status = status_of(states, paths, shipment.ended)
    set_status(client, opened, status, max(state.ended or state.started for state in states))


def _headlines(run: Run, system: str, metrics: Iterable[MetricEvent]) -> list[MetricEvent]:
    """A system's figures for the pipeline's run: without curves, and with the system's name if there are several."""
    several = len({StepPath.parse(path).system for path in run.steps} - {""}) > 1
    figures = [metric for metric in metrics if not metric.name.startswith(VALIDATION)]
    return [replace(m, name=metric_names.of_group(system, m.name)) if several else m for m in figures]


def _figures(shipment: Shipment, opened: MlflowRun, system: str) -> tuple[list[MetricEvent], Tags]:
    """The figures of steps that ended since the last shipment, and tags; one names the steps shipped so far."""
    logged = set(opened.data.tags.get(names.TAG_FIGURES, "").split())
    states = shipment.systems[system]
    metrics: list[MetricEvent] = []
    for state in (*states, *shipment.shared):
        name = f"{state.path}@{state.attempt.rsplit('/', 1)[-1]}"
        if name in logged or not state.attempt or not state.finished:
            continue
        if state.step in ("compare", "train") or state.step.startswith("evaluate"):
            logged.add(name)
            metrics += _figures_of_step(shipment, system, state)
    error = next((f"{state.path}: {state.error}" for state in states if state.error), None)
    tags: Tags = {
        "study": shipment.run.study,
        names.TAG_CORPUS: shipment.corpus,
        names.TAG_ERROR: error,
        **question_tags(states),
    }
    return metrics, {**tags, names.TAG_FIGURES: " ".join(sorted(logged))}


def _figures_of_step(shipment: Shipment, system: str, state: StepState) -> list[MetricEvent]:
    """An evaluation's figures by round; a training's validations by training step, named by round if there are several;
    a comparison's costs of the system, such as `index_bytes`."""
    number = round_of(StepPath.parse(state.path), map(StepPath.parse, shipment.run.steps))
    ending = metric_names.of_group(system, "")
    found = []
    for metric in read_metrics(shipment.store, state.attempt):
        name, step, is_figure = metric.name, metric.step, metric.name.startswith(FIGURES)
        if state.step == "train":
            wanted = name.startswith(VALIDATION)
            name = metric_names.of_group(f"round-{number}", name) if number else name
        elif state.step == "compare":
            wanted, name = name.endswith(ending) and not is_figure, name.removesuffix(ending)
        else:
            wanted, step = is_figure and "/" not in name, number
        found += [replace(metric, name=name, step=step)] if wanted else []
    return found


def round_of(path: StepPath, steps: Iterable[StepPath]) -> int:
    """Returns the round of a step that its system repeats by rounds: 2 for `camvr/round-2/train` if `steps` also has
    `camvr/round-1/train`. Else returns 0, for which MLflow draws a bar instead of a curve with one point."""
    rounds = {step.round for step in steps if (step.system, step.step) == (path.system, path.step)} - {None}
    return path.round or 0 if len(rounds) > 1 else 0


def settings_of(run: Run, system: str, states: Iterable[StepState]) -> JsonObject:
    """Returns all settings of a system, by section: of a trained system, those that were asked for, also where it is
    fused with BM25; of any other, such as `bm25`, and if this version does not know the settings, those that its steps
    have read so far."""
    config: Config | None = None
    with contextlib.suppress(InputError):
        if run.pipeline == "comparison":
            systems = resolve_systems(run.config)
            fused = {fused_row(name): fused_config(config) for name, config in systems.items()}
            config = (fused | systems).get(system)
        elif run.pipeline == "training":
            config = resolve(run.config)
    if config is None:
        return merge(*(state.config for state in states))
    reads_queries = architecture(config.model.architecture).reads_queries
    origin = config.questions.origin
    generates = reads_queries or bool(config.train.warm_up) or origin == "generator"
    sections = (*SECTIONS, *["generation"] * generates, *["make_questions"] * (origin != "labelled"))
    return {name: getattr(config, name).model_dump(mode="json") for name in sections}
