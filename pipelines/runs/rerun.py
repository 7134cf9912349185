"""Rerun one step of an earlier run, and what follows it, without the steps before it.

The inputs are found in MLflow and their bytes verified; the plan is cut at them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.config.overrides import Overrides, leaves, merge, outcome
from multiview.errors import InputError
from multiview.tracking import TrackedRun
from pipelines.plans import PIPELINES
from pipelines.plans.plan import Node, Output, Plan, Source


@dataclass(frozen=True)
class Rerun:
    """A plan cut out of an earlier run's, and where its inputs come from."""

    plan: Plan
    overrides: Overrides
    imported: list[tuple[str, Reference]]
    """(path and input, artifact) of everything that is read from the earlier run."""


def cut(earlier: TrackedRun, path: str, changes: Overrides, downstream: bool) -> Rerun:
    """The plan of step `path` of an earlier run with `changes` to its settings, and of all steps
    that need it if `downstream`. Raises InputError for an unknown step, or inputs that MLflow does
    not know, or a run whose pipeline is no such plan."""
    pipeline = earlier.run.pipeline
    if pipeline not in PIPELINES:
        raise InputError(
            f"run {earlier.run.id} is of `python -m pipelines {pipeline}`, which has no steps of its own to rerun: "
            "give that command again, or rerun a step of the runs that it reads"
        )
    overrides = merge(earlier.run.config, changes)
    plan = PIPELINES[pipeline](overrides)
    before = PIPELINES[pipeline](earlier.run.config)
    chosen = plan.node(path)
    nodes = [chosen]
    if downstream:
        whole = plan.nodes.get(path)
        if whole is None:
            raise InputError(f"{path} is one shard: rerun {path.rpartition('/')[0]} --downstream instead")
        nodes += [plan.nodes[p] for p in plan.downstream(path)]
    kept = {node.path for node in nodes}
    _check_changes(plan, before, kept, changes)
    part = Plan(plan.name)
    imported: list[tuple[str, Reference]] = []
    for node in nodes:
        inputs: dict[str, Source | list[Source]] = {}
        for name, value in node.inputs.items():
            sources = value if isinstance(value, list) else [value]
            found: list[Source] = []
            for source in sources:
                if isinstance(source, Output) and source.path not in kept:
                    references = _outputs(earlier, plan.nodes[source.path], source.kind, node.path)
                    imported += [(f"{node.path} {name}", r) for r in references]
                    found += references
                else:
                    found.append(source)
            inputs[name] = found if isinstance(value, list) else found[0]
        part.nodes[node.path] = replace(node, inputs=inputs)
    return Rerun(part, overrides, imported)


def _check_changes(plan: Plan, before: Plan, kept: set[str], changes: Overrides) -> None:
    """A changed setting must be one that the rerun's steps read, and leave the plan's shape alone."""
    settings = {setting for path in kept for setting in plan.nodes[path].step.settings}
    for leaf in leaves(outcome(changes)):
        if not any(leaf == setting or leaf.startswith(f"{setting}.") for setting in settings):
            readers = [
                n.path for n in plan.nodes.values() if any(leaf.startswith(s) for s in n.step.settings)
            ]
            instead = f"; rerun {readers[0]} --downstream instead" if readers else ""
            raise InputError(f"{leaf} is not read by {', '.join(sorted(kept))}{instead}")
    for path, node in plan.nodes.items():
        old = before.nodes.get(path)
        if old is None or (old.shards, old.inputs) != (node.shards, node.inputs):
            raise InputError(f"the changed settings change the pipeline's shape at {path}: run it whole")


def verify(rerun: Rerun) -> None:
    """Read every imported byte against its record and digest. Raises InputError at the first flaw."""
    for reference in {r.address: r for _, r in rerun.imported}.values():
        store, record = load_record(reference.address)
        if record.digest != reference.digest:
            raise InputError(
                f"{reference.address} has digest {record.digest[:12]}…, but MLflow says "
                f"{reference.digest[:12]}…: it was replaced; rerun the step that makes it ({record.step})"
            )
        stage(store, record, verify=True)


def _outputs(earlier: TrackedRun, node: Node, kind: str, reader: str) -> list[Reference]:
    found = []
    for path in node.paths():
        step = earlier.steps.get(path)
        if step is None or kind not in step.outputs:
            raise InputError(
                f"{reader} needs {kind} of {path}, which run {earlier.run.id} has not finished: "
                f"rerun {node.path} first, with --downstream"
            )
        found.append(step.outputs[kind])
    return found
