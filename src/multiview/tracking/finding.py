"""Lookup in MLflow: the artifacts that the steps of a run read and wrote, and the artifact of a logged model."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from multiview import names
from multiview.artifacts.record import Reference
from multiview.errors import InputError
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, Status, StepState
from multiview.tracking.client import RUN_FILE, connect, deleted, explained, our_experiment
from multiview.tracking.mlflow_runs import PARENT_RUN, runs_below

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

STATUSES: dict[str, Status] = {"FINISHED": "done", "FAILED": "failed", "KILLED": "killed"}
"""Status of a step by that of its MLflow run; any other counts as running."""


@dataclass
class TrackedRun:
    """A pipeline's run as MLflow has it. A rerun includes the steps of the earlier run that it did not repeat, except
    those that depend on what it made anew."""

    mlflow_id: str
    store: str
    run: Run
    steps: dict[str, StepState]
    """The steps' inputs, outputs, status and error by path."""
    step: str | None = None
    """The path of the step whose MLflow id was looked up, if it was a step's."""
    system: str | None = None
    """The system whose MLflow id was looked up, if it was a system's."""

    def steps_of_system(self) -> dict[str, StepState]:
        """Returns the steps of `system` by path; all steps where there is none."""
        if self.system is None:
            return self.steps
        return {path: step for path, step in self.steps.items() if StepPath.parse(path).system == self.system}


def logged_model(uri: str, model_id: str) -> Reference:
    """Returns the artifact of a logged model. Raises InputError if MLflow has none with this id, or it is not ours."""
    with explained(uri):
        tags = connect(uri, writes=False).get_logged_model(model_id).tags
    if not {names.TAG_ADDRESS, names.TAG_SHA256} <= set(tags):
        raise InputError(f"logged model {model_id} is not one of multiview's")
    return Reference(address=tags[names.TAG_ADDRESS], digest=tags[names.TAG_SHA256])


def find_run(uri: str, run: str, store: str | None = None) -> TrackedRun:
    """Returns the pipeline's run with an id: multiview's, Kubeflow's, MLflow's, or that of a system or step in MLflow.

    `store` chooses between runs with the same id. Raises InputError if MLflow has no such run, or more than one.
    """
    if not re.fullmatch(r"[\w.-]+", run):
        raise InputError(f"{run!r} is no run id: give an MLflow, Kubeflow or multiview run id")
    with explained(uri):
        client: MlflowClient = connect(uri, writes=False)
        experiment = our_experiment(client)
        if experiment is None:
            raise InputError(f"MLflow at {uri} has no experiment {names.EXPERIMENT}: nothing was run with it")
        parent = _parent(client, experiment.experiment_id, uri, run, store)
        files = experiment.artifact_location
        if uri.startswith("sqlite") and files.startswith("/") and not Path(files).parent.exists():
            raise InputError(
                f"MLflow at {uri} kept its files in {files}, and that store is gone: if it was moved, move it back, or make its old "
                "place a link to the new one"
            )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(client.download_artifacts(parent.info.run_id, RUN_FILE, folder))
            description = Run.model_validate_json(file.read_bytes())
        parent_store = parent.data.tags[names.TAG_STORE]
        steps: dict[str, StepState] = {}
        step = system = None
        for below in runs_below(client, parent.info.experiment_id, description.id, parent.info.run_id):
            path = below.data.tags.get(names.TAG_PATH)
            if path is not None:
                steps[path] = _state(below)
            if below.info.run_id == run:
                step, system = path, None if path else below.data.tags[names.TAG_SYSTEM]
        if description.rerun_of:
            steps = _not_stale(find_run(uri, description.rerun_of, parent_store).steps, steps) | steps
    return TrackedRun(parent.info.run_id, parent_store, description, steps, step, system)


