"""The forecast of a study: which steps of its rows are in the store, shared by rows, or new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import Store
from multiview.config import canonical_json
from multiview.plans.plan import Node, Plan
from multiview.steps.path import StepPath, shard_file
from multiview.steps.step import key_settings
from multiview.steps.work import Work

Status = Literal["found", "shared", "new"]
Inputs = dict[str, Reference | list[Reference]]


@dataclass(frozen=True)
class Prospect:
    """The forecast for one step of one row."""

    path: StepPath
    status: Status
    """`found` in the store, `shared` with an earlier row, or `new`."""


def forecast(plans: Mapping[str, Plan], store: Store) -> dict[str, list[Prospect]]:
    """Returns the prospects of each row's steps, in order."""
    made: set[str] = set()
    return {row: list(_prospects(plan, store, made)) for row, plan in plans.items()}


def _prospects(plan: Plan, store: Store, made: set[str]) -> Iterator[Prospect]:
    """Adds the identities of the plan's steps to those that earlier rows have `made`."""
    records: dict[StepPath, list[dict[str, Record]]] = {}
    identities: dict[StepPath, str] = {}
    fingerprints = plan.fingerprints(store)
    for path, node in plan.nodes.items():
        identity = identities[path] = _identity(node, identities, fingerprints.get(path))
        shards = [_find(node, shard, records, store) for shard in node.shards or ("",)]
        if all(shards):
            records[path] = [outputs for outputs in shards if outputs]
        for shard_path, outputs in zip(node.paths(), shards, strict=True):
            yield Prospect(shard_path, "found" if outputs else "shared" if identity in made else "new")
        made.add(identity)


def _identity(node: Node, identities: Mapping[StepPath, str], fingerprint: object) -> str:
    """Returns the identity of a step before its inputs exist, which is equal for two rows that share the step."""
    inputs = [
        [name, source.digest if isinstance(source, Reference) else [identities[source.path], source.kind]]
        for name, source in node.sources()
    ]
    settings = key_settings(node.step.parse(node.config))
    identity = canonical_json([node.step.name, settings, inputs, list(node.shards), fingerprint])
    return hashlib.sha256(identity.encode()).hexdigest()


def _find(
    node: Node, shard: str, records: Mapping[StepPath, list[dict[str, Record]]], store: Store
) -> dict[str, Record] | None:
    """The records of a step's outputs by kind; None where one of its inputs or outputs does not exist yet."""
    inputs = _inputs(node, records, store)
    if inputs is None:
        return None
    if shard:
        for name in node.step.sharded_inputs:
            whole = inputs[name]
            assert isinstance(whole, Reference), "a step by shard reads one file of each such input"
            inputs[name] = whole.model_copy(update={"file": shard_file(shard)})
    outputs = Work.resolve(node.step, node.config, inputs, store).find(store)
    return outputs if len(outputs) == len(node.step.outputs) else None


def _inputs(node: Node, records: Mapping[StepPath, list[dict[str, Record]]], store: Store) -> Inputs | None:
    """References to a step's inputs; None where one of them does not exist yet."""
    inputs: Inputs = {}
    for name, value in node.inputs.items():
        references: list[Reference] = []
        for source in value if isinstance(value, list) else [value]:
            if isinstance(source, Reference):
                references.append(source)
            elif source.path in records:
                references += [Reference.to(store, outputs[source.kind]) for outputs in records[source.path]]
            else:
                return None
        inputs[name] = references if isinstance(value, list) else references[0]
    return inputs


def summary(prospects: Mapping[str, list[Prospect]]) -> Iterator[str]:
    """Yields a line per row: how many of its steps are found, shared and new, and the new ones by name."""
    for row, steps in prospects.items():
        statuses = [step.status for step in steps]
        numbers = ", ".join(f"{statuses.count(status)} {status}" for status in ("found", "shared", "new"))
        new = ", ".join(str(step.path) for step in steps if step.status == "new")
        yield f"  {row}: {numbers}{f': {new}' if new else ''}"
