"""Rates from a run: how long its steps took, beside their estimate for the run's own counts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from multiview import names
from multiview.artifacts.record import Record, read_record, split_address
from multiview.artifacts.store import Store
from multiview.config import JsonObject
from multiview.errors import InputError
from multiview.estimates.counting import stored_words
from multiview.estimates.estimate import estimate
from multiview.estimates.model_shape import ModelShape, shape_in
from multiview.estimates.workload import Scenario, Workload
from multiview.model.bases import CONFIG_FILE
from multiview.plans.request import Request
from multiview.steps.runs import StepState, read_run, read_states

SLOW = 2.0
"""A step counts from so many times its start's seconds on: below, the start decides."""


@dataclass(frozen=True)
class Calibration:
    """What a run says about rates."""

    factors: dict[str, float]
    """Measured over estimated seconds, by the step's name, of the same device and cores."""
    workload: Workload
    """The run's own."""
    hardware: str
    """The device and its software, as the run's records have them."""


def calibrate(store: Store, run: str, scenario: Scenario) -> Calibration:
    """Compares the records of a run with the estimate of its plan, for its own amounts and its own model.

    Seconds are those of the record of each step's output, whether the run made it or found it. Raises InputError for a
    run that is unknown, did not get as far as its first embeddings, or ran on processors where GPUs are planned, and
    the other way round.
    """
    description = read_run(store, run)
    states = [state for state in read_states(store, run) if state.finished]
    records = {state.path: _record(store, state) for state in states}
    found = [record for record in records.values() if record]
    devices = [record.environment["device"] for record in found if "device" in record.environment]
    if devices and bool(scenario.hardware.gpus) != any(device != "cpu" for device in devices):
        raise InputError(
            f"--from {run}: it ran on {_hardware(found)}, which says nothing of rates "
            f"{'on GPUs: leave out --gpus' if scenario.hardware.gpus else 'of processors: name the GPUs by --gpus'}, or --from"
        )
    workload, shape = workload_of(description.id, found, scenario), _shape(store, found) or scenario.shape
    request = Request.make(description.pipeline, description.config, description.preset)
    estimated = estimate(request, replace(scenario, workload=workload, shape=shape))
    start = scenario.rates["start_seconds"]
    measured: dict[str, float] = defaultdict(float)
    expected: dict[str, float] = defaultdict(float)
    for path, cost in estimated.costs.items():
        node = request.plan.nodes[path]
        shards = [records.get(str(shard)) for shard in node.paths()]
        if all(shards):
            measured[node.step.name] += sum(record.seconds for record in shards if record)
            expected[node.step.name] += sum(cost.parts.values()) * cost.tasks
    factors = {step: seconds / expected[step] for step, seconds in measured.items() if seconds > SLOW * start}
    return Calibration(factors, workload, _hardware(found))


def workload_of(run: str, records: Iterable[Record], scenario: Scenario) -> Workload:
    """The counts in a run's records; what they lack is that of `scenario`. Raises InputError without embeddings."""
    facts: dict[str, JsonObject] = {}
    views = passages = words = 0
    for record in records:
        facts[record.kind] = record.facts
        if record.kind == names.PASSAGES:
            words = stored_words(record, scenario.rates)
        if record.kind == names.EMBEDDINGS:
            views, passages = views + record.facts["views"], passages + record.facts["passages"]
    split = facts.get(names.PASSAGES)
    if not passages or split is None:
        raise InputError(
            f"--from {run}: the run has no split and embeddings yet, from which rates could be read"
        )
    made = facts.get(names.TRAIN_QUESTIONS, split)  # of make-questions, if the run has it
    return replace(
        scenario.workload,
        passages=split["passages"],
        views=views / passages,
        words=words,
        questions=made["train_questions"],
        dev_questions=split["dev_questions"] or made["dev_questions"],
    )


def _shape(store: Store, records: Iterable[Record]) -> ModelShape | None:
    """The shape of the model that a run made first; None where its records have none."""
    for record in records:
        for file in record.files:
            if record.kind == names.MODEL and Path(file.path).name == CONFIG_FILE:
                return shape_in(json.loads(store.read(f"{record.data}/{file.path}") or b"{}"))
    return None


def _record(store: Store, state: StepState) -> Record | None:
    """The record of a step's first output; None where it was collected."""
    if not state.outputs:
        return None
    _, kind, key = split_address(next(iter(state.outputs.values())).address)
    return read_record(store, kind, key)


def _hardware(records: Iterable[Record]) -> str:
    """Devices, instruction sets and threads of the steps that ran torch."""
    found = {
        f"{environment['device']} ({environment.get('instruction_set')}, {environment.get('threads')} threads)": None
        for environment in (record.environment for record in records)
        if "device" in environment
    }
    return ", ".join(found) or "unknown"
