"""A run on its way to MLflow: the MLflow runs of the whole run, its systems and its steps, which shippers share."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from multiview import names
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore, Store
from multiview.evaluation.files import METRICS_FILE, TABLE_FILE
from multiview.evaluation.tables import UNIT, escaped, markdown_table
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import Run, StepState, finished_outputs, studies_of
from multiview.steps.table import STEPS
from multiview.tracking.client import RUN_FILE, connect, deleted, instance, our_experiment, settle
from multiview.tracking.experiment import VIEW_TAG, experiment_tags
from multiview.tracking.mlflow_runs import (
    Tags,
    fill,
    find_mlflow_run,
    identity,
    parameters,
    set_description,
    set_status,
    settle_files,
    short_digest,
    status_of,
)
from multiview.tracking.tags import (
    SYSTEM,
    child_tags,
    corpus_tag,
    later_parent_tags,
    opening_tags,
    parent_tags,
    question_tags,
)

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.entities import Run as MlflowRun

DESCRIPTION_CHARACTERS = 5000
"""Most characters of a table or verdict in a description, which is cut at 8000."""


def claims_of(run: str, uri: str, experiment: Experiment) -> str:
    """Returns the folder, in its store, that says which runs of this MLflow belong to a run."""
    return f"{names.RUNS}/{run}/mlflow/{short_digest(f'{uri} {instance(experiment)}')}"


class Shipment:
    """One run of a store, and its MLflow runs. Files in the store's folder `claims` say which MLflow run belongs to
    what, so that several shippers fill the same ones. The process may be killed after any call to MLflow."""

    def __init__(self, store: Store, run: Run, uri: str, states: list[StepState], ended: str | None = None):
        """`states` are those of all steps that have begun; `ended` is the status of a run that stopped without
        any step recording it."""
        studies = studies_of(store, run)
        self.run = run.model_copy(update={"study": f"|{'|'.join(studies)}|" if studies else None})
        self.store, self.uri, self.states, self.ended = store, uri, states, ended
        self.client = connect(uri)
        experiment = self._experiment(uri)
        self.experiment = experiment.experiment_id
        self.claims = claims_of(run.id, uri, experiment)
        self.corpus = None if self.is_due(names.PASSAGES) else corpus_tag(states)
        self.shared: list[StepState] = []
        """The states of the steps that systems share."""
        self.systems: dict[str, list[StepState]] = {}
        """The states of each system's steps."""
        for state in states:
            system = StepPath.parse(state.path).system
            (self.systems.setdefault(system, []) if system else self.shared).append(state)

    def is_due(self, kind: str) -> bool:
        """Whether a step of the run has yet to make its artifact of a kind: one that is there already is another's."""
        finished = {state.path for state in self.states if state.finished}
        due = {StepPath.parse(path).step for path in self.run.steps if path not in finished}
        return any(kind in STEPS[step].outputs for step in due if step in STEPS)

    def _experiment(self, uri: str) -> Experiment:
        found = our_experiment(self.client)
        if found is None:
            local = uri.startswith("sqlite") and isinstance(self.store, LocalStore)
            location = f"{self.store.url}/mlflow" if local else None
            created = self.client.create_experiment(names.EXPERIMENT, artifact_location=location)
            found = self.client.get_experiment(created)
        for tag, value in experiment_tags(found.experiment_id).items():
            # Another description may be a person's; another view is that of an earlier version.
            if tag not in found.tags or (tag == VIEW_TAG and found.tags[tag] != value):
                self.client.set_experiment_tag(found.experiment_id, tag, value)
        return found

    def claimed(self, name: str, run_name: str, tags: Tags, started: float) -> str:
        """Returns the id of the MLflow run claimed under a name, created if there is none. `started` is in seconds.

        A run whose shipper was killed before claiming it is found by its tags. If shippers race, or MLflow's client
        creates a second run because an answer was lost, the run that was claimed first is kept and others are deleted.
        """
        path = f"{self.claims}/{name}"
        if (claimed := self.store.read(path)) is not None:
            return claimed.decode()
        found = self.client.search_runs([self.experiment], identity(tags))
        if not found:
            run = self.client.create_run(
                self.experiment,
                start_time=round(started * 1000),
                tags={tag: value for tag, value in tags.items() if value},
                run_name=run_name,
            )
            found = self.client.search_runs([self.experiment], identity(tags)) or [run]
        settle(self.uri)
        self.store.create(path, found[0].info.run_id.encode())
        claimed = self.store.read(path)
        assert claimed is not None, "claims are only removed with their run"
        for run in found:
            if run.info.run_id != claimed.decode():
                self.client.delete_run(run.info.run_id)
        return claimed.decode()

    def parent(self) -> str:
        """Returns the id of the whole run's MLflow run, filled with what its steps have told so far."""
        tags = parent_tags(self.run, self.store)
        started = datetime.fromisoformat(self.run.created).timestamp()
        parent = self.claimed("parent", self.run.id, tags, started)
        known = self._run(parent)
        if known is None:  # collected by `mlflow gc`, as those below it
            self.store.remove(self.claims)
            parent = self.claimed("parent", self.run.id, tags, started)
            known = self.client.get_run(parent)
        if names.TAG_DESCRIBED not in known.data.tags:
            fill(self.client, known, parameters(self.run.config))
            self.client.log_text(parent, self.run.model_dump_json(indent=1), RUN_FILE)
            settle_files(known)
            self.client.set_tag(parent, names.TAG_DESCRIBED, RUN_FILE)
        fill(self.client, known, tags=later_parent_tags(self.run, self.store, self.states, self.corpus))
        return parent

    def _run(self, id_: str) -> MlflowRun | None:
        """Returns a run of MLflow; None if there is none. Raises TrackingUnavailable if it was deleted."""
        run = find_mlflow_run(self.client, id_)
        if run and run.info.lifecycle_stage == "deleted":
            raise deleted("run", self.run.id, id_)
        return run

    def system(self, parent: str, system: str) -> str:
        """Returns the id of a system's MLflow run."""
        name = system if self.run.pipeline == "comparison" else f"{system} of {self.run.id}"
        started = min(state.started for state in self.systems[system])
        tags = opening_tags(self.run, SYSTEM, parent, system)
        return self.claimed(f"systems/{system}", name, tags, started)

    def child(self, parent: str, state: StepState, children: dict[str, MlflowRun]) -> MlflowRun:
        """Returns the MLflow run of a step's attempt, below its system's or, if systems share the step, below `parent`.
        The runs of its other attempts are deleted, and taken out of `children`."""
        system = StepPath.parse(state.path).system
        tags = child_tags(self.run, state, self.system(parent, system) if system else parent)
        attempt = tags[names.TAG_ATTEMPT]
        for run_id, child in list(children.items()):
            known = child.data.tags
            if known[names.TAG_PATH] == state.path and known.get(names.TAG_ATTEMPT) != attempt:
                self.client.delete_run(run_id)
                self.store.remove(f"{self.claims}/steps/{state.path}/{known.get(names.TAG_ATTEMPT)}")
                del children[run_id]
        claimed = self.claimed(f"steps/{state.path}/{attempt}", state.path, tags, state.started)
        return self.client.get_run(claimed)  # a search omits the models that a run read and made

    def end(self, parent: str) -> None:
        """Sets the whole run's status by its steps; once it has ended, also its description and the gate's decision."""
        status = status_of(self.states, self.run.steps, self.ended)
        now = self.client.get_run(parent)
        if status != "RUNNING":
            set_description(self.client, now, description(self.store, self.run, self.states, self.corpus))
            for state in self.states:
                if state.step == "gate" and (record := read_record(self.store, names.VERDICT, state.key)):
                    fill(self.client, now, tags={"decision": record.facts["decision"]})
        set_status(self.client, now, status, max((s.ended for s in self.states if s.ended), default=0.0))


