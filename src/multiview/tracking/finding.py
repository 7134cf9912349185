"""From an MLflow run to the artifacts that its steps read and wrote."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiview import names
from multiview.artifacts.record import Reference
from multiview.errors import InputError
from multiview.runs import Run
from multiview.tracking.client import RUN_FILE, children_of, connect


@dataclass
class TrackedStep:
    """What MLflow knows of one step of a run."""

    inputs: dict[str, list[Reference]] = field(default_factory=dict)
    outputs: dict[str, Reference] = field(default_factory=dict)


@dataclass
class TrackedRun:
    """A pipeline run as MLflow knows it."""

    mlflow_id: str
    store: str
    run: Run
    steps: dict[str, TrackedStep]


def find_run(uri: str, run: str) -> TrackedRun:
    """The pipeline run with an MLflow id (its own, or of one of its steps), a KFP run id, or an id
    of ours. Raises InputError if MLflow has none."""
    client = connect(uri)
    experiment = client.get_experiment_by_name(names.EXPERIMENT)
    if experiment is None:
        raise InputError(f"MLflow at {uri} has no experiment {names.EXPERIMENT}: nothing was run with it")
    where = [experiment.experiment_id]
    parent = None
    for tag in (names.TAG_RUN, names.TAG_KFP_RUN):
        found = client.search_runs(where, f"tags.`{tag}` = '{run}' and tags.`{names.TAG_STEP}` = ''")
        found = found or client.search_runs(where, f"tags.`{tag}` = '{run}'")
        parent = next((r for r in found if names.TAG_STEP not in r.data.tags), parent)
    if parent is None:
        parent = _by_mlflow_id(client, uri, run)
    tags = parent.data.tags
    with tempfile.TemporaryDirectory() as folder:
        path = client.download_artifacts(parent.info.run_id, RUN_FILE, folder)
        description = Run.model_validate_json(Path(path).read_bytes())
    steps = {}
    for child in children_of(client, where, parent.info.run_id):
        steps[child.data.tags[names.TAG_PATH]] = _tracked_step(child.data.tags)
    return TrackedRun(parent.info.run_id, tags[names.TAG_STORE], description, steps)


def _by_mlflow_id(client: Any, uri: str, run: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_run(run)
        parent = found.data.tags.get("mlflow.parentRunId")
        found = client.get_run(parent) if parent else found
    except MlflowException as error:
        raise InputError(
            f"MLflow at {uri} has no run {run}: give an MLflow, KFP or multiview run id"
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
