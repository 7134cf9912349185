"""Shipping of a run: its state and event files become MLflow runs."""

import contextlib
import tempfile
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from multiview import names
from multiview.artifacts.store import Store
from multiview.config import text_sha256
from multiview.errors import InputError
from multiview.steps.background import repeated
from multiview.steps.events import read_events
from multiview.steps.runs import Run, StepState, read_run, read_states, studies_of
from multiview.tracking.client import (
    TrackingUnavailable,
    connect,
    database,
    explained,
    instance,
    our_experiment,
    settle,
)
from multiview.tracking.mlflow_runs import find_mlflow_run, runs_below, set_status, short_digest
from multiview.tracking.registry import mirror
from multiview.tracking.shipment import Shipment, claims_of
from multiview.tracking.step_runs import fill_step, log_data
from multiview.tracking.system_runs import fill_systems
from multiview.tracking.tags import NO_ATTEMPT, user

SHIP_SECONDS = 20.0
"""Seconds between two shipments of a run in progress."""
FIRST_SECONDS = 3.0
"""Seconds before the first one: MLflow takes seconds to start, which a short run should not spend at its end."""
END_SECONDS = 10.0
"""Seconds that the end of a run or of a step in its pod waits for shipments that are under way."""


def ship(
    store: Store, run_id: str, uri: str, only: Collection[str] | None = None, ended: str | None = None
) -> bool:
    """Brings MLflow up to date with one run of a store; returns False if there was nothing new.

    `only` ships the steps with these paths, as a pod does with its step, and leaves the run's end open. `ended` is
    the status of a run that stopped without a step saying so, as when a pod was killed. Raises InputError if MLflow
    cannot be reached.

    Shippers on one machine take turns by a file lock, since two processes must not open MLflow's SQLite store while it
    is new; the lock's file stays. Those on different machines claim each MLflow run by a file in the store.
    """
    name = short_digest(f"{user()} {uri}")
    with explained(uri), FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run = read_run(store, run_id)
        states = sorted(read_states(store, run_id), key=lambda state: state.started)
        marker = f"{names.RUNS}/{run_id}/mlflow/shipped"
        if only is not None:
            shipment = Shipment(store, run, uri, states)
            parent = _ship(shipment, [state for state in states if state.path in only])
            if not only:  # the run is being opened, perhaps again
                set_status(shipment.client, shipment.client.get_run(parent), "RUNNING", 0.0)
                store.remove(marker)  # so that its end is shipped again, even if all its steps are found
            return True
        lines = _contents(store, run, states)  # what is written from now on is for the next shipment
        if store.read(f"{names.RUNS}/{run_id}/{names.CANCELLED}") is not None:
            lines.append(names.CANCELLED)
        new = ended or store.read(marker) != _fingerprint(lines, uri)
        if new:
            shipment = Shipment(
                store, run, uri, states, ended or ("KILLED" if names.CANCELLED in lines else None)
            )
            shipment.end(_ship(shipment, states))
        if any(state.step == "promote" and names.PROMOTION in state.outputs for state in states):
            mirror(store, uri)
        if new:
            settle(uri)
            store.replace(marker, _fingerprint(lines, uri))
        return bool(new)


def shipped_here(store: Store, uri: str) -> set[bool]:
    """Returns, for each MLflow that runs of a store were shipped to, whether it is the one at `uri`."""
    claims = defaultdict[str, list[str]](list)
    for entry in store.entries(names.RUNS):
        match entry.path.split("/"):
            case [_, _, "mlflow", server, "parent"]:
                claims[server].append(entry.path)
    if database(uri) == "absent":
        return {False for _ in claims}
    with explained(uri):
        client = connect(uri, writes=False)

        def knows(claim: str) -> bool:
            return find_mlflow_run(client, (store.read(claim) or b"-").decode()) is not None

        # `mlflow gc` may have removed all runs of the one at `uri`; at another address it has another name.
        here = short_digest(f"{uri} {instance(client.get_experiment_by_name(names.EXPERIMENT))}")
        return {server == here or any(map(knows, paths)) for server, paths in claims.items()}


