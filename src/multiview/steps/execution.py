"""Runs one step: finds its outputs in the store, or makes them."""

import hashlib
import json
from collections.abc import Mapping

from multiview import names
from multiview.artifacts.record import ArtifactGone, Record, Reference, find, load_reference, read_record
from multiview.artifacts.staging import broken_file
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.backends.in_process import work_here
from multiview.steps.backends.trainjob import template_here, work_on_nodes
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.runs import Status
from multiview.steps.step import FORWARDED_FILE, Step, load_function
from multiview.steps.work import Inputs, StepReporter, Work

ATTEMPTS = 2
"""How often a step is tried if `multiview gc` collects what it forwards meanwhile."""


def run_step(step: Step, reporter: StepReporter, config: str, inputs: Inputs) -> dict[str, Record]:
    """Returns the records of a step's outputs by kind, found or made. Raises every exception of the step."""
    store = reporter.store
    work = Work.resolve(step, config, inputs, store)
    reporter.describe(work)
    if (found := find_outputs(work, store)) and (outputs := claim_outputs(work, found, reporter)):
        return outputs
    old = work.find(store).get(step.outputs[0])
    if old and not _holds(store, step, old):  # otherwise it would be found again, whatever is made now
        store.remove(f"{old.folder}/{names.RECORD_FILE}")
    template = template_here() if step.multi_node else None
    for _ in range(ATTEMPTS):
        made = work_on_nodes(work, reporter, template) if template else work_here(work, reporter)
        if step.checkpoints:
            StoredCheckpoints(store, work.key).clear()
        if outputs := claim_outputs(work, made, reporter, "done"):
            return outputs
    raise InputError(
        f"step {step.name}: multiview gc collected what it forwards: run it again when gc is done"
    )


def find_outputs(work: Work, store: Store) -> dict[str, Record]:
    """Returns the records of a step's outputs by kind; none unless all of them are in the store and still hold."""
    step, outputs = work.step, work.find(store)
    whole = len(outputs) == len(step.outputs)
    return outputs if whole and _holds(store, step, outputs[step.outputs[0]]) else {}


def claim_outputs(
    work: Work, outputs: Mapping[str, Record], reporter: StepReporter, status: Status = "found"
) -> dict[str, Record]:
    """Writes `outputs` and what the step forwards into its state; returns `outputs` if all still exist, else none.

    A `multiview gc` that runs meanwhile either took them before, or sees the references and leaves them. Raises as
    `_forwards`.
    """
    store, step, first = reporter.store, work.step, outputs[work.step.outputs[0]]
    reporter.describe(work)
    try:
        reporter.finish(status, first.data, references_of(step, store, outputs))
    except ArtifactGone:
        return {}
    # What a step has just made was referred to before it existed.
    if (status == "done" or work.find(store) == outputs) and _forwards_hold(store, step, first):
        return {**outputs}
    reporter.change(status="running", attempt="", ended=None, outputs={})
    return {}


def references_of(step: Step, store: Store, outputs: Mapping[str, Record]) -> dict[str, Reference]:
    """Returns references to a step's outputs and the artifacts that it forwards, by output. Raises as `_forwards`."""
    references = {kind: Reference.to(store, record) for kind, record in outputs.items()}
    for output, reference in _forwards(store, step, outputs[step.outputs[0]]).items():
        references[output] = load_reference(reference, f"{step.name} {output}", store).reference
    return references


def _holds(store: Store, step: Step, record: Record) -> bool:
    """Whether what a step forwards exists, and its effects besides its outputs still hold."""
    effects = step.still_holds
    return _forwards_hold(store, step, record) and (not effects or load_function(effects)(store, record))


def _forwards_hold(store: Store, step: Step, record: Record) -> bool:
    """Whether no artifact that a step forwards was collected."""
    return all(find(reference, store, read_record) for reference in _forwards(store, step, record).values())


def _forwards(store: Store, step: Step, record: Record) -> dict[str, Reference]:
    """Returns the references that a step forwards, by output. Raises InputError if their file is gone or was altered."""
    if not step.forwards:
        return {}
    data = store.read(f"{record.data}/{FORWARDED_FILE}")
    if data is None:
        raise InputError(broken_file(store, record, FORWARDED_FILE, "is missing"))
    if flaw := record.file(FORWARDED_FILE).flaw(len(data), hashlib.sha256(data).hexdigest()):
        raise InputError(broken_file(store, record, FORWARDED_FILE, flaw))
    references = json.loads(data)
    return {output: Reference.model_validate(references[output]) for output in step.forwards}
