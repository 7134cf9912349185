"""What `--dry-run` prints: the steps that are in the store, shared by several rows of a study, or new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Literal

from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config import canonical_json
from multiview.errors import InputError
from multiview.plans.plan import Node, Output, Outputs, Plan
from multiview.plans.request import Request
from multiview.steps.execution import find_outputs, references_of
from multiview.steps.path import StepPath
from multiview.steps.step import key_settings
from multiview.steps.work import Work

Status = Literal["found", "shared", "new"]
Prospects = dict[StepPath, Status]
"""The forecast of a row: each step, or shard of one, is in the store, shared with an earlier row, or new."""


def dry_run_lines(request: Request, store: Store) -> Iterator[str]:
    """Yields a line per step of a request. Raises InputError for sources that do not exist."""
    for path, status in forecast({"": request.plan}, store)[""].items():
        yield f"  {status:<6} {path}"


def study_lines(plans: Mapping[str, Plan], store: Store) -> Iterator[str]:
    """Yields a line per row: how many of its steps are found, shared and new, and the new ones by name."""
    for row, prospects in forecast(plans, store).items():
        statuses = list(prospects.values())
        counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("found", "shared", "new"))
        new = ", ".join(str(path) for path, status in prospects.items() if status == "new")
        yield f"  {row}: {counts}{f': {new}' if new else ''}"


def forecast(plans: Mapping[str, Plan], store: Store) -> dict[str, Prospects]:
    """Returns the prospects of each row's steps, in order."""
    made: set[str] = set()
    return {row: _prospects(plan, store, made) for row, plan in plans.items()}


def _prospects(plan: Plan, store: Store, made: set[str]) -> Prospects:
    """Adds the identities of the plan's steps to those that earlier rows have `made`."""
    outputs: Outputs = {}
    identities: dict[StepPath, str] = {}
    prospects: Prospects = {}
    fingerprints = plan.fingerprints(store)
    for node in plan.nodes.values():
        identity = identities[node.path] = _identity(node, identities, fingerprints.get(node.path))
        for path in node.paths():
            if found := _find(plan, node, path, outputs, store):
                outputs[path] = found
            prospects[path] = "found" if found else "shared" if identity in made else "new"
        made.add(identity)
    return prospects


def _identity(node: Node, identities: Mapping[StepPath, str], fingerprint: object) -> str:
    """The identity of a step before its inputs exist, which is equal for two rows that share the step."""
    inputs = [
        [name, source.digest if isinstance(source, Reference) else [identities[source.path], source.kind]]
        for name, source in node.sources()
    ]
    settings = key_settings(node.step.parse(node.config))
    identity = canonical_json([node.step.name, settings, inputs, list(node.shards), fingerprint])
    return hashlib.sha256(identity.encode()).hexdigest()


def _find(
    plan: Plan, node: Node, path: StepPath, outputs: Outputs, store: Store
) -> dict[str, Reference] | None:
    """The outputs of a step, or of its shard; None where they or its inputs are not in the store."""
    read = [source.path for _, source in node.sources() if isinstance(source, Output)]
    if not all(each in outputs for source in read for each in plan.nodes[source].paths()):
        return None
    try:
        work = Work.resolve(node.step, node.config, plan.inputs_of(node, path, outputs), store)
        records = find_outputs(work, store)
        return references_of(node.step, store, records) if records else None
    except InputError:
        return None
