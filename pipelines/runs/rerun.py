"""Reruns of a step of an earlier run, and of those that need it: part of a plan, with inputs found in MLflow."""

from collections.abc import Set

from multiview.artifacts import staging
from multiview.artifacts.record import Reference, in_store, load_reference
from multiview.artifacts.store import Store
from multiview.config.overrides import Overrides, leaves, merge, outcome, validate
from multiview.errors import InputError, naming
from multiview.plans import PIPELINES, make_plan
from multiview.plans.plan import Node, Plan
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from multiview.tracking import TrackedRun


def verify(plan: Plan) -> None:
    """Checks every byte of the artifacts that a plan reads. Raises InputError at the first flaw."""
    for reference in {source.address: source for _, _, source in plan.artifacts()}.values():
        staging.verify(*load_reference(reference, "rerun"))


def cut(
    earlier: TrackedRun, path: str, changes: Overrides, downstream: bool, near: Store | None = None
) -> Request:
    """Returns the request for step `path` of an earlier run with `changes` to its settings; with `downstream`, also for
    all steps that need it. Artifacts are looked up first in the store `near`, as they may have been moved there. Raises
    InputError for an unknown step, for inputs that MLflow does not know, and for a run that compares others."""
    pipeline = earlier.run.pipeline
    if pipeline not in PIPELINES:
        raise InputError(
            f"run {earlier.run.id} is of `python -m pipelines {pipeline}`, which has no steps of its own to rerun: "
            "give that command again, or rerun a step of the runs that it reads"
        )
    overrides = merge(earlier.run.config, changes)
    with naming(
        f"run {earlier.run.id} was made by another version of multiview; give its command again without this"
    ):
        validate(earlier.run.config)
    plan, before = make_plan(pipeline, overrides), make_plan(pipeline, earlier.run.config)
    nodes = _chosen(plan, path, downstream)
    _check_changes(plan, before, nodes.keys(), changes)
    part = plan.part(
        nodes, lambda node, source: _artifacts(earlier, plan.nodes[source.path], source.kind, node.path, near)
    )
    part.architectures = earlier.run.architectures or plan.architectures
    return Request(part, overrides, earlier.run.preset, rerun_of=earlier.run.id)


def _chosen(plan: Plan, path: str, downstream: bool) -> dict[StepPath, Node]:
    """The steps to run again. Raises InputError for an unknown step, and for one shard with `downstream`."""
    node = plan.node(path)
    if not downstream:
        return {node.path: node}
    if str(node.path) != path:
        raise InputError(f"{path} is one shard: rerun {node.path} --downstream instead")
    return {other: plan.nodes[other] for other in (node.path, *plan.downstream(node.path))}


def _check_changes(plan: Plan, before: Plan, chosen: Set[StepPath], changes: Overrides) -> None:
    """Raises InputError for a change that no chosen step reads, that has no effect, or that alters the plan's shape."""
    for leaf in leaves(outcome(changes)):
        if not any(plan.nodes[path].step.reads(leaf) for path in chosen):
            readers = [node.path for node in plan.nodes.values() if node.step.reads(leaf)]
            instead = f"; rerun {readers[0]} --downstream instead" if readers else ""
            raise InputError(f"{leaf} is not read by {', '.join(sorted(map(str, chosen)))}{instead}")
    if path := plan.differs_at(before):
        raise InputError(f"the changed settings change the pipeline's shape at {path}: run it whole")
    if outcome(changes) and all(plan.nodes[path].config == before.nodes[path].config for path in chosen):
        raise InputError(
            f"{', '.join(leaves(outcome(changes)))} changes nothing of {', '.join(sorted(map(str, chosen)))}: it has this "
            "value already, or its system or stage has one of its own (comparison.systems, train.round_two)"
        )


def _artifacts(
    earlier: TrackedRun, node: Node, kind: str, reader: StepPath, near: Store | None
) -> list[Reference]:
    """The outputs of a kind made by a step of the earlier run, or its shards. Raises InputError if any is missing."""
    references = []
    for path in node.paths():
        step = earlier.steps.get(str(path))
        if step is None or kind not in step.outputs:
            raise InputError(
                f"{reader} needs {kind} of {path}, which run {earlier.run.id} has not finished: "
                f"rerun {node.path} first, with --downstream"
            )
        references.append(in_store(step.outputs[kind], near))
    return references
