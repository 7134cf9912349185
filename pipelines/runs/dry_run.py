"""What `--dry-run` prints: the steps that are in the store, and those that would run."""

from __future__ import annotations

from collections.abc import Iterator

from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.plans.plan import Node, Output, Outputs, Plan
from multiview.steps.execution import find_outputs, references_of
from multiview.steps.path import StepPath
from multiview.steps.work import Work


def dry_run_lines(plan: Plan, store: Store) -> Iterator[str]:
    """Yields a line per step of a plan. Raises InputError for sources that do not exist."""
    found = found_steps(plan, store)
    for path in plan.paths():
        yield f"  {'found' if path in found else 'new':<5}  {path}"


def study_line(row: str, plan: Plan, store: Store) -> str:
    """Returns how many steps of a study's row are found and new, and the new ones by name."""
    found = found_steps(plan, store)
    new = [str(path) for path in plan.paths() if path not in found]
    return f"  {row}: {len(found)} found, {len(new)} new{': ' if new else ''}{', '.join(new)}"


def found_steps(plan: Plan, store: Store) -> Outputs:
    """Returns the outputs of the steps that the store has. Raises InputError for sources that do not exist."""
    plan.fingerprints(store)
    outputs: Outputs = {}
    for node in plan.nodes.values():
        for path in node.paths():
            if found := _find(plan, node, path, outputs, store):
                outputs[path] = found
    return outputs


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
