"""MLflow runs of systems: each holds the steps of one system, with all of its settings and its final figures.

They lie between a pipeline's MLflow run and its steps, so that the selected systems of one run or of several can be
compared on MLflow's page. Steps that systems share have no such run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from multiview import metric_names, names
from multiview.artifacts.store import Store
from multiview.config import Config, JsonObject
from multiview.config.overrides import merge
from multiview.errors import InputError
from multiview.model.layouts import architecture
from multiview.model.systems import resolve, resolve_systems
from multiview.steps.events import read_metrics
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.tracking import notes
from multiview.tracking.mlflow_runs import (
    Claims,
    Tags,
    fill,
    log_metrics,
    parameters,
    set_description,
    set_status,
    status_of,
)
from multiview.tracking.tags import question_tags, system_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric
    from mlflow.entities import Run as MlflowRun

FIGURES = (*metric_names.SHORT, metric_names.ROUGE_L, metric_names.SELF_BLEU)
"""Prefixes of the evaluation metrics that are a system's figures; metrics of analyses would drown them."""

VALIDATION = metric_names.of_validation("")
"""How metrics of a training's held-out questions begin."""

SECTIONS = ("corpus", "questions", "bm25", "model", "train", "mining", "encode", "index", "evaluation")
"""Sections of the settings that decide the figures of every trained system."""


class Systems:
    """Fills the MLflow runs of a run's systems. The process may be killed after any call to MLflow; no call is repeated."""

    def __init__(
        self,
        store: Store,
        run: Run,
        client: MlflowClient,
        claims: Claims,
        states: Sequence[StepState],
        corpus: str | None,
    ):
        """`states` are the states of all steps that have begun."""
        self.store, self.run, self.client, self.claims, self.corpus = store, run, client, claims, corpus
        self.shared: list[StepState] = []
        self.states: dict[str, list[StepState]] = {}
        for state in states:
            system = StepPath.parse(state.path).system
            (self.states.setdefault(system, []) if system else self.shared).append(state)

    def above(self, parent: str, path: str) -> str:
        """Returns the id of the MLflow run that a step's lies in: its system's, or `parent` for a step that systems share."""
        system = StepPath.parse(path).system
        return self._opened(parent, system) if system else parent

    def report(self, parent: str, states: Iterable[StepState], failed: bool = False) -> None:
        """Logs settings, figures and status of each system that has one of these steps; of all systems where a
        comparison is among them, which knows their costs. `failed` says that the whole run has ended as failed.

        A comparison of other runs' evaluations has no systems of its own: its metrics are the run's.
        """
        states = list(states)
        compared = [state for state in states if state.step == "compare" and state.finished]
        mine = {StepPath.parse(state.path).system for state in states}
        for system in self.states:
            if compared or system in mine:
                self._report(parent, system, failed)
        if not self.states and compared:
            log_metrics(self.client, parent, self._reported(compared[0]))

    def compare_page(self, parent: str, experiment: str) -> str | None:
        """Returns the address, within MLflow, of the page that compares the trained systems; None for fewer than two."""
        runs = [self._opened(parent, system) for system in self.run.architectures if system in self.states]
        if len(runs) < 2:
            return None
        return f"#/compare-runs?runs={_quoted(runs)}&experiments={_quoted([experiment])}"

    def _opened(self, parent: str, system: str) -> str:
        name = system if len(self.run.architectures) > 1 else f"{system} of {self.run.id}"
        started = min(state.started for state in self.states[system])
        return self.claims.claimed(f"systems/{system}", name, system_tags(self.run, system, parent), started)

    def _report(self, parent: str, system: str, failed: bool) -> None:
        opened = self.client.get_run(self._opened(parent, system))
        states = self.states[system]
        metrics, tags = self._figures(opened, system)
        # Before the system's tag says that they are logged.
        log_metrics(self.client, parent, self._headlines(system, metrics))
        fill(self.client, opened, parameters(settings_of(self.run, system, states)), metrics, tags)
        steps = {path for path in self.run.steps if StepPath.parse(path).system == system}
        status = status_of(states, steps)
        if failed and status == "RUNNING":
            status = "FAILED"
        if status != "RUNNING":
            note = notes.of_system(self.store, self.run, system, states, self.corpus)
            set_description(self.client, opened, note)
        set_status(self.client, opened, status, max(state.ended or state.started for state in states))

    def _headlines(self, system: str, metrics: Iterable[Metric]) -> list[Metric]:
        """A system's figures under their names in the pipeline's run, where people look first: without the curves,
        and with the system's name where there are several."""
        several = len({StepPath.parse(path).system for path in self.run.steps} - {""}) > 1
        return [
            _metric(metric_names.of_group(system, m.key) if several else m.key, m.value, m.timestamp, m.step)
            for m in metrics
            if not m.key.startswith(VALIDATION)
        ]

    def _figures(self, opened: MlflowRun, system: str) -> tuple[list[Metric], Tags]:
        """The figures of steps that have ended since the last shipping, and tags; one of them names these steps."""
        logged = set(opened.data.tags.get(names.TAG_FIGURES, "").split())
        metrics: list[Metric] = []
        for state in (*self.states[system], *self.shared):
            name = f"{state.path}@{state.attempt.rsplit('/', 1)[-1]}"
            if name in logged or not state.attempt or not state.finished:
                continue
            if state.step in ("compare", "train") or state.step.startswith("evaluate"):
                logged.add(name)
                metrics += self._figures_of_step(system, state)
        states = self.states[system]
        error = next((f"{state.path}: {state.error}" for state in states if state.error), None)
        tags: Tags = {names.TAG_CORPUS: self.corpus, names.TAG_ERROR: error, **question_tags(states)}
        return metrics, {**tags, names.TAG_FIGURES: " ".join(sorted(logged))}

    def _figures_of_step(self, system: str, state: StepState) -> list[Metric]:
        """An evaluation's figures by round; a training's validations by training step, named by round where there are
        several; from a comparison the system's costs, such as `index_bytes`."""
        number = round_of(StepPath.parse(state.path), map(StepPath.parse, self.run.steps))
        ending = metric_names.of_group(system, "")
        found = []
        for metric in self._reported(state):
            name, step, is_figure = metric.key, metric.step, metric.key.startswith(FIGURES)
            if state.step == "train":
                wanted = name.startswith(VALIDATION)
                name = metric_names.of_group(f"round-{number}", name) if number else name
            elif state.step == "compare":
                wanted, name = name.endswith(ending) and not is_figure, name.removesuffix(ending)
            else:
                wanted, step = is_figure and "/" not in name, number
            found += [_metric(name, metric.value, metric.timestamp, step)] if wanted else []
        return found

    def _reported(self, state: StepState) -> list[Metric]:
        events = read_metrics(self.store, state.attempt)
        return [_metric(event.name, event.value, event.time, event.step or 0) for event in events]


