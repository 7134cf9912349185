"""Tags of MLflow's runs and models: what a person filters by, and what the shipper finds its runs by."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from multiview import names
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import Store
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.tracking import notes
from multiview.tracking.client import PARENT_RUN, condition
from multiview.tracking.questions import question_tags

Tags: TypeAlias = dict[str, str | None]
"""Values by tag; a tag without a value is not set."""

NO_ATTEMPT = "none"

PIPELINE, SYSTEM, STEP = "pipeline", "system", "step"
"""The levels of MLflow runs: values of the tag `multiview.level`."""


def parent_tags(run: Run, store: Store) -> Tags:
    """Returns the tags of the parent, the MLflow run of a whole run, that are known when the run opens."""
    return {
        names.TAG_RUN: run.id,
        names.TAG_LEVEL: PIPELINE,
        names.TAG_PIPELINE: run.pipeline,
        names.TAG_STORE: store.url,
        names.TAG_PRESET: run.preset,
        names.TAG_STUDY: run.study,
        names.TAG_COMPARES: " ".join(run.compares),
        names.TAG_GIT: run.git_sha,
        names.TAG_RERUN_OF: run.rerun_of,
        names.TAG_ARCHITECTURE: ", ".join(dict.fromkeys(run.architectures.values())),
        **_origin(run),
    }


def later_parent_tags(run: Run, store: Store, states: Iterable[StepState], corpus: str | None) -> Tags:
    """Returns the tags of the parent that become known while its steps run."""
    states = list(states)
    starts = store.files(f"{names.RUNS}/{run.id}/{names.KUBEFLOW}")
    return {
        names.TAG_KUBEFLOW_RUNS: " ".join(sorted(file.rsplit("/", 1)[-1] for file in starts)),
        names.TAG_CORPUS: corpus,
        names.TAG_IMAGE: " ".join(sorted({state.image for state in states if state.image})),
        **question_tags(states),
    }


def system_tags(run: Run, system: str, parent: str) -> Tags:
    """Returns the tags of a system's MLflow run that are known when it opens; `parent` is the id of the run's MLflow run."""
    return {
        PARENT_RUN: parent,
        names.TAG_RUN: run.id,
        names.TAG_LEVEL: SYSTEM,
        names.TAG_PIPELINE: run.pipeline,
        names.TAG_SYSTEM: system,
        names.TAG_ARCHITECTURE: run.architectures.get(system),
        names.TAG_PRESET: run.preset,
        names.TAG_STUDY: run.study,
        names.TAG_GIT: run.git_sha,
        names.TAG_RERUN_OF: run.rerun_of,
        **_origin(run),
    }


def child_tags(run: Run, state: StepState, parent: str) -> Tags:
    """Returns the tags of a child, the MLflow run of a step's attempt, that identify it; `parent` is the id of the
    MLflow run of its system, or of the whole run for a step that all systems share."""
    system = StepPath.parse(state.path).system
    return {
        PARENT_RUN: parent,
        names.TAG_RUN: run.id,
        names.TAG_LEVEL: STEP,
        names.TAG_PIPELINE: run.pipeline,
        names.TAG_PATH: state.path,
        names.TAG_STEP: state.step,
        names.TAG_ATTEMPT: state.attempt.rsplit("/", 1)[-1] or NO_ATTEMPT,
        names.TAG_SYSTEM: system,
        names.TAG_ARCHITECTURE: run.architectures.get(system),
        names.TAG_PRESET: run.preset,
        names.TAG_RERUN_OF: run.rerun_of,
        **_origin(run),
    }


def step_tags(
    run: Run, state: StepState, record: Record | None, warnings: Sequence[str], corpus: str | None
) -> Tags:
    """Returns the tags of a child that its step's state and events fill: code, inputs, outputs, warnings, description.

    `record` is that of the step's first output, if it has any.
    """
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    tags: Tags = {names.TAG_KEY: state.key, names.TAG_ERROR: state.error, **_code(state, record)}
    if state.inputs or names.PASSAGES in state.outputs:  # other steps are about no corpus
        tags[names.TAG_CORPUS] = corpus
    if state.ended:
        tags[MLFLOW_RUN_NOTE] = notes.of_step(run, state)
    for name, references in state.inputs.items():
        for number, reference in enumerate(references):
            tags[f"{names.INPUT_TAG}{name}.{number:03d}"] = reference.model_dump_json()
    for kind, reference in state.outputs.items():
        tags[f"{names.OUTPUT_TAG}{kind}"] = reference.model_dump_json()
        tags[f"{names.ADDRESS_TAG}{kind}"] = reference.address
    return tags | {f"{names.WARNING_TAG}{number}": text for number, text in enumerate(warnings)}


def model_tags(run: Run, state: StepState, reference: Reference, corpus: str | None) -> dict[str, str]:
    """Returns the tags of a logged model."""
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    tags = {
        names.TAG_SHA256: reference.digest,
        names.TAG_ADDRESS: reference.address,
        names.TAG_ARCHITECTURE: run.architectures.get(StepPath.parse(state.path).row),
        names.TAG_CORPUS: corpus,
        MLFLOW_RUN_NOTE: notes.of_model(run, state, reference),
    }
    return {tag: value for tag, value in tags.items() if value}


def identity(tags: Tags) -> str:
    """Returns MLflow's filter for the run with the tags that identify it."""
    identifying = [names.TAG_RUN, names.TAG_STORE, PARENT_RUN, names.TAG_PATH, names.TAG_ATTEMPT]
    if tags.get(names.TAG_LEVEL) == SYSTEM:
        identifying += [names.TAG_LEVEL, names.TAG_SYSTEM]
    return " and ".join(condition(tag, value) for tag in identifying if (value := tags.get(tag)))


def user() -> str:
    """Returns the name of this process's user; its number where the system knows no name, as for KFP's and OpenShift's users."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def _origin(run: Run) -> Tags:
    """Tags that fill MLflow's columns "Created by" and "Source"."""
    from mlflow.utils import mlflow_tags

    return {
        mlflow_tags.MLFLOW_USER: user(),
        mlflow_tags.MLFLOW_SOURCE_NAME: f"multiview {run.pipeline}",
        mlflow_tags.MLFLOW_SOURCE_TYPE: "LOCAL",
        mlflow_tags.MLFLOW_GIT_COMMIT: run.git_sha,
    }


def _code(state: StepState, record: Record | None) -> Tags:
    """The commit and the image that made a step's outputs; before it has outputs, the ones that run it."""
    code: Tags = {names.TAG_GIT: state.git_sha, names.TAG_IMAGE: state.image}
    if record:
        made: Tags = {tag: record.environment.get(tag) for tag in code}
        code = made if state.status == "found" else {tag: made[tag] or code[tag] for tag in code}
    return code
