"""Runs one step: finds its outputs in the store, or makes them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from multiview import environment
from multiview.artifacts.record import Record, Reference, load_reference
from multiview.artifacts.scratch import remove_scratch, scratch
from multiview.artifacts.staging import broken_file
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.backends.choice import backend_for
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.reporter import StepReporter
from multiview.steps.step import FORWARDED_FILE, Step, load_function
from multiview.steps.work import Inputs, Work


def _read(store: Store, record: Record, file: str) -> bytes:
    """Returns the bytes of an output's file. Raises InputError if it is gone."""
    data = store.read(f"{record.data}/{file}")
    if data is None:
        raise InputError(broken_file(store, record, file, "is missing"))
    return data


def run_step(step: Step, reporter: StepReporter, config: str, inputs: Inputs) -> dict[str, Record]:
    """Returns the records of a step's outputs by kind, found or made. Raises every exception of the step."""
    store = reporter.store
    work = Work.resolve(step, config, inputs, store)
    reporter.describe(work)
    found = find_outputs(work, store)
    found = claim_outputs(work, found, reporter) if found else {}
    outputs = found or backend_for(step).make(work, reporter)
    if step.checkpoints:
        StoredCheckpoints(store, work.key, scratch()).clear()
    if not found:
        reporter.finish("done", outputs[step.outputs[0]].data, references_of(step, store, outputs))
    return outputs


def find_outputs(work: Work, store: Store) -> dict[str, Record]:
    """Returns the records of a step's outputs by kind; none unless all of them are in the store and still hold."""
    outputs = work.find(store)
    complete = len(outputs) == len(work.step.outputs) and _still_holds(store, work.step, outputs)
    return outputs if complete else {}


def claim_outputs(work: Work, found: Mapping[str, Record], reporter: StepReporter) -> dict[str, Record]:
    """Writes that the outputs `found` are those of a step; returns them if all are still there after that, else none.

    A `multiview gc` at work meanwhile has taken them before, or sees that they are referred to, and leaves them.
    Raises InputError if the step's file of forwarded references is gone.
    """
    store, step = reporter.store, work.step
    reporter.describe(work)
    reporter.finish("found", found[step.outputs[0]].data, references_of(step, store, found))
    if work.find(store) == found:
        return {**found}
    reporter.begin_again()
    return {}


def references_of(step: Step, store: Store, outputs: Mapping[str, Record]) -> dict[str, Reference]:
    """Returns references to a step's outputs by kind, and to the artifacts that it forwards, by output.

    Raises InputError if its file of forwarded references is gone.
    """
    references = {kind: Reference.to(store, record) for kind, record in outputs.items()}
    return references | (_forwarded(store, step, outputs[step.outputs[0]]) if step.forwards else {})


def _still_holds(store: Store, step: Step, outputs: Mapping[str, Record]) -> bool:
    return not step.still_holds or load_function(step.still_holds)(store, outputs[step.outputs[0]])


def _forwarded(store: Store, step: Step, record: Record) -> dict[str, Reference]:
    """Returns the artifacts that a step forwards, by output. Raises InputError if its file of references is gone."""
    references = json.loads(_read(store, record, FORWARDED_FILE))
    artifacts = {
        output: load_reference(Reference.model_validate(references[output]), f"{step.name} {output}", store)
        for output in step.forwards
    }
    return {output: Reference.to(*pair) for output, pair in artifacts.items()}


def watch_driver() -> None:
    """Ends this process when its driver is gone, which is when the driver's lock becomes free."""
    path = os.environ.get(environment.DRIVER_LOCK)
    if not path:
        return

    def wait() -> None:
        from filelock import FileLock

        with FileLock(path).acquire(poll_interval=1.0):
            # The driver would have removed it, but was killed.
            Path(path).unlink(missing_ok=True)
            remove_scratch()
            os._exit(70)

    threading.Thread(target=wait, daemon=True, name="driver-watch").start()