def _metric(name: str, value: float, timestamp: int, step: int) -> Metric:
    from mlflow.entities import Metric

    return Metric(name, value, timestamp, step)


def round_of(path: StepPath, steps: Iterable[StepPath]) -> int:
    """Returns the round of a step that its system does in several rounds: 2 for `camvr/round-2/train` where `steps` has
    a `camvr/round-1/train`. Else 0, for which MLflow draws a bar instead of a chart with one point."""
    rounds = sum(path.same_in_other_round(step) for step in steps)
    return path.round or 0 if rounds > 1 else 0


def settings_of(run: Run, system: str, states: Iterable[StepState]) -> JsonObject:
    """Returns all settings of a system, by section. One that the run trains has the settings that were asked for; another,
    such as `bm25`, has those that its steps have read so far, as does one whose settings this version does not know."""
    config: Config | None = None
    with contextlib.suppress(InputError):
        if run.pipeline == "comparison":
            config = resolve_systems(run.config).get(system)
        elif run.pipeline == "training":
            config = resolve(run.config)
    if config is None:
        return merge(*(state.config for state in states))
    reads_queries = architecture(config.model.architecture).reads_queries
    origin = config.questions.origin
    generates = reads_queries or origin == "generator"
    sections = (*SECTIONS, *["generation"] * generates, *["make_questions"] * (origin != "labelled"))
    return {name: getattr(config, name).model_dump(mode="json") for name in sections}


def _quoted(values: list[str]) -> str:
    return quote(json.dumps(values, separators=(",", ":")))
