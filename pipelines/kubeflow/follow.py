"""Following a run on Kubeflow to its end, by its steps' states in the store or its tasks in KFP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from multiview import tracking
from multiview.artifacts.store import Store
from multiview.cli.console import Console
from multiview.errors import InputError, StepFailed, counted
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState, read_start, read_states
from pipelines.kubeflow.client import FOLLOWING_RETRY, ApiObject, Unavailable, connect, explained
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.pod_log import read_log, reason_in, why_it_waits
from pipelines.kubeflow.run_view import RunView, Task, read_tasks, silence_of
from pipelines.kubeflow.submission import Submission, readable
from pipelines.runs.progress import Progress

POLL_SECONDS = 5.0
SILENCE_POLL_SECONDS = 60.0
"""Time between two looks at whether anything was heard of a run: they read its states in the store."""
PRINTED_STATES = ("RUNNING", "SUCCEEDED", "FAILED", "SKIPPED")
"""States that are printed; a step that will not run has no state."""


def follow(
    connection: Connection,
    kfp_run: ApiObject,
    submission: Submission,
    compiled: str,
    tracking_uri: str | None = None,
) -> list[StepState]:
    """Returns the states of the steps of a run of the `compiled` pipeline once it has succeeded; none where the store
    cannot be read from here. Raises StepFailed with the reason, also where Kubeflow is unavailable for minutes."""
    run, store = submission.run, readable(submission.store)
    try:
        with explained(connection):
            tasks = read_tasks(compiled)
            if store:
                began = min(submission.checked, kfp_run.created_at.timestamp())
                with Progress(store, run.id, run.steps, began) as progress:
                    view = _end(connection, kfp_run.run_id, tasks, run, store)
                    states = progress.finish()
            else:
                view, states = _end(connection, kfp_run.run_id, tasks, run, None), []
            if view.cancelled and store and tracking_uri:
                with contextlib.suppress(Exception):  # which the next `submit`, or `multiview sync`, does
                    tracking.ship(store, run.id, tracking_uri, ended="KILLED")
            if view.unsuccessful:
                raise StepFailed(reason(connection, view, store, tracking_uri), bad_input=False)
    except Unavailable as error:
        raise StepFailed(
            f"{error}; {run.id} may still be going: the same command follows it", bad_input=False
        ) from error
    return states


def _end(
    connection: Connection, kfp_run: str, tasks: Mapping[str, Task], run: Run, store: Store | None
) -> RunView:
    """Returns how a run has ended; prints what its pods wait for, and its tasks' lines where the store cannot be read.
    Waits for a server that is unavailable, and renews an expired token. Raises StepFailed for a run that is gone."""
    from kfp_server_api import ApiException

    console, told = Console(soft_wrap=True), False
    reported: dict[tuple[str, str], set[str]] = {}
    waiting, looked = set[str](), -SILENCE_POLL_SECONDS
    client = connect(connection, FOLLOWING_RETRY)
    while True:
        try:
            view = RunView(client.get_run(kfp_run), tasks)
        except ApiException as error:
            if error.status != 401:
                raise
            client = connect(connection, FOLLOWING_RETRY)  # signs in again
            view = RunView(client.get_run(kfp_run), tasks)
        for line in () if store else _changes(view, reported):
            console.print(line)
        if view.ended:
            return view
        if time.monotonic() - looked >= SILENCE_POLL_SECONDS:
            looked, (silence, gone) = time.monotonic(), silence_of(view, lambda: store, run.id)
            if gone:
                raise StepFailed(f"{run.id}: {silence}", bad_input=False)
            for line in _waiting(connection, view, waiting) if view.waits else ():
                console.print(line, style="yellow")
            if silence and not told:
                console.print(f"{run.id}: {silence}", style="yellow")
            told = bool(silence)
        time.sleep(POLL_SECONDS)


def _waiting(connection: Connection, view: RunView, told: set[str]) -> Iterator[str]:
    """Yields a line for each step whose pod waits for something else than was `told`, and adds it."""
    for pod in view.at_work:
        why = None
        with contextlib.suppress(InputError), explained(connection):
            why = why_it_waits(connection, pod)
        if why and (known := f"{pod.task.path} {why.partition(':')[0]}") not in told:
            told.add(known)
            yield f"{pod.task.path} waits: {why}"


def _changes(view: RunView, reported: dict[tuple[str, str], set[str]]) -> Iterator[str]:
    """Yields a line for each step or shard whose state is not among those `reported`, by path and state, and adds it."""
    for task, node in view.steps:
        known = reported.setdefault((task.path, node.state), set())
        if node.state in PRINTED_STATES and node.task_id not in known:
            known.add(node.task_id)
            number = f" ({len(known)} of {counted(task.count, 'shard')})" if task.count else ""
            yield f"{task.path} {node.state.lower()}{number}"


def reason(
    connection: Connection, view: RunView, store: Store | None, tracking_uri: str | None = None
) -> str:
    """Returns why a run has failed: in the words of its steps from the store, else from MLflow, else from the log of the
    pod that failed first."""
    run = view.run
    if view.cancelled:
        return f"{run.display_name} was cancelled; the same command goes on from what is there"
    if store and (line := _stored(store, run)):
        return line
    failure = view.failure
    if failure is None:
        said = " ".join(run.error.message.split()) if run.error and run.error.message else ""
        return f"{run.display_name} failed{f': {said}' if said else f', and no step of it: {_ended(connection, view)}'}"
    if tracking_uri and (line := _tracked(tracking_uri, run, failure.task.path)):
        return line
    said = None
    with contextlib.suppress(InputError), explained(connection):
        said = reason_in(read_log(connection, run, failure) or "") if failure.node else None
    if failure.started:
        unread = "Kubeflow has no log of its pod, which was deleted or could not begin; the run's page has its events"
        over_it = f"; or the run was ended over it: {_ended(connection, view)}" if failure.at_work else ""
        return f"{failure.task.path}: {said or f'failed, and {unread}'}{over_it}"
    return f"{failure.task.path}: never started: {said or 'the log of its driver knows more, on the page of the run'}"


def _ended(connection: Connection, view: RunView) -> str:
    """Returns the words for a run that Argo may have ended by itself, for which the API has no reason."""
    ask = f"kubectl --namespace {connection.namespace or 'kubeflow'} get workflow {view.workflow or ''}".rstrip()
    return (
        "Argo ended it, as it does where a run is too large for it (docs/cluster.md, Many shards, many systems); "
        f"{ask} -o jsonpath='{{.status.message}}' says why"
    )


def _stored(store: Store, run: ApiObject) -> str | None:
    """Returns the line of the step that failed first in this start of a run; None where the store has none."""
    with contextlib.suppress(Exception):
        start, since = read_start(store, run.run_id), run.created_at.timestamp()
        states = read_states(store, start.run) if start.run else ()
        failed = [state for state in states if state.failed and (state.ended or state.started) >= since]
        if failed:
            first = min(failed, key=lambda state: state.ended or state.started)
            return f"{first.path}: {first.error}"
        return start.error and f"open-run: {start.error}"
    return None


def _tracked(uri: str, run: ApiObject, path: str) -> str | None:
    """Returns a failed step's error from MLflow; None if it has none."""
    with contextlib.suppress(InputError):
        for name, step in tracking.find_run(uri, run.run_id).steps.items():
            if step.error and str(StepPath.parse(name).whole) == path:
                return f"{name}: {step.error}"
    return None
