"""Shipping of a run: its state and event files become MLflow runs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from multiview import names
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError
from multiview.steps.events import read_events
from multiview.steps.runs import Run, StepState, read_run, read_states
from multiview.tracking import notes
from multiview.tracking.client import RUN_FILE, children_of, connect, database, explained
from multiview.tracking.corpus import corpus_tag
from multiview.tracking.registry import mirror
from multiview.tracking.run_contents import RunContents, flatten, parts
from multiview.tracking.tags import (
    EXPERIMENT_TAGS,
    Tags,
    child_tags,
    identity,
    later_parent_tags,
    parent_tags,
    user,
)

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.entities import Run as MlflowRun


def ship(
    store: Store, run_id: str, uri: str, only: Collection[str] | None = None, failed: bool = False
) -> bool:
    """Brings MLflow up to date with one run of a store; returns False if there was nothing new.

    `only` ships the steps of these paths, as a pod does with its step, and leaves the run's end open.
    `failed` ends the run as failed although no step has failed, as after a pod that was killed.
    Shippers on one machine take turns by a file lock, because two processes must not open MLflow's
    SQLite store while it is new. Shippers on different machines claim each MLflow run by an
    exclusively created file in the store. Raises InputError if MLflow cannot be reached.
    """
    name = _short_digest(f"{user()} {uri}")
    with explained(uri), FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run, states = read_run(store, run_id), list(read_states(store, run_id))
        states.sort(key=lambda state: state.started)
        if only is not None:
            _Shipper(store, run, uri, states).ship([state for state in states if state.path in only])
            return True
        marker = f"{names.RUNS}/{run_id}/mlflow/shipped"
        if store.read(marker) == _fingerprint(store, states, uri) and not failed:
            _mirror(store, uri, states)
            return False
        shipper = _Shipper(store, run, uri, states)
        shipper.end(shipper.ship(states), states, failed)
        _mirror(store, uri, states)
        store.replace(marker, _fingerprint(store, states, uri))
        return True


def link(uri: str, plugin_run: str, run_id: str, path: str) -> None:
    """Tags the run `plugin_run`, which Kubeflow's MLflow plugin made for a step, with the step.

    The step also has an MLflow run of its own, which `ship` makes.

    Raises InputError if MLflow cannot be reached or has no such run.
    """
    with explained(uri):
        client = connect(uri)
        client.set_tag(plugin_run, names.TAG_STEP_OF, run_id)
        client.set_tag(plugin_run, names.TAG_PATH, path)


def sync(store: Store, uri: str) -> tuple[list[str], dict[str, str]]:
    """Ships every run of a store; returns the ids of runs with something new, and the error of each run that failed."""
    shipped, failed = [], {}
    runs = store.folders(names.RUNS)
    if not runs:
        raise InputError(f"store {store.url} has no runs: is it the right one?")
    for run in runs:
        try:
            if ship(store, run, uri):
                shipped.append(run)
        except InputError as error:
            failed[run] = str(error)
    mirror(store, uri)
    return shipped, failed


class _Shipper:
    """Ships one run to MLflow. The process may be killed after any call to MLflow; no call is repeated."""

    def __init__(self, store: Store, run: Run, uri: str, states: list[StepState]):
        """`states` are the states of all steps that have begun."""
        self.store, self.run, self.states = store, run, states
        self.client = connect(uri)
        experiment = self._experiment(uri)
        self.experiment = experiment.experiment_id
        instance = f"{uri} {experiment.experiment_id} {experiment.creation_time}"
        self.corpus = corpus_tag(states)
        self.contents = RunContents(store, run, self.client, self.experiment, self.corpus)
        self.claims = f"{names.RUNS}/{run.id}/mlflow/{_short_digest(instance)}"

    def ship(self, states: list[StepState]) -> str:
        """Ships these steps, and returns the id of the run's parent."""
        parent = self._parent()
        children = {child.info.run_id: child for child in children_of(self.client, self.experiment, parent)}
        for state in states:
            child = self._child(parent, state, children)
            if names.TAG_COMPLETE in child.data.tags:
                continue
            self.contents.report_events(parent, child, state)
            self.contents.report_links(child, state)
            self.contents.report_files(parent, child, state)
            self._report_status(child, state)
        self.contents.report_data(parent, self.states)
        return parent

    def _experiment(self, uri: str) -> Experiment:
        if found := self.client.get_experiment_by_name(names.EXPERIMENT):
            return found
        local = uri.startswith("sqlite") and isinstance(self.store, LocalStore)
        location = f"{self.store.url}/mlflow" if local else None
        experiment = self.client.create_experiment(
            names.EXPERIMENT, artifact_location=location, tags=EXPERIMENT_TAGS
        )
        return self.client.get_experiment(experiment)

    def _claimed(self, name: str, run_name: str, tags: Tags, started: float | None) -> str:
        """Id of the MLflow run claimed under a name, which is created if there is none; of several shippers that race,
        the first one's.

        A run that a shipper created and was killed before claiming is found by its tags.
        """
        path = f"{self.claims}/{name}"
        if (claimed := self.store.read(path)) is not None:
            return claimed.decode()
        found = self.client.search_runs([self.experiment], identity(tags))
        run = found[0] if found else None
        if run is None:
            run = self.client.create_run(
                self.experiment,
                start_time=None if started is None else round(started * 1000),
                tags={tag: value for tag, value in tags.items() if value},
                run_name=run_name,
            )
        self.store.create(path, run.info.run_id.encode())
        claimed = self.store.read(path)
        assert claimed is not None, "claims are only removed with their run"
        if claimed.decode() != run.info.run_id:
            self.client.delete_run(run.info.run_id)
        return claimed.decode()

    def _parent(self) -> str:
        from mlflow.entities import Param

        tags = parent_tags(self.run, self.store)
        started = datetime.fromisoformat(self.run.created).timestamp()
        parent = self._claimed("parent", self.run.id, tags, started)
        known = self.client.get_run(parent).data.tags
        if names.TAG_DESCRIBED not in known:
            for part in parts(list(flatten(self.run.config)), 100):
                self.client.log_batch(parent, params=[Param(n, v[:6000]) for n, v in part])
            self.client.log_text(parent, self.run.model_dump_json(indent=1), RUN_FILE)
            self.client.set_tag(parent, names.TAG_DESCRIBED, RUN_FILE)
        later = later_parent_tags(self.run, self.store, self.states, self.corpus)
        for tag, value in later.items():
            if value and known.get(tag) != value:
                self.client.set_tag(parent, tag, value)
        return parent

    def _child(self, parent: str, state: StepState, children: dict[str, MlflowRun]) -> MlflowRun:
        """The child run of a step's attempt. Child runs of the step's other attempts are deleted."""
        tags = child_tags(self.run, state, parent)
        attempt = tags[names.TAG_ATTEMPT]
        for run_id, child in list(children.items()):
            known = child.data.tags
            if known[names.TAG_PATH] == state.path and known.get(names.TAG_ATTEMPT) != attempt:
                self.client.delete_run(run_id)
                self.store.remove(f"{self.claims}/steps/{state.path}/{known.get(names.TAG_ATTEMPT)}")
                del children[run_id]
        claimed = self._claimed(f"steps/{state.path}/{attempt}", state.path, tags, state.started)
        return self.client.get_run(claimed)  # a search omits the models that a run read and made

    def _report_status(self, child: MlflowRun, state: StepState) -> None:
        status = {"running": "RUNNING", "failed": "FAILED"}.get(state.status, "FINISHED")
        self._set_status(child.info.run_id, child.info.status, status, state.ended or state.started)
        if status == "FINISHED":
            self.client.set_tag(child.info.run_id, names.TAG_COMPLETE, "true")

    def end(self, parent: str, states: Iterable[StepState], failed: bool) -> None:
        """Sets the parent's status from the statuses of its steps."""
        statuses = {state.path: state.status for state in states}
        if failed or "failed" in statuses.values():
            status = "FAILED"
        elif set(self.run.steps) <= {p for p, s in statuses.items() if s in ("done", "found")}:
            status = "FINISHED"
        else:
            status = "RUNNING"
        ended = max((state.ended for state in states if state.ended), default=0.0)
        now = self.client.get_run(parent)
        if status != "RUNNING":
            self._describe(now)
            self._report_decision(now, states)
        self._set_status(parent, now.info.status, status, ended)

    def _describe(self, parent: MlflowRun) -> None:
        """Sets the run's description, unless a person has written another."""
        from mlflow.entities import RunTag
        from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

        tags, note = parent.data.tags, notes.of_run(self.store, self.run, self.states, self.corpus)
        current = tags.get(MLFLOW_RUN_NOTE, "")
        if current != note and (not current or tags.get(names.TAG_NOTED) == _short_digest(current)):
            new_tags = {MLFLOW_RUN_NOTE: note, names.TAG_NOTED: _short_digest(note)}
            self.client.log_batch(
                parent.info.run_id, tags=[RunTag(tag, text) for tag, text in new_tags.items()]
            )

    def _report_decision(self, parent: MlflowRun, states: Iterable[StepState]) -> None:
        """Sets a tag with a refresh's decision, to filter runs by."""
        for state in states:
            record = read_record(self.store, names.VERDICT, state.key) if state.step == "gate" else None
            if record and parent.data.tags.get(names.TAG_DECISION) != record.facts["decision"]:
                self.client.set_tag(parent.info.run_id, names.TAG_DECISION, record.facts["decision"])

    def _set_status(self, run: str, current: str, status: str, ended: float) -> None:
        if current == status:
            return
        if status == "RUNNING":
            self.client.update_run(run, status=status)
        else:
            self.client.set_terminated(run, status, round(ended * 1000))


def _mirror(store: Store, uri: str, states: Iterable[StepState]) -> None:
    """After a refresh, sets MLflow's aliases to the store's champions."""
    if any(state.step == "promote" and names.PROMOTION in state.outputs for state in states):
        mirror(store, uri)


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fingerprint(store: Store, states: Iterable[StepState], uri: str) -> bytes:
    """Digest of the state that MLflow should have of a run, and of the database that has it."""
    lines = [uri, database(uri)]
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        status = "done" if state.status == "found" else state.status
        lines.append(f"{state.path} {state.key} {state.attempt} {status} {events}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest().encode()