def _parent(client: MlflowClient, experiment: str, uri: str, run: str, store: str | None) -> MlflowRun:
    """The MLflow run of a whole pipeline run, in which those of its systems and steps lie."""
    from mlflow.entities import ViewType

    parents: list[MlflowRun] = client.search_runs(
        [experiment], f"tags.`{names.TAG_RUN}` = '{run}' and tags.`{names.TAG_STORE}` LIKE '%'"
    )
    if len(parents) > 1:
        parents = [parent for parent in parents if parent.data.tags[names.TAG_STORE] == store] or parents
    if len(parents) > 1:
        ids = ", ".join(f"{parent.info.run_id} in {parent.data.tags[names.TAG_STORE]}" for parent in parents)
        raise InputError(f"several stores hold run {run}: give the MLflow id, one of {ids}")
    if parents:
        return parents[0]
    # Started on Kubeflow under this id, perhaps among other starts.
    started = client.search_runs([experiment], f"tags.`{names.TAG_KUBEFLOW_RUNS}` LIKE '%{run}%'")
    same = (parent for parent in started if run in parent.data.tags[names.TAG_KUBEFLOW_RUNS].split())
    if found := next(same, None):
        return found
    deleted_only = ViewType.DELETED_ONLY
    gone = client.search_runs([experiment], f"tags.`{names.TAG_RUN}` = '{run}'", run_view_type=deleted_only)
    if gone:
        outermost = next((each for each in gone if names.TAG_STORE in each.data.tags), gone[0])
        raise deleted("run", run, outermost.info.run_id)
    return _by_mlflow_id(client, uri, run)


def _by_mlflow_id(client: MlflowClient, uri: str, run: str) -> MlflowRun:
    """The outermost run around the one with this MLflow id. Raises InputError if it is missing, deleted or not ours."""
    from mlflow.exceptions import MlflowException

    try:
        parent = client.get_run(run)
        if parent.info.lifecycle_stage == "deleted":
            raise deleted("run", run, run)
        while parent_id := parent.data.tags.get(PARENT_RUN):
            parent = client.get_run(parent_id)
    except MlflowException as error:
        raise InputError(
            f"MLflow at {uri} has no run {run}: give an MLflow, Kubeflow or multiview run id"
        ) from error
    if names.TAG_RUN not in parent.data.tags:
        raise InputError(f"MLflow run {run} is not one of multiview's")
    return parent


def _not_stale(earlier: Mapping[str, StepState], repeated: Mapping[str, StepState]) -> dict[str, StepState]:
    """The earlier run's steps that hold for a rerun too: those that do not read, even indirectly, what it made anew."""

    def outputs(steps: Iterable[StepState]) -> set[str]:
        return {reference.digest for step in steps for reference in step.outputs.values()}

    valid = dict(earlier)
    replaced = outputs(earlier[path] for path in repeated if path in earlier) - outputs(repeated.values())
    while stale := {
        path: step
        for path, step in valid.items()
        if any(reference.digest in replaced for reference in step.read)
    }:
        replaced |= outputs(stale.values())
        valid = {path: step for path, step in valid.items() if path not in stale}
    return valid


def _state(run: MlflowRun) -> StepState:
    """The state of a step, as far as MLflow has it."""
    tags = run.data.tags
    inputs: dict[str, list[Reference]] = {}
    outputs: dict[str, Reference] = {}
    for tag, value in sorted(tags.items()):
        if tag.startswith(names.INPUT_TAG):
            name = tag.removeprefix(names.INPUT_TAG).rsplit(".", 1)[0]
            inputs.setdefault(name, []).append(Reference.model_validate_json(value))
        elif tag.startswith(names.OUTPUT_TAG):
            outputs[tag.removeprefix(names.OUTPUT_TAG)] = Reference.model_validate_json(value)
    return StepState(
        path=tags[names.TAG_PATH],
        step=tags[names.TAG_STEP],
        status=STATUSES.get(run.info.status, "running"),
        inputs=inputs,
        outputs=outputs,
        error=tags.get(names.TAG_ERROR),
    )