def ship_live(
    store: Store, run_id: str, uri: str, only: Collection[str] | None = None
) -> contextlib.AbstractContextManager[None]:
    """Ships a run, or only its steps with the paths `only`, now and then while the block runs. Results never wait for
    MLflow: a shipment that fails, or has not ended `END_SECONDS` after the block, is left to a later one."""
    return repeated(partial(ship, store, run_id, uri, only), SHIP_SECONDS, FIRST_SECONDS, END_SECONDS)


@contextlib.contextmanager
def ship_step_live(store: Store, run_id: str, path: str, uri: str) -> Iterator[None]:
    """Ships one step of a run while the block runs, and once more at its end. What could not be shipped is left to the
    run's last step or to `multiview sync`."""

    try:
        with ship_live(store, run_id, uri, {path}):
            yield
    finally:
        ship_at_last(store, run_id, uri, only={path})


def ship_at_last(store: Store, run_id: str, uri: str, **how: Any) -> None:
    """Ships as `ship` does before a process ends, for `END_SECONDS` at most. What fails is left to a later shipment."""

    def last() -> None:
        with contextlib.suppress(Exception):
            ship(store, run_id, uri, **how)

    (thread := threading.Thread(target=last, daemon=True)).start()
    thread.join(timeout=END_SECONDS)


def kill_step(store: Store, run_id: str, state: StepState, uri: str) -> None:
    """Ends a killed step's MLflow run at once: its process has a second left. `close_killed` ends the runs above it."""
    client = connect(uri)
    experiment = our_experiment(client)
    attempt = state.attempt.rsplit("/", 1)[-1] or NO_ATTEMPT
    claim = experiment and f"{claims_of(run_id, uri, experiment)}/steps/{state.path}/{attempt}"
    if claim and (claimed := store.read(claim)):
        client.set_terminated(claimed.decode(), "KILLED")


def note_cancelled(store: Store, run_id: str) -> None:
    """Notes that a run was cancelled as a whole, for every shipment from now on, until the run is opened again."""
    store.replace(f"{names.RUNS}/{run_id}/{names.CANCELLED}", b"")
    store.replace(f"{names.KILLED}/{run_id}", b"")


def close_killed(store: Store, uri: str) -> None:
    """Ships a store's runs that were cancelled or had a step killed, to end their MLflow runs; what fails is left for
    later."""
    for file in store.files(names.KILLED):
        with contextlib.suppress(Exception):
            ship(store, file.rpartition("/")[2], uri)
            store.remove(file)


def sync(store: Store, uri: str) -> tuple[list[str], dict[str, str]]:
    """Ships every run of a store; returns the ids of runs with something new, and the error of each run that failed.

    Raises InputError, without trying the other runs, if MLflow cannot be reached.
    """
    shipped, failed = [], {}
    if not (runs := store.folders(names.RUNS)):
        store.check_exists()
        raise InputError(f"store {store.url} has no runs: is it the right one?")
    for run in runs:
        try:
            if ship(store, run, uri):
                shipped.append(run)
        except TrackingUnavailable:
            raise
        except InputError as error:
            failed[run] = str(error)
    close_killed(store, uri)
    mirror(store, uri)
    return shipped, failed


def _ship(shipment: Shipment, states: list[StepState]) -> str:
    """Ships these steps and their systems; returns the id of the MLflow run of the whole run."""
    parent = shipment.parent()
    below = runs_below(shipment.client, shipment.experiment, shipment.run.id, parent)
    children = {child.info.run_id: child for child in below if names.TAG_PATH in child.data.tags}
    for state in states:
        fill_step(shipment, parent, shipment.child(parent, state, children), state)
    log_data(shipment, parent)
    fill_systems(shipment, parent, states)
    return parent


def _contents(store: Store, run: Run, states: Iterable[StepState]) -> list[str]:
    """What MLflow should have of a run."""
    lines = studies_of(store, run)
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        status = "done" if state.status == "found" else state.status
        lines.append(f"{state.path} {state.key} {state.attempt} {status} {events}")
    return lines


def _fingerprint(lines: list[str], uri: str) -> bytes:
    """Digest of what MLflow should have of a run, and of the database that should have it."""
    there = [uri, database(uri) or instance(our_experiment(connect(uri))), *lines]
    return text_sha256("\n".join(there)).encode()
