"""The first step and the exit handler of a run on Kubeflow."""

import contextlib
import os
import time
from collections.abc import Collection, Mapping

from multiview import environment, names
from multiview.artifacts.store import Store, open_pod_store, open_store
from multiview.config.kubeflow import Notify, notified, reached_by_people
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.plans import make_plan
from multiview.plans.parameters import CompiledRequest
from multiview.plans.plan import Plan
from multiview.plans.pod_settings import check_gpus
from multiview.plans.request import describe
from multiview.steps.backends.trainjob import check_trainer, template_here
from multiview.steps.runs import (
    Pages,
    Run,
    RunReference,
    Start,
    StepState,
    read_run,
    read_start,
    read_states,
    remove_state,
    write_run,
    write_settings,
    write_start,
)
from multiview.steps.webhook import chat_text, post
from multiview.steps.work import StepReporter

OPEN_RUN, CLOSE_RUN = "open-run", "close-run"
CLOCK_DIFFERENCE = 60.0
"""Largest expected difference between two pods' clocks, in seconds."""
FAILURES_SHOWN = 3
"""Most failed steps that a message's text names."""


def open_run(
    store: str,
    described: str,
    job: str,
    compiled: str = "",
    given: Mapping[str, object] = {},
    settings: str = "",
) -> str:
    """The first step: writes the run into the store and opens its parent in MLflow.

    - `described` is the JSON of a `runs.Run`; empty for a run created on Kubeflow's pages.
    - `job` is Kubeflow's id of this start of the run.
    - `compiled` is the JSON of the `CompiledRequest` that the pipeline carries, empty for a part of a pipeline; `given` and
      `settings` are this start's parameters: if they differ from the described run's, the run becomes another one.

    Returns the JSON of the `runs.RunReference` that all other steps receive. Raises InputError for a store that cannot be
    written, for settings that the pipeline cannot run with, and for training on several nodes without Kubeflow Trainer.
    """
    opened = open_pod_store(store)
    opened.check_writable()
    try:
        if template := template_here():  # some step of the run trains on several nodes
            check_trainer(template)
        run, plan = _opened(opened, described, job, compiled, given, settings)
    except InputError as error:
        write_start(opened, job, Start(error=str(error)))
        raise
    write_run(opened, run)
    write_settings(opened, run.id, {str(path): node.config for path, node in plan.nodes.items()})
    opened.create(_start_file(run, job), repr(time.time()).encode())
    write_start(opened, job, Start(run=run.id))
    for step in (OPEN_RUN, CLOSE_RUN):  # they may have failed in an earlier start
        remove_state(opened, run.id, step)
    opened.remove(f"{names.RUNS}/{run.id}/{names.CANCELLED}")
    mlflow = None
    if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
        from multiview import tracking

        with StepReporter(opened, run.id, OPEN_RUN, OPEN_RUN).failures():
            tracking.close_killed(opened, uri)
            tracking.ship(opened, run.id, uri, only=())
            mlflow = _mlflow_page(uri, tracking.find_run(uri, run.id, opened.url).mlflow_id)
    pages = Pages(kubeflow=_kubeflow_page(run, job), mlflow=mlflow)
    context = RunReference(store=opened.url, run=run.id, pages=pages)
    return context.model_dump_json(exclude_defaults=True)


def _opened(
    store: Store, described: str, job: str, compiled: str, given: Mapping[str, object], settings: str
) -> tuple[Run, Plan]:
    """Returns the run of this start, and its plan, which has the settings of its steps."""
    run = _described(described, job)
    if not compiled:
        if run is None:
            raise InputError(
                "described is empty: a part of a pipeline is started by `python -m pipelines rerun`"
            )
        return run, make_plan(run.pipeline, run.config)
    asked = CompiledRequest.model_validate_json(compiled)
    changes = asked.changes(given, settings)
    request = asked.request(changes)
    if run and not changes:
        return run, request.plan
    check_gpus(request.plan, request.config)
    if run and (pages := _notify(run).kubeflow):  # `submit` knew them; the compiled pipeline does not
        request = request.over({"notify": {"kubeflow": pages}})
    return describe(request, store), request.plan


