"""Following a run on Kubeflow to its end, by its steps' states in the store or its tasks in KFP."""

from __future__ import annotations

import contextlib
import time

from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError, StepFailed
from multiview.names import RUNS
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.terminal import Console
from pipelines.kubeflow.client import (
    ENDED,
    FOLLOWING_RETRY,
    SUCCEEDED,
    ApiObject,
    Unavailable,
    connect,
    explained,
)
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.submission import Submission
from pipelines.kubeflow.tasks import Tasks, read_tasks
from pipelines.runs.progress import Progress

POLL_SECONDS = 5.0


class Watch:
    """Polls a run, waits for a server that is unavailable, and renews an expired token."""

    def __init__(self, connection: Connection, kfp_run: ApiObject):
        self.connection, self.started = connection, kfp_run
        self.client = connect(connection, FOLLOWING_RETRY)

    def poll(self) -> ApiObject:
        """Returns the run's current state. Raises the exceptions of KFP's client."""
        from kfp_server_api import ApiException

        try:
            return self.client.get_run(self.started.run_id)
        except ApiException as error:
            if error.status != 401:
                raise
        self.client = connect(self.connection, FOLLOWING_RETRY)  # signs in again
        return self.client.get_run(self.started.run_id)


def follow(
    connection: Connection,
    kfp_run: ApiObject,
    submission: Submission,
    compiled: str,
    tracking_uri: str | None = None,
) -> list[StepState]:
    """Returns the states of the steps of a run of the `compiled` pipeline once it has succeeded; an empty list where the store cannot be read from here.

    Raises StepFailed with the failed step's error from the store or MLflow, or else KFP's reason; also where Kubeflow
    is unavailable for minutes.
    """
    run, store = submission.run, open_store(submission.store)
    tasks = Tasks(read_tasks(compiled))
    try:
        with explained(connection):
            watch = Watch(connection, kfp_run)
            if _readable(store):
                return _follow_states(watch, run, store, tasks)
            return _follow_tasks(watch, run, tasks, tracking_uri)
    except Unavailable as error:
        raise StepFailed(
            f"{error}; {run.id} may still be going: the same command follows it", bad_input=False
        ) from error


def _follow_states(watch: Watch, run: Run, store: Store, tasks: Tasks) -> list[StepState]:
    """Shows the steps' progress from their state files."""
    with Progress(store, run.id, run.steps, watch.started.created_at.timestamp()) as progress:
        while (now := watch.poll()).state not in ENDED:
            time.sleep(POLL_SECONDS)
        states = progress.finish()
    if now.state != SUCCEEDED:
        failed = [f"{state.path}: {state.error}" for state in states if state.status == "failed"]
        raise StepFailed(failed[0] if failed else _why(now, run.id, tasks), bad_input=False)
    return states


def _readable(store: Store) -> bool:
    with contextlib.suppress(Exception):
        store.folders(RUNS)
        return True
    return False


def _follow_tasks(watch: Watch, run: Run, tasks: Tasks, tracking_uri: str | None) -> list[StepState]:
    """Prints a line when a step begins or ends, from KFP's tasks."""
    console = Console(highlight=False, soft_wrap=True)
    while True:
        now = watch.poll()
        for line in tasks.changes(now):
            console.print(line, markup=False)
        if now.state in ENDED:
            break
        time.sleep(POLL_SECONDS)
    if now.state != SUCCEEDED:
        failure = tasks.failure(now)
        tracked = _tracked(now, failure.path, tracking_uri) if failure and failure.started else None
        raise StepFailed(tracked or _why(now, run.id, tasks), bad_input=False)
    return []


def _tracked(kfp_run: ApiObject, path: str, uri: str | None) -> str | None:
    """Returns a failed step's error from MLflow; None without MLflow, or if it has none."""
    from multiview import tracking

    if uri:
        with contextlib.suppress(InputError):
            for name, step in tracking.find_run(uri, kfp_run.run_id).steps.items():
                if step.error and str(StepPath.parse(name).whole) == path:
                    return f"{name}: {step.error}"
    return None


def _why(kfp_run: ApiObject, run_id: str, tasks: Tasks) -> str:
    """Returns the error of a run that failed without an error of a step: a pod never started, or was killed."""
    if failure := tasks.failure(kfp_run):
        return str(failure)
    if kfp_run.state == "CANCELED":
        return f"{run_id} was cancelled"
    reason = kfp_run.error.message if kfp_run.error and kfp_run.error.message else "its page knows more"
    return f"{run_id} failed: {' '.join(reason.split())}"
