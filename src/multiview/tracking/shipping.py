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
from multiview.tracking.client import RUN_FILE, Away, connect, database, explained
from multiview.tracking.experiment import VIEW_TAG, experiment_tags
from multiview.tracking.mlflow_runs import (
    Claims,
    fill,
    parameters,
    runs_below,
    set_description,
    set_status,
    short_digest,
    status_of,
)
from multiview.tracking.registry import mirror
from multiview.tracking.run_contents import RunContents
from multiview.tracking.systems import Systems
from multiview.tracking.tags import child_tags, corpus_tag, later_parent_tags, parent_tags, user

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.entities import Run as MlflowRun

LAYOUT = "systems"
"""The layout of the MLflow runs. A run that was shipped in another layout is shipped again."""


def ship(
    store: Store, run_id: str, uri: str, only: Collection[str] | None = None, failed: bool = False
) -> bool:
    """Brings MLflow up to date with one run of a store; returns False if there was nothing new.

    `only` ships the steps of these paths, as a pod does with its step, and leaves the run's end open.
    `failed` ends the run as failed although no step has failed, as after a pod that was killed.
    Shippers on one machine take turns by a file lock, because two processes must not open MLflow's
    SQLite store while it is new. The lock's file, one per MLflow, stays: while one process waits for it, a removed and
    newly made file would be a second lock. Shippers on different machines claim each MLflow run by an
    exclusively created file in the store. Raises InputError if MLflow cannot be reached.
    """
    name = short_digest(f"{user()} {uri}")
    with explained(uri), FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run, states = read_run(store, run_id), list(read_states(store, run_id))
        states.sort(key=lambda state: state.started)
        if only is not None:
            shipper, mine = _Shipper(store, run, uri, states), [s for s in states if s.path in only]
            shipper.systems.report(shipper.ship(mine), mine)
            return True
        marker = f"{names.RUNS}/{run_id}/mlflow/shipped"
        if store.read(marker) == _fingerprint(store, states, uri) and not failed:
            _mirror(store, uri, states)
            return False
        shipper = _Shipper(store, run, uri, states)
        parent = shipper.ship(states)
        shipper.systems.report(parent, states, failed)
        shipper.end(parent, failed)
        _mirror(store, uri, states)
        store.replace(marker, _fingerprint(store, states, uri))
        return True


def link(uri: str, plugin_run: str, run_id: str, path: str) -> None:
    """Tags the run `plugin_run`, which Kubeflow's MLflow plugin made for a step, with the step.

    `ship` makes a separate MLflow run for the step.

    Raises InputError if MLflow cannot be reached or has no such run.
    """
    with explained(uri):
        client = connect(uri)
        client.set_tag(plugin_run, names.TAG_STEP_OF, run_id)
        client.set_tag(plugin_run, names.TAG_PATH, path)


