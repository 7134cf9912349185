"""A run on Kubeflow from its first step to its exit handler: what the driver does where there is one."""

from __future__ import annotations

import os
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from multiview import names
from multiview.artifacts.store import Store, open_store
from multiview.runs import Context, Run, StepState, read_states, write_run

SUCCEEDED = "SUCCEEDED"

RETRY = Retry(total=5, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)


def open_run(store: str, described: str, job: str) -> str:
    """The first step: write the run into the store and open its parent in MLflow.

    `described` is the JSON of a `runs.Run`, `job` Kubeflow's id of this start of it. Returns the JSON of the
    `runs.Context` that all other steps are told. A run that is there already is continued.
    """
    opened, run = open_store(store), _run(described, job)
    opened.check_writable()
    write_run(opened, run)
    opened.create(f"{names.RUNS}/{run.id}/{names.KUBEFLOW}/{job}", b"")
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        from multiview import tracking

        tracking.ship(opened, run.id, uri, only=())
    return Context(store=opened.url, run=run.id).model_dump_json()


def close_run(store: str, described: str, job: str, status: str, message: str, url: str) -> None:
    """The exit handler: bring MLflow up to date, close the run's parent, and tell `url` if it failed.

    `status` is Kubeflow's word for how the run ended, `message` its reason; an empty `url` is told nothing.
    Raises requests.RequestException if the address does not take it.
    """
    opened, run = open_store(store), _run(described, job)
    states = list(read_states(opened, run.id))
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        from multiview import tracking

        tracking.ship(opened, run.id, uri, failed=status != SUCCEEDED)
    if url and status != SUCCEEDED:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=RETRY))
            session.post(
                url, json=notice(opened, run, job, status, message, states), timeout=30
            ).raise_for_status()


def notice(
    store: Store, run: Run, job: str, status: str, message: str, states: list[StepState]
) -> dict[str, Any]:
    """What a person is told of a run that failed, JSON-ready."""
    return {
        "run": run.id,
        "pipeline": run.pipeline,
        "kubeflow_run": job,
        "status": status,
        "message": message,
        "store": store.url,
        "failed": [{"step": s.path, "error": s.error} for s in states if s.status == "failed"],
        "unfinished": [s.path for s in states if s.status == "running"],
        "mlflow": os.environ.get("MLFLOW_TRACKING_URI"),
    }


def _run(described: str, job: str) -> Run:
    run = Run.model_validate_json(described)
    return run.model_copy(update={"id": f"{run.id}-{job[:8]}"}) if run.each_time else run