# --- the description of a run: its results, and commands to continue ---------------------------------


def description(store: Store, run: Run, states: list[StepState], corpus: str | None) -> str:
    """Returns the description of a run as Markdown: its subject, its table, and the commands that continue from it."""
    of_steps = dict.fromkeys(filter(None, (StepPath.parse(path).system for path in run.steps)))
    systems = ", ".join(of_steps or run.architectures)
    subject = (
        f"{run.pipeline}{f' of {systems}' if systems else ''}{f' over {escaped(corpus)}' if corpus else ''}"
    )
    failed = [f"- {state.path}: {escaped(state.error or '')}" for state in states if state.status == "failed"]
    sections = (
        subject,
        "; ".join(f"{tag.replace('_', ' ')} {how}" for tag, how in sorted(question_tags(states).items())),
        "\n".join(["Failed:", "", *failed]) if failed else "",
        _verdict(store, states),
        _table(store, states),
        _next(run, states),
    )
    return "\n\n".join(section for section in sections if section)


def _verdict(store: Store, states: list[StepState]) -> str:
    """The verdict on a refresh's challenger; empty for other runs."""
    found = (_file(store, state, names.VERDICT, names.VERDICT_TEXT_FILE) for state in states)
    return _cut(next((text.decode() for text in found if text), ""))


def _table(store: Store, states: list[StepState]) -> str:
    """The table of the run's comparison, or of its evaluations."""
    for state in states:
        if text := _file(store, state, names.COMPARISON, TABLE_FILE):
            return _cut(text.decode())
    metrics = {
        StepPath.parse(state.path).row: measured
        for state in states
        if (text := _file(store, state, names.EVALUATION, METRICS_FILE)) and (measured := json.loads(text))
    }
    return _cut(f"{markdown_table(metrics)}\n{UNIT}") if metrics else ""


def _cut(text: str) -> str:
    """The first lines of a text, as many as the description holds."""
    return text if len(text) < DESCRIPTION_CHARACTERS else text[:DESCRIPTION_CHARACTERS].rpartition("\n")[0]


def _file(store: Store, state: StepState, kind: str, name: str) -> bytes | None:
    """A file of a step's output; None where the step has no such output, or it is not in this store."""
    if kind not in state.outputs:
        return None
    record = state.outputs[kind].record_in(store)
    return store.read(f"{record.data}/{name}") if record else None


def _next(run: Run, states: list[StepState]) -> str:
    """Commands for the lineage, a search in the last index of each system, and a rerun."""
    made = [state for state in states if state.finished and state.step in STEPS]
    outputs = finished_outputs((state for state in made if not STEPS[state.step].forwards), names.INDEX)
    last = last_rounds(StepPath.parse(path) for path in sorted(outputs))
    indexes = [(outputs[str(path)].address, row) for row, path in last.items()]
    evaluated = [state.path for state in made if state.step == "evaluate"]
    commands = [f"multiview lineage {run.id} --verify"] if made else []
    commands += [f"multiview search QUESTION --index {address}  # {row}" for address, row in indexes[:6]]
    commands += [f"python -m pipelines rerun {path} --from {run.id}" for path in evaluated[-1:]]
    return "\n".join(["```", *commands, "```"]) if commands else ""
