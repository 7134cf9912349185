"""The steps of a plan that have been done before: their outputs are found, and nothing has to run for them."""

from __future__ import annotations

from dataclasses import replace

from multiview.artifacts.record import Record
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.plans.plan import Node, Output, Outputs, Plan, Source
from multiview.steps.execution import claim_outputs, find_outputs, references_of
from multiview.steps.path import StepPath
from multiview.steps.reporter import StepReporter
from multiview.steps.work import Work


def find_steps(plan: Plan, store: Store, run: str) -> Plan:
    """Writes which steps of a plan are found, as steps of `run`; returns the plan of the other steps, which have to run.

    What these read from a found step is an address. A step is found as it would be in a process of its own, by its
    settings, inputs and sources, and after all steps that it reads from. A step whose inputs cannot be read counts as
    not found: when it runs it says why; and a step by shard runs whole if one shard is not found.
    """
    outputs: Outputs = {}
    rest = Plan(plan.name, architectures=plan.architectures)
    for node in plan.nodes.values():
        if found := _find(plan, node, outputs, store, run):
            outputs |= found
        else:
            rest.nodes[node.path] = node
    for path, node in rest.nodes.items():
        rest.nodes[path] = _reading_addresses(node, plan, rest, outputs)
    return rest


def _find(plan: Plan, node: Node, outputs: Outputs, store: Store, run: str) -> Outputs:
    """The outputs of a step, by shard if it runs by shard, written as found in `run`; empty if one is not found."""
    read = (source for _, source in node.sources() if isinstance(source, Output))
    if not all(path in outputs for source in read for path in plan.nodes[source.path].paths()):
        return {}
    found: dict[StepPath, tuple[Work, dict[str, Record]]] = {}
    for path in node.paths():
        try:
            work = Work.resolve(node.step, node.config, plan.inputs_of(node, path, outputs), store)
            records = find_outputs(work, store)
            if not records:
                return {}
            references_of(node.step, store, records)
        except InputError:
            return {}
        found[path] = work, records
    claimed: Outputs = {}
    for path, (work, records) in found.items():
        reporter = StepReporter(store, run, str(path), node.step.name)
        if not claim_outputs(work, records, reporter):
            return {}
        claimed[path] = reporter.state.outputs
    return claimed


def _reading_addresses(node: Node, plan: Plan, rest: Plan, outputs: Outputs) -> Node:
    """A step of the plan `rest`, which reads the outputs of found steps as artifacts that exist."""

    def sources(source: Source) -> list[Source]:
        if isinstance(source, Output) and source.path not in rest.nodes:
            return [outputs[path][source.kind] for path in plan.nodes[source.path].paths()]
        return [source]

    inputs: dict[str, Source | list[Source]] = {}
    for name, value in node.inputs.items():
        if isinstance(value, list):
            inputs[name] = [each for source in value for each in sources(source)]
        else:
            (inputs[name],) = sources(value)
    return replace(node, inputs=inputs)