def sync(store: Store, uri: str) -> tuple[list[str], dict[str, str]]:
    """Ships every run of a store; returns the ids of runs with something new, and the error of each run that failed.

    Raises InputError, without trying the other runs, if MLflow cannot be reached.
    """
    shipped, failed = [], {}
    runs = store.folders(names.RUNS)
    if not runs:
        store.check_exists()
        raise InputError(f"store {store.url} has no runs: is it the right one?")
    for run in runs:
        try:
            if ship(store, run, uri):
                shipped.append(run)
        except Away:
            raise
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
        folder = f"{names.RUNS}/{run.id}/mlflow/{short_digest(instance)}"
        self.claims = Claims(store, self.client, self.experiment, folder)
        self.systems = Systems(store, run, self.client, self.claims, states, self.corpus)

    def ship(self, states: list[StepState]) -> str:
        """Ships these steps, and returns the id of the run's parent."""
        parent = self._parent()
        below = runs_below(self.client, self.experiment, self.run.id, parent)
        children = {child.info.run_id: child for child in below if names.TAG_PATH in child.data.tags}
        for state in states:
            child = self._child(self.systems.above(parent, state.path), state, children)
            if names.TAG_COMPLETE in child.data.tags:
                continue
            self.contents.report_events(parent, child, state)
            self.contents.report_links(child, state)
            self.contents.report_files(parent, child, state)
            status = status_of([state], [state.path])
            set_status(self.client, child, status, state.ended or state.started)
            if status == "FINISHED":
                self.client.set_tag(child.info.run_id, names.TAG_COMPLETE, "true")
        self.contents.report_data(parent, self.states)
        return parent

    def _experiment(self, uri: str) -> Experiment:
        found = self.client.get_experiment_by_name(names.EXPERIMENT)
        if found is None:
            local = uri.startswith("sqlite") and isinstance(self.store, LocalStore)
            location = f"{self.store.url}/mlflow" if local else None
            created = self.client.create_experiment(names.EXPERIMENT, artifact_location=location)
            found = self.client.get_experiment(created)
        for tag, value in experiment_tags(found.experiment_id).items():
            # A person may have written another description; the view is an earlier version's, if it differs.
            if tag not in found.tags or (tag == VIEW_TAG and found.tags[tag] != value):
                self.client.set_experiment_tag(found.experiment_id, tag, value)
        return found

    def _parent(self) -> str:
        tags = parent_tags(self.run, self.store)
        started = datetime.fromisoformat(self.run.created).timestamp()
        parent = self.claims.claimed("parent", self.run.id, tags, started)
        known = self.client.get_run(parent)
        if names.TAG_DESCRIBED not in known.data.tags:
            fill(self.client, known, parameters(self.run.config))
            self.client.log_text(parent, self.run.model_dump_json(indent=1), RUN_FILE)
            self.client.set_tag(parent, names.TAG_DESCRIBED, RUN_FILE)
        fill(self.client, known, tags=later_parent_tags(self.run, self.store, self.states, self.corpus))
        return parent

    def _child(self, parent: str, state: StepState, children: dict[str, MlflowRun]) -> MlflowRun:
        """The child run of a step's attempt. Child runs of the step's other attempts are deleted."""
        tags = child_tags(self.run, state, parent)
        attempt = tags[names.TAG_ATTEMPT]
        for run_id, child in list(children.items()):
            known = child.data.tags
            if known[names.TAG_PATH] == state.path and known.get(names.TAG_ATTEMPT) != attempt:
                self.client.delete_run(run_id)
                self.claims.release(f"steps/{state.path}/{known.get(names.TAG_ATTEMPT)}")
                del children[run_id]
        claimed = self.claims.claimed(f"steps/{state.path}/{attempt}", state.path, tags, state.started)
        return self.client.get_run(claimed)  # a search omits the models that a run read and made

    def end(self, parent: str, failed: bool) -> None:
        """Sets the parent's status from the statuses of its steps, and its description and decision once it has ended."""
        status = "FAILED" if failed else status_of(self.states, self.run.steps)
        now = self.client.get_run(parent)
        if status != "RUNNING":
            compared = self.systems.compare_page(parent, self.experiment)
            note = notes.of_run(self.store, self.run, self.states, self.corpus, compared)
            set_description(self.client, now, note)
            gates = (state for state in self.states if state.step == "gate")
            for record in (read_record(self.store, names.VERDICT, state.key) for state in gates):
                if record:
                    fill(self.client, now, tags={names.TAG_DECISION: record.facts["decision"]})
        ended = max((state.ended for state in self.states if state.ended), default=0.0)
        set_status(self.client, now, status, ended)


def _mirror(store: Store, uri: str, states: Iterable[StepState]) -> None:
    """After a refresh, sets MLflow's aliases to the store's champions."""
    if any(state.step == "promote" and names.PROMOTION in state.outputs for state in states):
        mirror(store, uri)


def _fingerprint(store: Store, states: Iterable[StepState], uri: str) -> bytes:
    """Digest of the state that MLflow should have of a run, and of the database that has it."""
    lines = [LAYOUT, uri, database(uri)]
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        status = "done" if state.status == "found" else state.status
        lines.append(f"{state.path} {state.key} {state.attempt} {status} {events}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest().encode()
