"""Runs one step: finds its outputs in the store, or makes them."""

from __future__ import annotations

import json
import os
import threading
import time

from multiview.artifacts.record import Record, Reference, load_record, load_reference, read_record
from multiview.artifacts.staging import scratch
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.backends import fork_server
from multiview.steps.backends.trainjob import NODES
from multiview.steps.checkpoints import Checkpoints
from multiview.steps.events import Silent
from multiview.steps.step import HANDED_ON_FILE, Step, load_function
from multiview.steps.work import Inputs, StepTeller, Work, make

DRIVER_LOCK = "MULTIVIEW_DRIVER_LOCK"
"""Environment variable: a file that the driver keeps locked while it lives."""


def _read(store: Store, record: Record, file: str) -> bytes:
    """A file of an output. Raises InputError where it is gone."""
    data = store.read(f"{record.data}/{file}")
    if data is None:
        raise InputError(
            f"{store.url}/{record.data}/{file} is missing: remove the folder {store.url}/{record.folder} "
            "and run again to rebuild it"
        )
    return data


def run_step(step: Step, told: StepTeller, config: str, inputs: Inputs) -> dict[str, Record]:
    """Records of a step's outputs by kind, found or made. Raises whatever the step raises."""
    store = told.store
    work = Work.of(step, config, inputs, store)
    told.state = told.state.model_copy(
        update={"key": work.key, "config": json.loads(config), "inputs": work.references}
    )
    found = {kind: read_record(store, kind, work.key) for kind in step.outputs}
    outputs = {kind: record for kind, record in found.items() if record}
    complete = len(outputs) == len(found) and _stands(store, step, outputs)
    if not complete:
        outputs = _make_on_nodes(work, told, config) or _make_in_fork(work, told) or make(work, told)
    if step.checkpoints:
        Checkpoints(store, work.key, scratch()).clear()
    references = {kind: Reference.to(store, record) for kind, record in outputs.items()}
    if step.hands_on:
        references |= _handed_on(store, step, outputs[step.outputs[0]])
    told.tell(
        status="found" if complete else "done",
        attempt=outputs[step.outputs[0]].data,
        ended=time.time(),
        outputs=references,
    )
    return outputs


def _stands(store: Store, step: Step, outputs: dict[str, Record]) -> bool:
    return not step.stands or load_function(step.stands)(store, outputs[step.outputs[0]])


def _handed_on(store: Store, step: Step, record: Record) -> dict[str, Reference]:
    """What a step hands on, by output. Raises InputError where its file is gone."""
    named = json.loads(_read(store, record, HANDED_ON_FILE))
    found = {
        output: load_reference(Reference.model_validate(named[output]), f"{step.name} {output}", store)
        for output in step.hands_on
    }
    return {output: Reference.to(*of) for output, of in found.items()}


def run_on_node(step: Step, told: StepTeller, config: str, inputs: Inputs, first: bool) -> None:
    """One node's part of a step that several do together; the `first` tells events and publishes.

    Nothing happens if the step's outputs are there. Raises whatever the step raises.
    """
    if find_records(told.store, step, config, inputs):
        return
    work = Work.of(step, config, inputs, told.store)
    if first:
        told.state = told.state.model_copy(
            update={"key": work.key, "config": json.loads(config), "inputs": work.references}
        )
        make(work, told)
        return
    folder = scratch() / "unpublished"
    outputs = {kind: folder / kind for kind in step.outputs}
    checkpoints = Checkpoints(told.store, work.key, scratch())
    step.function()(work.settings, work.stage(), outputs, Silent(), checkpoints=checkpoints)


def find_records(store: Store, step: Step, config: str, inputs: Inputs) -> dict[str, Record] | None:
    """The records of a step's outputs by kind, if all of them are in the store already."""
    key = Work.of(step, config, inputs, store).key
    found = {kind: read_record(store, kind, key) for kind in step.outputs}
    records = {kind: record for kind, record in found.items() if record}
    return records if len(records) == len(found) else None


def _make_on_nodes(work: Work, told: StepTeller, config: str) -> dict[str, Record] | None:
    """Have a step's work done by pods of their own; None where the environment names none."""
    if not work.step.together or NODES not in os.environ:
        return None
    from multiview.steps.backends.trainjob_client import make_on_nodes

    return make_on_nodes(work.step, told, config, work.references, work.key)


def _make_in_fork(work: Work, told: StepTeller) -> dict[str, Record] | None:
    """Have a step's work done in a fork; None where there are none, or the step is quick to start."""
    if not work.step.torch or not fork_server.offered():
        return None
    attempt = fork_server.make(told, work.sources)
    told.state = told.state.model_copy(update={"attempt": attempt})
    return {kind: load_record(f"{told.store.url}/{kind}/{work.key}")[1] for kind in work.step.outputs}


def watch_driver() -> None:
    """End this process when its driver is gone: when the lock that the driver holds is free."""
    path = os.environ.get(DRIVER_LOCK)
    if not path:
        return

    def wait() -> None:
        from filelock import FileLock

        with FileLock(path).acquire(poll_interval=1.0):
            os._exit(70)

    threading.Thread(target=wait, daemon=True, name="driver-watch").start()