def close_run(
    store: str,
    described: str,
    job: str,
    status: str,
    message: str,
    notify: Notify,
    pipeline: str = "",
    there: Collection[str] = (),
) -> None:
    """The exit handler: brings MLflow up to date, closes the run's parent, and notifies `notify.url` if the run failed.

    `notify` and `pipeline` come from the compiled pipeline: nothing else is known of a run that was never opened. A run
    has succeeded if this start did or found every step but those that were `there` before; Kubeflow's final `status`
    does not decide this, as it differs by version. Raises requests.RequestException if the address refuses the message.
    Errors of the store or of MLflow are raised after the message was sent, and written as this step's.
    """
    run: Run | None = None
    start, complete, mlflow = Start(), False, None
    states: list[StepState] = []
    with contextlib.ExitStack() as stack:
        try:
            with contextlib.suppress(InputError):  # which made the first step fail
                run = _described(described, job)
            opened = open_store(store)
            start = read_start(opened, job)
            if start.run:
                run = read_run(opened, start.run)
                stack.enter_context(StepReporter(opened, run.id, CLOSE_RUN, CLOSE_RUN).failures())
            if start.error:
                states = [StepState(path=OPEN_RUN, step=OPEN_RUN, status="failed", error=start.error)]
            elif run:
                began = opened.read(_start_file(run, job))
                since = float(began or "inf") - CLOCK_DIFFERENCE  # a start that never opened has done nothing
                states = [
                    state
                    for state in read_states(opened, run.id)
                    if state.started >= since and state.path != CLOSE_RUN
                ]
                complete = set(run.steps) <= {state.path for state in states if state.finished} | {*there}
                if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
                    from multiview import tracking

                    tracking.ship(opened, run.id, uri, ended=None if complete else "FAILED")
                    mlflow = tracking.find_run(uri, run.id, opened.url).mlflow_id
        finally:
            if (address := notified(notify)) and not complete and not start.notified:
                pages = notify.model_dump(exclude_none=True)
                named = run or Run(id=pipeline, pipeline=pipeline, config={"notify": pages})
                post(address, failure_message(store, named, job, status, message, states, mlflow))
                with contextlib.suppress(Exception):  # if this fails, a retry notifies once more
                    write_start(open_store(store), job, start.model_copy(update={"notified": True}))


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
    """Returns the message about a failed run, JSON-ready. A chat shows its `text`: what failed, the first error lines,
    and where to look. `mlflow` is MLflow's id of the run, if known."""
    errors = [(state.path, state.error) for state in states if state.failed]
    unfinished = [state.path for state in states if state.status == "running"]
    uri = os.environ.get(environment.MLFLOW_TRACKING_URI)
    lines = [f"{path}: {error}" for path, error in errors]
    lines += [f"{path}: ended without a word" for path in unfinished]
    more = f"and {len(lines) - FAILURES_SHOWN} more" if len(lines) > FAILURES_SHOWN else None
    mlflow_page, kubeflow_page = mlflow and _mlflow_page(uri, mlflow), _kubeflow_page(run, job)
    text = chat_text(
        f"{run.id} failed on Kubeflow",
        *lines[:FAILURES_SHOWN],
        more,
        mlflow_page and f"MLflow: {mlflow_page}",
        kubeflow_page and f"Kubeflow: {kubeflow_page}",
    )
    return {
        "text": text,
        "run": run.id,
        "pipeline": run.pipeline,
        "kubeflow_run": job,
        "status": status,
        "message": message,
        "store": store,
        "failed": [{"step": path, "error": error} for path, error in errors],
        "unfinished": unfinished,
        "mlflow": uri,
    }


def _mlflow_page(uri: str | None, mlflow: str) -> str | None:
    """Returns a run's MLflow page; None if its address is unknown, as for a database or inside a cluster."""
    address = reached_by_people(uri)
    return f"{address.rstrip('/')}/#/runs/{mlflow}" if address else None


def _kubeflow_page(run: Run, job: str) -> str | None:
    """Returns the Kubeflow page of a start of a run; None if its address is unknown."""
    pages = _notify(run).kubeflow
    return f"{pages.rstrip('/')}/#/runs/details/{job}" if pages else None


def _notify(run: Run) -> Notify:
    return validate({"notify": run.config.get("notify", {})}).notify


def _described(described: str, job: str) -> Run | None:
    """Returns the described run; None if it was created on Kubeflow's pages. Raises InputError for any other text."""
    if not described:
        return None
    try:
        run = Run.model_validate_json(described)
    except ValueError as error:
        raise InputError("described is not what submit wrote: leave it empty") from error
    return run.model_copy(update={"id": f"{run.id}-{job[:8]}"}) if run.each_time else run
