"""A plan whose steps have all been done before: their outputs are found, and nothing has to run."""

from __future__ import annotations

from collections.abc import Mapping

from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.plans.plan import Node, Output, Plan, Source
from multiview.steps.execution import find_outputs, references_of
from multiview.steps.path import StepPath
from multiview.steps.reporter import StepReporter
from multiview.steps.work import Inputs, Work

Outputs = dict[StepPath, dict[str, Reference]]
"""The outputs of steps by kind, by the step's path, a shard's by the shard's."""


def find_all(plan: Plan, store: Store, run: str) -> bool:
    """Writes that every step of a plan is found, as the steps of `run`; writes nothing and returns False if one is not.

    A step is found as it would be in a process of its own, by its settings, inputs and sources. A step whose inputs
    cannot be read counts as not found: when it runs it says why.
    """
    outputs: Outputs = {}
    found: list[tuple[StepReporter, Work, dict[str, Record]]] = []
    for node in plan.nodes.values():
        for path in node.paths():
            reporter = StepReporter(store, run, str(path), node.step.name)
            try:
                work = Work.resolve(node.step, node.config, inputs_of(plan, node, path, outputs), store)
                records = find_outputs(work, store)
                if not records:
                    return False
                outputs[path] = references_of(node.step, store, records)
            except InputError:
                return False
            found.append((reporter, work, records))
    for reporter, work, records in found:
        reporter.describe(work)
        path = StepPath.parse(reporter.state.path)
        reporter.finish("found", records[work.step.outputs[0]].data, outputs[path])
    return True


def inputs_of(
    plan: Plan, node: Node, path: StepPath, outputs: Mapping[StepPath, Mapping[str, Reference]]
) -> Inputs:
    """Returns references to the inputs of a step of a plan, of which `path` is one shard if it runs by shard; `outputs`
    are those of the steps before it."""

    def references(source: Source) -> list[Reference]:
        if isinstance(source, Output):
            return [outputs[each][source.kind] for each in plan.nodes[source.path].paths()]
        return [source]

    inputs: dict[str, Reference | list[Reference]] = {}
    for name, value in node.inputs.items():
        if isinstance(value, list):
            inputs[name] = [reference for source in value for reference in references(source)]
            continue
        (reference,) = references(value)
        of_shard = path.shard and name in node.step.sharded_inputs
        inputs[name] = (
            reference.model_copy(update={"file": f"{path.shard}.parquet"}) if of_shard else reference
        )
    return inputs
