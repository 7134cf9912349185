"""Following a run on Kubeflow to its end: its steps from the store, or its tasks from KFP."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rich.console import Console

from multiview.artifacts.store import Store
from multiview.errors import StepFailed
from multiview.names import RUNS
from multiview.steps.runs import StepState
from pipelines.kubeflow.client import ENDED, PATIENT, SUCCEEDED, Away, connect, explained
from pipelines.kubeflow.connection import Connection
from pipelines.runs.progress import Progress

POLL_SECONDS = 5.0


class Looks:
    """One run of Kubeflow's, looked at again and again: a server that is away is waited for, and a token that
    has expired is replaced."""

    def __init__(self, connection: Connection, kfp_run: str):
        self.connection, self.kfp_run = connection, kfp_run
        self.client = connect(connection, PATIENT)

    def __call__(self) -> Any:
        """The run now. Raises what KFP's client does."""
        from kfp_server_api import ApiException

        try:
            return self.client.get_run(self.kfp_run)
        except ApiException as error:
            if error.status != 401:
                raise
        self.client = connect(self.connection, PATIENT)  # which signs in anew
        return self.client.get_run(self.kfp_run)


def follow(
    connection: Connection, kfp_run: Any, run_id: str, paths: list[str], store: Store
) -> list[StepState]:
    """States of the run's steps once it has succeeded; none where the store cannot be read from here.

    Raises StepFailed with the failing step's line, and where Kubeflow is away for minutes.
    """
    try:
        with explained(connection):
            return _follow(Looks(connection, kfp_run.run_id), kfp_run, run_id, paths, store)
    except Away as error:
        raise StepFailed(
            f"{error}; {run_id} may still be going: the same command follows it", bad_input=False
        ) from error


def _follow(look: Looks, kfp_run: Any, run_id: str, paths: list[str], store: Store) -> list[StepState]:
    if not _readable(store):
        return _follow_tasks(look)
    with Progress(store, run_id, paths, kfp_run.created_at.timestamp()) as progress:
        while (found := look()).state not in ENDED:
            time.sleep(POLL_SECONDS)
        states = progress.finish()
    if found.state != SUCCEEDED:
        failed = [f"{state.path}: {state.error}" for state in states if state.status == "failed"]
        raise StepFailed(failed[0] if failed else _why(found, run_id), bad_input=False)
    return states


def _readable(store: Store) -> bool:
    with contextlib.suppress(Exception):
        store.folders(RUNS)
        return True
    return False


def _follow_tasks(look: Looks) -> list[StepState]:
    """A line for each change of a task of KFP's."""
    console = Console(highlight=False, soft_wrap=True)
    told: dict[str, str] = {}
    while True:
        found = look()
        for task in _tasks(found):
            if task.state and told.get(task.task_id) != task.state:
                told[task.task_id] = task.state
                console.print(f"{task.display_name} {task.state.lower()}", markup=False)
        if found.state in ENDED:
            break
        time.sleep(POLL_SECONDS)
    if found.state != SUCCEEDED:
        raise StepFailed(_why(found, found.display_name), bad_input=False)
    return []


def _tasks(found: Any) -> list[Any]:
    """Tasks of a run; those that group others, as a loop does, are told too."""
    return (found.run_details and found.run_details.task_details) or []


def _why(found: Any, run_id: str) -> str:
    """The line of a run that failed without a step saying so: a pod that never started, or was ended."""
    failed = [task for task in _tasks(found) if task.state == "FAILED"]
    causes = [task for task in failed if task.error and task.error.message] or failed
    if causes:
        error = causes[-1].error
        said = (error and error.message) or "failed without a word; its pod's log knows more"
        return f"{causes[-1].display_name}: {' '.join(said.split())}"
    if found.state == "CANCELED":
        return f"{run_id} was cancelled"
    said = found.error.message if found.error and found.error.message else "its page knows more"
    return f"{run_id} failed: {' '.join(said.split())}"
