"""What a study will do, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiview import names
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import Comparison, canonical_json
from multiview.config.overrides import Overrides, validate
from multiview.errors import InputError
from multiview.evaluation.compare import SEEDS_TABLE_FILE
from multiview.evaluation.tables import baseline_of
from multiview.steps.runs import StepState
from multiview.steps.step import key_settings
from multiview.steps.work import Work
from pipelines.plans.plan import Node, Output, Plan
from pipelines.runs.study import Study


@dataclass(frozen=True)
class Prospect:
    """What will come of one step of one row."""

    path: str
    status: str
    """`found` in the store, `shared` with an earlier row, or `new`."""


def forecast(plans: Mapping[str, Plan], store: Store) -> dict[str, list[Prospect]]:
    """Of each row's steps, which are in the store already, which an earlier row makes, and which are new."""
    made: set[str] = set()
    return {row: list(_prospects(plan, store, made)) for row, plan in plans.items()}


def _prospects(plan: Plan, store: Store, made: set[str]) -> Iterator[Prospect]:
    records: dict[str, list[dict[str, Record]]] = {}
    identities: dict[str, str] = {}
    sources = plan.fingerprints(store)
    for path, node in plan.nodes.items():
        identities[path] = _identity(node, identities, sources.get(path))
        inputs = [_inputs(node, records, store, shard) for shard in node.shards or ("",)]
        found = [
            _find(Work.resolve(node.step, node.config, read, store), store) if read is not None else None
            for read in inputs
        ]
        if all(found):
            records[path] = [each for each in found if each]
        for place, each in zip(node.paths(), found, strict=True):
            yield Prospect(place, "found" if each else "shared" if identities[path] in made else "new")
        made.add(identities[path])


def _find(work: Work, store: Store) -> dict[str, Record] | None:
    """The records of a step's outputs by kind; None where one is missing."""
    records = work.find(store)
    return records if len(records) == len(work.step.outputs) else None


def _identity(node: Node, identities: Mapping[str, str], sources: Any) -> str:
    """What decides a step's output before its inputs exist: equal for two rows that share it."""
    inputs = [
        [name, source.digest if isinstance(source, Reference) else [identities[source.path], source.kind]]
        for name, source in node.sources()
    ]
    settings = key_settings(node.step.parse(node.config))
    identity = canonical_json([node.step.name, settings, inputs, list(node.shards), sources])
    return hashlib.sha256(identity.encode()).hexdigest()


def _inputs(
    node: Node, records: Mapping[str, list[dict[str, Record]]], store: Store, shard: str
) -> dict[str, Any] | None:
    """References to a step's inputs; none where one does not exist yet."""
    found: dict[str, Any] = {}
    for name, value in node.inputs.items():
        listed: list[Reference] = []
        for source in value if isinstance(value, list) else [value]:
            if isinstance(source, Output):
                if source.path not in records:
                    return None
                listed += [_reference(store, each[source.kind]) for each in records[source.path]]
            else:
                listed.append(source)
        found[name] = listed if isinstance(value, list) else listed[0]
        if shard and name in node.step.sharded_inputs:
            found[name] = found[name].model_copy(update={"file": f"{shard}.parquet"})
    return found


def _reference(store: Store, record: Record) -> Reference:
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)


def summary(prospects: Mapping[str, list[Prospect]]) -> Iterator[str]:
    """A line a row: how many of its steps are found, shared and new, and the new ones by name."""
    for row, steps in prospects.items():
        count = {status: sum(p.status == status for p in steps) for status in ("found", "shared", "new")}
        new = [p.path for p in steps if p.status == "new"]
        numbers = ", ".join(f"{number} {status}" for status, number in count.items())
        yield f"  {row}: {numbers}{': ' + ', '.join(new) if new else ''}"


# --- results -----------------------------------------------------------------------------------


def rows_of(row: str, plan: Plan) -> dict[str, str]:
    """The paths of a plan's evaluations, after the last round, by the names of their rows: `row`, or `row/SYSTEM`
    where there are several systems.

    Raises InputError for a pipeline without one.
    """
    last = {
        path.split("/")[0]: path for path, node in plan.nodes.items() if names.EVALUATION in node.step.outputs
    }
    if not last:
        raise InputError(f"{row}: its pipeline evaluates nothing, so there is nothing to compare")
    return {row if len(last) == 1 else f"{row}/{system}": path for system, path in last.items()}


def evaluations_of(rows: Mapping[str, str], states: Sequence[StepState]) -> dict[str, Reference]:
    """The evaluations that a run's states know, by the names of their rows."""
    outputs = {state.path: state.outputs for state in states}
    return {row: outputs[path][names.EVALUATION] for row, path in rows.items()}


def comparison_settings(study: Study, rows: Sequence[str], base: Overrides) -> Comparison:
    """The settings of a study's comparison. Raises InputError for a baseline that is none of its rows, or, with
    several seeds, none of its systems."""
    of = {}
    for row in rows:
        for seeded, plain in study.of_seeds().items():
            if row == seeded or row.startswith(f"{seeded}/"):
                of[row] = plain + row.removeprefix(seeded)
    given = {**base.get("comparison", {}), "rows": tuple(rows), "seeds_of": of}
    settings = validate({"comparison": given}).comparison
    baseline_of(settings.baseline, list(dict.fromkeys(of.get(row, row) for row in rows)))
    return settings


def seeds_page(states: Sequence[StepState]) -> str:
    """The comparison's table of means over seeds."""
    (address,) = [of.outputs[names.COMPARISON].address for of in states if names.COMPARISON in of.outputs]
    folder = stage(*load_record(address)).path
    return (folder / SEEDS_TABLE_FILE).read_text()
