"""The first step and the exit handler of a run on Kubeflow, which do the work of a local run's driver."""

from __future__ import annotations

import os
import time

from multiview import environment, names
from multiview.artifacts.store import Store, open_store
from multiview.steps.runs import Context, Run, StepState, read_states, write_run
from multiview.steps.webhook import post

CLOCKS = 60.0
"""Largest difference between the clocks of two pods, in seconds."""


def open_run(store: str, described: str, job: str) -> str:
    """The first step: writes the run into the store and opens its parent in MLflow.

    `described` is the JSON of a `runs.Run`, `job` is Kubeflow's id of this start of the run. Returns the JSON of the
    `runs.Context` that all other steps receive. An existing run is continued.
    """
    opened, run = open_store(store), _run(described, job)
    opened.check_writable()
    write_run(opened, run)
    opened.create(_start_file(run, job), repr(time.time()).encode())
    if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
        from multiview import tracking

        tracking.ship(opened, run.id, uri, only=())
    return Context(store=opened.url, run=run.id).model_dump_json()


def close_run(store: str, described: str, job: str, status: str, message: str, url: str) -> None:
    """The exit handler: brings MLflow up to date, closes the run's parent, and notifies `url` if the run failed.

    A run has succeeded if this start of it has done or found every step. Kubeflow's final `status` and its `message`
    are only passed on, because versions of Kubeflow report SUCCEEDED, COMPLETE or, for a run with a loop, RUNNING. An
    empty `url` receives no message. Raises requests.RequestException if the address refuses the message. Errors of the
    store or of MLflow are raised after the message was sent.
    """
    run, complete = _run(described, job), False
    states: list[StepState] = []
    try:
        opened = open_store(store)
        states = _states(opened, run, job)
        complete = set(run.steps) <= {state.path for state in states if state.status in ("done", "found")}
        if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
            from multiview import tracking

            tracking.ship(opened, run.id, uri, failed=not complete)
    finally:
        if url and not complete:
            post(url, failure_message(store, run, job, status, message, states))


def _states(store: Store, run: Run, job: str) -> list[StepState]:
    """Returns the states of the steps that this start of a run has begun."""
    start_time = store.read(_start_file(run, job))
    since = float(start_time) - CLOCKS if start_time else 0.0
    return [state for state in read_states(store, run.id) if state.started >= since]


def _start_file(run: Run, job: str) -> str:
    """Returns the path of the file with the time at which a run was started as `job`."""
    return f"{names.RUNS}/{run.id}/{names.KUBEFLOW}/{job}"


def failure_message(
    store: str, run: Run, job: str, status: str, message: str, states: list[StepState]
) -> dict[str, object]:
    """Returns the message about a failed run, JSON-ready."""
    return {
        "run": run.id,
        "pipeline": run.pipeline,
        "kubeflow_run": job,
        "status": status,
        "message": message,
        "store": store,
        "failed": [
            {"step": state.path, "error": state.error} for state in states if state.status == "failed"
        ],
        "unfinished": [state.path for state in states if state.status == "running"],
        "mlflow": os.environ.get(environment.MLFLOW_TRACKING_URI),
    }


def _run(described: str, job: str) -> Run:
    run = Run.model_validate_json(described)
    return run.model_copy(update={"id": f"{run.id}-{job[:8]}"}) if run.each_time else run
