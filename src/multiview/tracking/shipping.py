"""Shipping of a run: its state and event files become MLflow runs."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
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

SHIP_SECONDS = 20.0
"""Seconds between two shipments of a run in progress."""

SOON_SECONDS = 3.0
"""Seconds before the first shipment of a run that starts at once: its first step is then at work, in another process."""

END_SECONDS = 60.0
"""Seconds that the end of a run waits for a shipment that is under way."""

STEP_END_SECONDS = 10.0
"""Seconds that the end of a step in its pod waits for shipments that are under way."""

LAYOUT = "systems"
"""The layout of the MLflow runs. A run that was shipped in another layout is shipped again."""


def ship(
    store: Store, run_id: str, uri: str, only: Collection[str] | None = None, failed: bool = False
) -> bool:
    """Brings MLflow up to date with one run of a store; returns False if there was nothing new.

    `only` ships the steps with these paths, as a pod does with its step, and leaves the run's end open. `failed` ends
    the run as failed although no step has failed, as when a pod was killed.

    Two processes must not open MLflow's SQLite store while it is new, so shippers on one machine take turns by a file
    lock, whose file stays: a new file would be a second lock. Shippers on different machines claim each MLflow run by
    an exclusively created file in the store. Raises InputError if MLflow cannot be reached.
    """
    name = short_digest(f"{user()} {uri}")
    with explained(uri), FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run = read_run(store, run_id)
        states = sorted(read_states(store, run_id), key=lambda state: state.started)
        marker = f"{names.RUNS}/{run_id}/mlflow/shipped"
        if only is not None:
            mine = [state for state in states if state.path in only]
            _Shipper(store, run, uri, states).ship(mine)
            return True
        new = failed or store.read(marker) != _fingerprint(store, states, uri)
        if new:
            shipper = _Shipper(store, run, uri, states)
            shipper.end(shipper.ship(states, failed), failed)
        if any(state.step == "promote" and names.PROMOTION in state.outputs for state in states):
            mirror(store, uri)
        if new:
            store.replace(marker, _fingerprint(store, states, uri))
        return new


@contextlib.contextmanager
def ship_live(
    store: Store,
    run_id: str,
    uri: str,
    only: Collection[str] | None = None,
    soon: bool = False,
    end_seconds: float | None = None,
) -> Iterator[None]:
    """Ships a run, or `only` the steps with some paths, now and then while the block runs.

    A shipment under way at the end has `end_seconds` more, by default `END_SECONDS`. With `soon` the first shipment is
    after `SOON_SECONDS`: MLflow takes seconds to start, which a short run would spend at its end. Results never wait
    for MLflow: a shipment that fails is left to a later one.
    """
    ended = threading.Event()

    def ship_now_and_then() -> None:
        pause = min(SOON_SECONDS, SHIP_SECONDS) if soon else SHIP_SECONDS
        while not ended.wait(pause):
            with contextlib.suppress(Exception):
                ship(store, run_id, uri, only)
            pause = SHIP_SECONDS

    thread = _started(ship_now_and_then)
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=END_SECONDS if end_seconds is None else end_seconds)


@contextlib.contextmanager
def ship_step_live(
    store: Store, run_id: str, path: str, uri: str, plugin_run: str | None = None
) -> Iterator[None]:
    """Ships one step of a run while the block runs, and once more at its end.

    `plugin_run` is the run that Kubeflow's MLflow plugin made for the step, if any: it is tagged with the step. A
    shipment that fails, or has not ended `STEP_END_SECONDS` after the step, is left to the run's last step or to
    `multiview sync`: no step waits for a slow server.
    """

    def ship_at_last() -> None:
        with contextlib.suppress(Exception):
            if plugin_run:
                client = connect(uri)
                client.set_tag(plugin_run, names.TAG_STEP_OF, run_id)
                client.set_tag(plugin_run, names.TAG_PATH, path)
            ship(store, run_id, uri, only={path})

    ended = 0.0
    try:
        with ship_live(store, run_id, uri, {path}, end_seconds=STEP_END_SECONDS):
            try:
                yield
            finally:
                ended = time.monotonic()
    finally:
        _started(ship_at_last).join(timeout=max(0, ended + STEP_END_SECONDS - time.monotonic()))


def _started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True, name="shipping")
    thread.start()
    return thread


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
        folder = f"{names.RUNS}/{run.id}/mlflow/{short_digest(instance)}"
        self.claims = Claims(store, self.client, self.experiment, folder)
        self.contents = RunContents(store, run, self.client, self.experiment, self.corpus)
        self.systems = Systems(store, run, self.client, self.claims, states, self.corpus)

    def ship(self, states: list[StepState], failed: bool = False) -> str:
        """Ships these steps and their systems, and returns the id of the run's parent."""
        parent = self._parent()
        below = runs_below(self.client, self.experiment, self.run.id, parent)
        children = {child.info.run_id: child for child in below if names.TAG_PATH in child.data.tags}
        for state in states:
            child = self._child(self.systems.above(parent, state.path), state, children)
            if names.TAG_COMPLETE in child.data.tags:
                continue
            self.contents.report_events(child, state)
            self.contents.report_links(child, state)
            self.contents.report_files(parent, child, state)
            status = status_of([state], [state.path])
            set_status(self.client, child, status, state.ended or state.started)
            if status == "FINISHED":
                self.client.set_tag(child.info.run_id, names.TAG_COMPLETE, "true")
        self.contents.report_data(parent, self.states)
        self.systems.report(parent, states, failed)
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
                self.store.remove(f"{self.claims.folder}/steps/{state.path}/{known.get(names.TAG_ATTEMPT)}")
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


def _fingerprint(store: Store, states: Iterable[StepState], uri: str) -> bytes:
    """Digest of the state that MLflow should have of a run, and of the database that has it."""
    lines = [LAYOUT, uri, database(uri)]
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        status = "done" if state.status == "found" else state.status
        lines.append(f"{state.path} {state.key} {state.attempt} {status} {events}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest().encode()
