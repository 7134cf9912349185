"""The first step and the exit handler of a run on Kubeflow, which do the work of a local run's driver."""

from __future__ import annotations

import os
import time

from multiview import environment, names
from multiview.artifacts.store import Store, open_store
from multiview.config.kubeflow import Notify
from multiview.config.overrides import validate
from multiview.steps.runs import Context, Run, StepState, read_states, write_run
from multiview.steps.webhook import chat_text, post

CLOCKS = 60.0
"""Largest difference between the clocks of two pods, in seconds."""

SHOWN = 3
"""Steps whose lines a message's text has."""


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
    run, complete, mlflow = _run(described, job), False, None
    states: list[StepState] = []
    try:
        opened = open_store(store)
        states = _states(opened, run, job)
        complete = set(run.steps) <= {state.path for state in states if state.status in ("done", "found")}
        if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
            from multiview import tracking

            tracking.ship(opened, run.id, uri, failed=not complete)
            mlflow = tracking.find_run(uri, run.id, opened.url).mlflow_id
    finally:
        if url and not complete:
            post(url, failure_message(store, run, job, status, message, states, mlflow))


def _states(store: Store, run: Run, job: str) -> list[StepState]:
    """Returns the states of the steps that this start of a run has begun."""
    start_time = store.read(_start_file(run, job))
    since = float(start_time) - CLOCKS if start_time else 0.0
    return [state for state in read_states(store, run.id) if state.started >= since]


def _start_file(run: Run, job: str) -> str:
    """Returns the path of the file with the time at which a run was started as `job`."""
    return f"{names.RUNS}/{run.id}/{names.KUBEFLOW}/{job}"


def failure_message(
    store: str,
    run: Run,
    job: str,
    status: str,
    message: str,
    states: list[StepState],
    mlflow: str | None = None,
) -> dict[str, object]:
    """Returns the message about a failed run, JSON-ready. `mlflow` is MLflow's id of the run, where it has it."""
    failed = [{"step": state.path, "error": state.error} for state in states if state.status == "failed"]
    unfinished = [state.path for state in states if state.status == "running"]
    uri = os.environ.get(environment.MLFLOW_TRACKING_URI)
    return {
        "text": _text(run, job, failed, unfinished, mlflow and _mlflow_page(run, uri, mlflow)),
        "run": run.id,
        "pipeline": run.pipeline,
        "kubeflow_run": job,
        "status": status,
        "message": message,
        "store": store,
        "failed": failed,
        "unfinished": unfinished,
        "mlflow": uri,
    }


def _text(
    run: Run, job: str, failed: list[dict[str, str | None]], unfinished: list[str], mlflow: str | None
) -> str:
    """The message as a chat shows it: what failed, the first steps' lines, and where to look."""
    lines = [f"{step['step']}: {step['error']}" for step in failed]
    lines += [f"{path}: ended without a word" for path in unfinished]
    more = f"and {len(lines) - SHOWN} more" if len(lines) > SHOWN else None
    pages = _notify(run).kubeflow
    return chat_text(
        f"{run.id} failed on Kubeflow",
        *lines[:SHOWN],
        more,
        mlflow and f"MLflow: {mlflow}",
        pages and f"Kubeflow: {pages.rstrip('/')}/#/runs/details/{job}",
    )


def _mlflow_page(run: Run, uri: str | None, mlflow: str) -> str | None:
    """The page of a run in MLflow; None where no page is known, as of a database."""
    address = _notify(run).mlflow or uri or ""
    return f"{address.rstrip('/')}/#/runs/{mlflow}" if address.startswith("http") else None


def _notify(run: Run) -> Notify:
    return validate({"notify": run.config.get("notify", {})}).notify


def _run(described: str, job: str) -> Run:
    run = Run.model_validate_json(described)
    return run.model_copy(update={"id": f"{run.id}-{job[:8]}"}) if run.each_time else run
