"""Following a run on Kubeflow to its end: its steps from the store, or its tasks from KFP."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rich.console import Console

from multiview.artifacts.store import Store
from multiview.errors import StepFailed
from multiview.names import RUNS
from multiview.runs import StepState
from pipelines.client import ENDED, SUCCEEDED, explained
from pipelines.connection import Connection
from pipelines.progress import Progress

POLL_SECONDS = 5.0


def follow(
    client: Any, connection: Connection, kfp_run: Any, run_id: str, paths: list[str], store: Store
) -> list[StepState]:
    """States of the run's steps once it has succeeded; none where the store cannot be read from here.

    Raises StepFailed with the failing step's line.
    """
    with explained(connection):
        if not _readable(store):
            return _follow_tasks(client, kfp_run)
        with Progress(store, run_id, paths, kfp_run.created_at.timestamp()) as progress:
            while (found := client.get_run(kfp_run.run_id)).state not in ENDED:
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


def _follow_tasks(client: Any, kfp_run: Any) -> list[StepState]:
    """A line for each change of a task of KFP's."""
    console = Console(highlight=False, soft_wrap=True)
    told: dict[str, str] = {}
    while True:
        found = client.get_run(kfp_run.run_id)
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
