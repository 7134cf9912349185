"""A run: one pipeline with one config over one store, and the state of each of its steps.

The same pipeline with the same config is the same run, so the same command continues it. State
files are overwritten as steps go; they say what happened, never whether an artifact is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel

from multiview import names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config import canonical_json
from multiview.errors import InputError

Status = Literal["running", "done", "found", "failed"]


class Context(BaseModel, frozen=True):
    """What every step is told about its run: one small JSON string."""

    store: str
    run: str


class Run(BaseModel, frozen=True):
    """The description of a run, in `runs/<id>/run.json`."""

    id: str
    pipeline: str
    config: dict[str, Any]
    """The settings that were given, as nested overrides of the defaults."""
    preset: str | None = None
    git_sha: str | None = None
    rerun_of: str | None = None
    study: str | None = None
    """The study that this is a row of."""
    compares: list[str] = []
    """The earlier runs that this one compares."""
    steps: list[str] = []
    """Paths of all steps, in order."""
    architectures: dict[str, str] = {}
    """Each system's architecture."""
    created: str = ""
    each_time: bool = False
    """Whether every start on Kubeflow is a run of its own, as a schedule's are; else it continues this one."""


class StepState(BaseModel, frozen=True):
    """The state of one step of a run, in `runs/<id>/steps/<path>.json`."""

    path: str
    step: str
    status: Status
    key: str = ""
    attempt: str = ""
    """Folder of the attempt that made the first output; its events lie beside it."""
    config: dict[str, Any] = {}
    inputs: dict[str, list[Reference]] = {}
    outputs: dict[str, Reference] = {}
    started: float = 0.0
    ended: float | None = None
    error: str | None = None
    bad_input: bool = False
    log: str | None = None
    git_sha: str | None = None
    image: str | None = None
    """Of the code that did the step, or found its outputs."""

    @property
    def finished(self) -> bool:
        """Whether the step has its outputs: this run made them, or found them in the store."""
        return self.status in ("done", "found")


def run_id(pipeline: str, config: dict[str, Any], versions: dict[str, int], **more: Any) -> str:
    """The identity of a run: its pipeline, its settings and the versions of its steps."""
    identity = canonical_json({"pipeline": pipeline, "config": config, "versions": versions, **more})
    return f"{pipeline}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def write_run(store: Store, run: Run) -> None:
    if not run.created:
        run = run.model_copy(update={"created": datetime.now(UTC).isoformat(timespec="seconds")})
    store.create(f"{names.RUNS}/{run.id}/run.json", run.model_dump_json(indent=1).encode())


def read_run(store: Store, run: str) -> Run:
    """Raises InputError if the store has no such run."""
    data = store.read(f"{names.RUNS}/{run}/run.json")
    if data is None:
        known = ", ".join(store.folders(names.RUNS)) or "none"
        raise InputError(f"store {store.url} has no run {run}; it has: {known}")
    return Run.model_validate_json(data)


def write_state(store: Store, run: str, state: StepState) -> None:
    path = f"{names.RUNS}/{run}/steps/{state.path}.json"
    store.replace(path, state.model_dump_json().encode())


def read_state(store: Store, run: str, path: str) -> StepState | None:
    """The state of one step of a run; none where it has not begun."""
    data = store.read(f"{names.RUNS}/{run}/steps/{path}.json")
    return StepState.model_validate(json.loads(data)) if data else None


def read_states(store: Store, run: str, but: Container[str] = ()) -> Iterator[StepState]:
    """States of all steps of a run that have begun, in order of their paths; not of the paths `but`."""
    folder = f"{names.RUNS}/{run}/steps/"
    for file in store.files(folder.rstrip("/")):
        path = file.removeprefix(folder).removesuffix(".json")
        if path in but or path.rsplit("/", 1)[-1].startswith("."):
            continue
        if data := store.read(file):
            yield StepState.model_validate(json.loads(data))


def finished_outputs(states: Iterable[StepState], output: str) -> dict[str, Reference]:
    """The artifact that each finished step has under the name `output`, such as `index`, by the step's path."""
    return {
        state.path: state.outputs[output] for state in states if state.finished and output in state.outputs
    }
