"""A run on Kubeflow from its first step to its exit handler: what the driver does where there is one."""

from __future__ import annotations

import os
import time
from typing import Any

from multiview import environment, names
from multiview.artifacts.store import Store, open_store
from multiview.steps.runs import Context, Run, StepState, read_states, write_run
from multiview.steps.webhook import post

CLOCKS = 60.0
"""Seconds by which the clocks of two pods may differ."""


def open_run(store: str, described: str, job: str) -> str:
    """The first step: write the run into the store and open its parent in MLflow.

    `described` is the JSON of a `runs.Run`, `job` Kubeflow's id of this start of it. Returns the JSON of the
    `runs.Context` that all other steps are told. A run that is there already is continued.
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
    """The exit handler: bring MLflow up to date, close the run's parent, and tell `url` if the run failed.

    A run has succeeded if this start of it has done or found every step. Kubeflow's word for how it ended, `status`,
    and its reason, `message`, are only handed on: versions of Kubeflow say SUCCEEDED, COMPLETE or, of a run with a
    loop, RUNNING. An empty `url` is told nothing. Raises requests.RequestException if the address does not take it;
    what goes wrong in the store or in MLflow is raised after the address was told.
    """
    run, complete = _run(described, job), False
    states: list[StepState] = []
    try:
        opened = open_store(store)
        states = _states(opened, run, job)
        complete = set(run.steps) <= {s.path for s in states if s.status in ("done", "found")}
        if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
            from multiview import tracking

            tracking.ship(opened, run.id, uri, failed=not complete)
    finally:
        if url and not complete:
            post(url, notice(store, run, job, status, message, states))


def _states(store: Store, run: Run, job: str) -> list[StepState]:
    """The states of the steps that this start of a run has come to."""
    told = store.read(_start_file(run, job))
    since = float(told) - CLOCKS if told else 0.0
    return [state for state in read_states(store, run.id) if state.started >= since]


def _start_file(run: Run, job: str) -> str:
    """Where a run keeps when it was started as `job`."""
    return f"{names.RUNS}/{run.id}/{names.KUBEFLOW}/{job}"


def notice(
    store: str, run: Run, job: str, status: str, message: str, states: list[StepState]
) -> dict[str, Any]:
    """What a person is told of a run that failed, JSON-ready."""
    return {
        "run": run.id,
        "pipeline": run.pipeline,
        "kubeflow_run": job,
        "status": status,
        "message": message,
        "store": store,
        "failed": [{"step": s.path, "error": s.error} for s in states if s.status == "failed"],
        "unfinished": [s.path for s in states if s.status == "running"],
        "mlflow": os.environ.get(environment.MLFLOW_TRACKING_URI),
    }


def _run(described: str, job: str) -> Run:
    run = Run.model_validate_json(described)
    return run.model_copy(update={"id": f"{run.id}-{job[:8]}"}) if run.each_time else run
