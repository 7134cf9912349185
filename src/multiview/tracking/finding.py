"""From an MLflow run or logged model to artifacts: those that its steps read and wrote, or the model itself."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiview import names
from multiview.artifacts.record import Reference
from multiview.errors import InputError
from multiview.steps.runs import Run
from multiview.tracking.client import RUN_FILE, children_of, connect, database, explained


@dataclass
class TrackedStep:
    """What MLflow knows of one step of a run."""

    inputs: dict[str, list[Reference]] = field(default_factory=dict)
    outputs: dict[str, Reference] = field(default_factory=dict)

    @property
    def index(self) -> Reference | None:
        """The index that it built, or searched."""
        return self.outputs.get(names.INDEX) or next(iter(self.inputs.get(names.INDEX, [])), None)


@dataclass
class TrackedRun:
    """A pipeline run as MLflow knows it; a rerun has its own steps before those of the run it came from."""

    mlflow_id: str
    store: str
    run: Run
    steps: dict[str, TrackedStep]
    step: str | None = None
    """The path of the step whose own MLflow id was asked for."""


def logged_model(uri: str, model_id: str) -> Reference:
    """Returns the artifact of the logged model with an MLflow id, `m-` and 32 digits.

    Raises InputError if MLflow at `uri` has no such model, or it is not one of multiview's.
    """
    if database(uri) == "absent":
        raise InputError(f"there is no MLflow database at {uri}: give --tracking-uri or --store")
    with explained(uri):
        tags = connect(uri).get_logged_model(model_id).tags
    if not {names.TAG_ADDRESS, names.TAG_SHA256} <= set(tags):
        raise InputError(f"logged model {model_id} is not one of multiview's")
    return Reference(address=tags[names.TAG_ADDRESS], digest=tags[names.TAG_SHA256])


def find_run(uri: str, run: str, store: str | None = None) -> TrackedRun:
    """The pipeline run with an MLflow id (its own, or of one of its steps), a Kubeflow id, or an id of ours.

    Two stores may hold a run of the same id; `store` says which is meant.
    Raises InputError if MLflow has no such run, or more than one.
    """
    if not re.fullmatch(r"[\w.-]+", run):
        raise InputError(f"{run!r} is no run id: give an MLflow, Kubeflow or multiview run id")
    if database(uri) == "absent":
        raise InputError(f"there is no MLflow database at {uri}: give --tracking-uri or --store")
    with explained(uri):
        client = connect(uri)
        experiment = client.get_experiment_by_name(names.EXPERIMENT)
        if experiment is None:
            raise InputError(f"MLflow at {uri} has no experiment {names.EXPERIMENT}: nothing was run with it")
        parent = _parent(client, experiment.experiment_id, uri, run, store)
        with tempfile.TemporaryDirectory() as folder:
            path = client.download_artifacts(parent.info.run_id, RUN_FILE, folder)
            description = Run.model_validate_json(Path(path).read_bytes())
        where = parent.data.tags[names.TAG_STORE]
        steps = find_run(uri, description.rerun_of, where).steps if description.rerun_of else {}
        asked_for = None
        for child in children_of(client, experiment.experiment_id, parent.info.run_id):
            path = child.data.tags[names.TAG_PATH]
            steps[path] = _tracked_step(child.data.tags)
            if child.info.run_id == run:
                asked_for = path
    return TrackedRun(parent.info.run_id, where, description, steps, asked_for)


def _parent(client: Any, experiment: str, uri: str, run: str, store: str | None) -> Any:
    found = client.search_runs(
        [experiment], f"tags.`{names.TAG_RUN}` = '{run}' and tags.`{names.TAG_STORE}` LIKE '%'"
    )
    if len(found) > 1:
        found = [parent for parent in found if parent.data.tags[names.TAG_STORE] == store] or found
    if len(found) > 1:
        ids = ", ".join(f"{p.info.run_id} in {p.data.tags[names.TAG_STORE]}" for p in found)
        raise InputError(f"several stores hold run {run}: give the MLflow id, one of {ids}")
    return found[0] if found else _by_kubeflow_id(client, experiment, run) or _by_mlflow_id(client, uri, run)


def _by_kubeflow_id(client: Any, experiment: str, run: str) -> Any:
    """The run that was started on Kubeflow under this id, among other starts of it; none if none was."""
    found = client.search_runs([experiment], f"tags.`{names.TAG_KUBEFLOW_RUNS}` LIKE '%{run}%'")
    whole = [parent for parent in found if run in parent.data.tags[names.TAG_KUBEFLOW_RUNS].split()]
    return whole[0] if whole else None


def _by_mlflow_id(client: Any, uri: str, run: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_run(run)
        parent = found.data.tags.get("mlflow.parentRunId")
        found = client.get_run(parent) if parent else found
    except MlflowException as error:
        raise InputError(
            f"MLflow at {uri} has no run {run}: give an MLflow, Kubeflow or multiview run id"
        ) from error
    if names.TAG_RUN not in found.data.tags:
        raise InputError(f"MLflow run {run} is not one of multiview's")
    return found


def _tracked_step(tags: dict[str, str]) -> TrackedStep:
    step = TrackedStep()
    for tag in sorted(tags):
        if tag.startswith(names.INPUT_TAG):
            name = tag.removeprefix(names.INPUT_TAG).rsplit(".", 1)[0]
            step.inputs.setdefault(name, []).append(Reference.model_validate_json(tags[tag]))
        elif tag.startswith(names.OUTPUT_TAG):
            kind = tag.removeprefix(names.OUTPUT_TAG)
            step.outputs[kind] = Reference.model_validate_json(tags[tag])
    return step
