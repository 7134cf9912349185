"""Runs one step: finds its outputs in the store, or makes them."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from multiview import environment
from multiview.artifacts.record import Record, Reference, load_record, load_reference
from multiview.artifacts.staging import scratch
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.steps.backends.choice import backend_for
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.reporter import StepReporter
from multiview.steps.runs import Context
from multiview.steps.step import FORWARDED_FILE, Step, load_function
from multiview.steps.table import step
from multiview.steps.work import Inputs, Work


def execute(
    name: str,
    context: str,
    path: str,
    config: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    file: Mapping[str, str] | None = None,
) -> str:
    """The body of every pipeline component: run a step and hand its addresses on.

    `inputs` are KFP artifacts whose metadata carry `address` and `digest`, addresses, or lists of
    addresses; `outputs` are KFP artifacts by kind, whose file becomes a copy of the record; `file`
    names the one file that is meant of an input. Returns the address of the first output.

    A step's `page` is written in place of its record: Kubeflow shows the file of an HTML artifact.
    """
    where = Context.model_validate_json(context)
    reporter = StepReporter(open_store(where.store), where.run, path, name)
    watch_driver()
    with _shipping(reporter), reporter.failures():
        references = {
            input_name: [_reference(v, (file or {}).get(input_name)) for v in value]
            if isinstance(value, list)
            else _reference(value, (file or {}).get(input_name))
            for input_name, value in inputs.items()
        }
        records = run_step(step(name), reporter, config, references)
        for kind, artifact in outputs.items():
            reference = reporter.state.outputs[kind]
            artifact.metadata.update(address=reference.address, digest=reference.digest, path=path)
            record = records.get(kind)
            shown = _shown(reporter.store, step(name), record) if record else _handed(reference)
            Path(artifact.path).write_bytes(shown)
    first = next(iter(records.values()))
    return f"{where.store}/{first.folder}"


def _shown(store: Store, step: Step, record: Record) -> bytes:
    """The file of an output's KFP artifact: the record, or the page that the step made."""
    return record.to_json() if step.page is None else _read(store, record, step.page)


def _handed(reference: Reference) -> bytes:
    """The record of an artifact that was handed on."""
    return load_record(reference.address)[1].to_json()


def _read(store: Store, record: Record, file: str) -> bytes:
    """A file of an output. Raises InputError where it is gone."""
    data = store.read(f"{record.data}/{file}")
    if data is None:
        raise InputError(
            f"{store.url}/{record.data}/{file} is missing: remove the folder {store.url}/{record.folder} "
            "and run again to rebuild it"
        )
    return data


@contextlib.contextmanager
def _shipping(reporter: StepReporter) -> Iterator[None]:
    """In a pod, where no driver does it, ship this step to MLflow as it goes, if there is an MLflow.

    What cannot be shipped waits for the run's last step or `multiview sync`: results never wait for MLflow.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not uri or environment.DRIVER_LOCK in os.environ:
        yield
        return
    from multiview import tracking

    plugin_run = os.environ.get("MLFLOW_RUN_ID")
    with tracking.ship_step_live(reporter.store, reporter.run, reporter.state.path, uri, plugin_run):
        yield


def run_step(step: Step, reporter: StepReporter, config: str, inputs: Inputs) -> dict[str, Record]:
    """Records of a step's outputs by kind, found or made. Raises whatever the step raises."""
    store = reporter.store
    work = Work.resolve(step, config, inputs, store)
    reporter.describe(work)
    outputs = work.find(store)
    complete = len(outputs) == len(step.outputs) and _still_holds(store, step, outputs)
    if not complete:
        outputs = backend_for(step).make(work, reporter)
    if step.checkpoints:
        StoredCheckpoints(store, work.key, scratch()).clear()
    references = {kind: Reference.to(store, record) for kind, record in outputs.items()}
    first = outputs[step.outputs[0]]
    if step.forwards:
        references |= _forwarded(store, step, first)
    reporter.finish("found" if complete else "done", first.data, references)
    return outputs


def _still_holds(store: Store, step: Step, outputs: Mapping[str, Record]) -> bool:
    return not step.still_holds or load_function(step.still_holds)(store, outputs[step.outputs[0]])


def _forwarded(store: Store, step: Step, record: Record) -> dict[str, Reference]:
    """What a step forwards, by output. Raises InputError where its file is gone."""
    named = json.loads(_read(store, record, FORWARDED_FILE))
    found = {
        output: load_reference(Reference.model_validate(named[output]), f"{step.name} {output}", store)
        for output in step.forwards
    }
    return {output: Reference.to(*pair) for output, pair in found.items()}


def watch_driver() -> None:
    """End this process when its driver is gone: when the lock that the driver holds is free."""
    path = os.environ.get(environment.DRIVER_LOCK)
    if not path:
        return

    def wait() -> None:
        from filelock import FileLock

        with FileLock(path).acquire(poll_interval=1.0):
            os._exit(70)

    threading.Thread(target=wait, daemon=True, name="driver-watch").start()


def _reference(value: Any, file: str | None) -> Reference:
    if isinstance(value, str):
        _, record = load_record(value)
        return Reference(address=value, digest=record.digest, file=file)
    metadata = value.metadata
    if "address" not in metadata:
        raise InputError(f"input artifact {value.name} carries no address: its step did not publish one")
    return Reference(address=metadata["address"], digest=metadata["digest"], file=file)
