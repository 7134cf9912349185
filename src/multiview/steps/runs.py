"""A run: one pipeline with one config over one store, and the state of each of its steps.

The same command continues the same run. State files are overwritten while steps run; they describe events and never
decide whether an artifact is complete.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from multiview import names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config import JsonObject, canonical_json, text_sha256
from multiview.errors import InputError

Status = Literal["running", "done", "found", "failed", "killed"]


class Pages(BaseModel, frozen=True):
    """The pages of a run, for notices; None if an address is not known."""

    kubeflow: str | None = None
    """Kubeflow page of this start."""
    mlflow: str | None = None


NO_PAGES = Pages()


class RunReference(BaseModel, frozen=True):
    """The run of a step on Kubeflow, passed to every step as one small JSON string."""

    store: str
    run: str
    pages: Pages = NO_PAGES


class Run(BaseModel, frozen=True):
    """The description of a run, in `runs/<id>/run.json`."""

    id: str
    pipeline: str
    config: JsonObject
    """The changed settings, as nested overrides of the defaults."""
    preset: str | None = None
    git_sha: str | None = None
    rerun_of: str | None = None
    study: str | None = None
    """The study that has this run as a row."""
    compares: list[str] = []
    """The ids of the earlier runs that this run compares."""
    steps: list[str] = []
    architectures: dict[str, str] = {}
    created: str = ""
    each_time: bool = False
    """Whether every start on Kubeflow is a separate run, as for schedules; otherwise it continues this run."""


class Start(BaseModel, frozen=True):
    """Outcome of the first step of a run's start on Kubeflow, in `starts/<Kubeflow's id>.json`."""

    run: str | None = None
    error: str | None = None
    notified: bool = False
    """Whether its failure was sent to `notify.url`."""


class StepState(BaseModel, frozen=True):
    """The state of one step of a run, in `runs/<id>/steps/<path>.json`."""

    path: str
    step: str
    status: Status
    key: str = ""
    attempt: str = ""
    """Folder of the attempt that made the first output; its events are beside it."""
    config: JsonObject = {}
    inputs: dict[str, list[Reference]] = {}
    outputs: dict[str, Reference] = {}
    started: float = 0.0
    ended: float | None = None
    error: str | None = None
    bad_input: bool = False
    git_sha: str | None = None
    image: str | None = None
    """The image of the code that did the step, or found its outputs."""

    @property
    def read(self) -> list[Reference]:
        """Everything that the step read."""
        return [reference for references in self.inputs.values() for reference in references]

    @property
    def finished(self) -> bool:
        """Whether the step has its outputs, either made by this run or found in the store."""
        return self.status in ("done", "found")

    @property
    def failed(self) -> bool:
        """Whether the step ended without its outputs: by its own error, or because its pod was told to end."""
        return self.status in ("failed", "killed")


MARKS: dict[Status, str] = {"running": " ", "done": "✓", "found": "✓", "failed": "✗", "killed": "✗"}


def lines_about(state: StepState, number: str = "", width: int = 0) -> Iterator[str]:
    """Yields a log's lines about a step that begins or ends; `number` is its place in the run, and `width` pads it."""
    taken = {"running": "started", "found": "found"}.get(state.status, duration(state))
    yield f"{MARKS[state.status]} {number}{state.path:<{width}} {taken}"
    if state.status == "done":
        for kind, output in state.outputs.items():
            yield noted(state.path, f"wrote {kind} {output.address}")


def noted(path: str, text: str) -> str:
    """Returns a log's line about a working step."""
    return f"  {path}: {text}"


def duration(state: StepState) -> str:
    seconds = (state.ended or state.started) - state.started
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


Parsed = TypeVar("Parsed")


def run_id(pipeline: str, config: JsonObject, versions: dict[str, int], **more: object) -> str:
    """Returns the identity of a run, made of its pipeline, its settings and the versions of its steps."""
    identity = canonical_json({"pipeline": pipeline, "config": config, "versions": versions, **more})
    return f"{pipeline}-{text_sha256(identity)[:10]}"


def write_run(store: Store, run: Run) -> None:
    if not run.created:
        run = run.model_copy(update={"created": datetime.now(UTC).isoformat(timespec="seconds")})
    store.create(_run_file(run.id), run.model_dump_json(indent=1).encode())
    if run.study:  # another study, or a plain command, may have made this run before
        store.create(f"{_studies(run.id)}/{run.study}", b"")


def studies_of(store: Store, run: Run) -> list[str]:
    """Returns the names of the studies that a run is a row of."""
    found = {file.rpartition("/")[2] for file in store.files(_studies(run.id))} | {run.study or ""}
    # A hidden file is still being written.
    return sorted(name for name in found if name and not name.startswith("."))


def _studies(run: str) -> str:
    return f"{names.RUNS}/{run}/studies"


def find_run(store: Store, run: str) -> Run | None:
    """Returns the description of a run; None if it has none. Raises InputError for a damaged one."""
    return _read(Run, store, _run_file(run), "the command that began the run writes it anew")


def read_run(store: Store, run: str) -> Run:
    """Returns the description of a run. Raises InputError if the store has no such run, or for a damaged one."""
    if described := find_run(store, run):
        return described
    known = ", ".join(store.folders(names.RUNS)) or "none"
    raise InputError(f"store {store.url} has no run {run}; it has: {known}")


def _run_file(run: str) -> str:
    return f"{names.RUNS}/{run}/run.json"


def _read(kind: type[Parsed], store: Store, file: str, way_out: str) -> Parsed | None:
    """Returns what a file holds; None if there is none. Raises InputError for a damaged one."""
    if (data := store.read(file)) is None:
        return None
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError:
        raise InputError(f"{store.url}/{file} is damaged: remove it, and {way_out}") from None


def write_settings(store: Store, run: str, settings: Mapping[str, str]) -> None:
    """Writes the canonical JSON of each step's settings, by the step's path without its shard."""
    store.replace(_settings_file(run), json.dumps(dict(settings), indent=1).encode())


def read_settings(store: Store, run: str, path: str) -> str:
    """Returns the canonical JSON of a step's settings. Raises InputError if there are none, or for a damaged file."""
    settings = _read(dict[str, str], store, _settings_file(run), "start the run again to write it anew") or {}
    if path not in settings:
        raise InputError(
            f"run {run} of store {store.url} has no settings of step {path}: start the run again"
        )
    return settings[path]


def _settings_file(run: str) -> str:
    return f"{names.RUNS}/{run}/{names.STEP_SETTINGS_FILE}"


def write_state(store: Store, run: str, state: StepState) -> None:
    store.replace(_state_file(run, state.path), state.model_dump_json().encode())


def write_start(store: Store, job: str, start: Start) -> None:
    store.replace(f"{names.STARTS}/{job}.json", start.model_dump_json().encode())


def read_start(store: Store, job: str) -> Start:
    """Returns the outcome of a start, by Kubeflow's id; an empty one if it is unknown. Raises InputError if damaged."""
    return _read(Start, store, f"{names.STARTS}/{job}.json", "start the run again on Kubeflow") or Start()


def read_state(store: Store, run: str, path: str) -> StepState | None:
    """Returns the state of one step of a run; None if it has not begun."""
    return _read(StepState, store, _state_file(run, path), "run again to write it anew")


def read_states(store: Store, run: str, but: Container[str] = ()) -> Iterator[StepState]:
    """Yields the states of all steps of a run that have begun, except the paths `but`, in order of their paths."""
    folder = f"{names.RUNS}/{run}/steps"
    for file in store.files(folder):
        path = file[len(folder) + 1 :].removesuffix(".json")
        hidden = path.rpartition("/")[2].startswith(".")  # still being written
        if not hidden and path not in but and (state := read_state(store, run, path)):
            yield state


def remove_state(store: Store, run: str, path: str) -> None:
    """Forgets a step's state, as if it had not begun."""
    store.remove(_state_file(run, path))


def _state_file(run: str, path: str) -> str:
    return f"{names.RUNS}/{run}/steps/{path}.json"


def finished_outputs(states: Iterable[StepState], output: str) -> dict[str, Reference]:
    """Returns the output called `output`, such as `index`, of each finished step that has one, by the step's path."""
    return {
        state.path: state.outputs[output] for state in states if state.finished and output in state.outputs
    }
