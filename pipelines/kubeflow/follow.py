"""Following a run on Kubeflow to its end: its steps from the store, or its tasks from KFP."""

from __future__ import annotations

import contextlib
import time

from rich.console import Console

from multiview.artifacts.store import Store
from multiview.errors import StepFailed
from multiview.names import RUNS
from multiview.steps.runs import Run, StepState
from pipelines.kubeflow.client import ENDED, PATIENT, SUCCEEDED, ApiObject, Away, connect, explained
from pipelines.kubeflow.connection import Connection
from pipelines.runs.progress import Progress

POLL_SECONDS = 5.0


class Watch:
    """A run of Kubeflow's that is looked at again and again: a server that is away is waited for, and a token that
    has expired is replaced."""

    def __init__(self, connection: Connection, kfp_run: ApiObject):
        self.connection, self.started = connection, kfp_run
        self.client = connect(connection, PATIENT)

    def look(self) -> ApiObject:
        """Returns the run as it is now. Raises what KFP's client does."""
        from kfp_server_api import ApiException

        try:
            return self.client.get_run(self.started.run_id)
        except ApiException as error:
            if error.status != 401:
                raise
        self.client = connect(self.connection, PATIENT)  # which signs in anew
        return self.client.get_run(self.started.run_id)


def follow(connection: Connection, kfp_run: ApiObject, run: Run, store: Store) -> list[StepState]:
    """Returns the states of the run's steps once it has succeeded; none where the store cannot be read from here.

    Raises StepFailed with the failing step's line, and where Kubeflow is away for minutes.
    """
    try:
        with explained(connection):
            watch = Watch(connection, kfp_run)
            return _follow_states(watch, run, store) if _readable(store) else _follow_tasks(watch)
    except Away as error:
        raise StepFailed(
            f"{error}; {run.id} may still be going: the same command follows it", bad_input=False
        ) from error


def _follow_states(watch: Watch, run: Run, store: Store) -> list[StepState]:
    """Shows the progress of the steps, as their state files tell it."""
    with Progress(store, run.id, run.steps, watch.started.created_at.timestamp()) as progress:
        while (now := watch.look()).state not in ENDED:
            time.sleep(POLL_SECONDS)
        states = progress.finish()
    if now.state != SUCCEEDED:
        failed = [f"{state.path}: {state.error}" for state in states if state.status == "failed"]
        raise StepFailed(failed[0] if failed else _why(now, run.id), bad_input=False)
    return states


def _readable(store: Store) -> bool:
    with contextlib.suppress(Exception):
        store.folders(RUNS)
        return True
    return False


def _follow_tasks(watch: Watch) -> list[StepState]:
    """Prints a line for each change of a task of KFP's."""
    console = Console(highlight=False, soft_wrap=True)
    printed: dict[str, str] = {}
    while True:
        run = watch.look()
        for task in _tasks(run):
            if task.state and printed.get(task.task_id) != task.state:
                printed[task.task_id] = task.state
                console.print(f"{task.display_name} {task.state.lower()}", markup=False)
        if run.state in ENDED:
            break
        time.sleep(POLL_SECONDS)
    if run.state != SUCCEEDED:
        raise StepFailed(_why(run, run.display_name), bad_input=False)
    return []


def _tasks(run: ApiObject) -> list[ApiObject]:
    """The tasks of a run, among them those that group others, as a loop does."""
    return (run.run_details and run.run_details.task_details) or []


def _why(run: ApiObject, run_id: str) -> str:
    """The line for a run that failed without a step saying so: its pod never started, or was ended."""
    failed = [task for task in _tasks(run) if task.state == "FAILED"]
    causes = [task for task in failed if task.error and task.error.message] or failed
    if causes:
        error = causes[-1].error
        reason = (error and error.message) or "failed without a word; its pod's log knows more"
        return f"{causes[-1].display_name}: {' '.join(reason.split())}"
    if run.state == "CANCELED":
        return f"{run_id} was cancelled"
    reason = run.error.message if run.error and run.error.message else "its page knows more"
    return f"{run_id} failed: {' '.join(reason.split())}"
