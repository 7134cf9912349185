"""Runs a plan's steps in this process, one after another, without KFP."""

from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import Store
from multiview.runner import StepTeller, run_step
from pipelines.plan import Output, Plan

Records = dict[str, dict[str, Record]]


def run_plan(plan: Plan, store: Store, run: str = "run") -> Records:
    """Records of all outputs, by path and kind; a shard's by the shard's path."""
    records: Records = {}

    def references(source) -> list[Reference]:
        if isinstance(source, Reference):
            return [source]
        assert isinstance(source, Output)
        made = [records[path][source.kind] for path in plan.nodes[source.path].paths()]
        return [Reference(address=f"{store.url}/{record.folder}", digest=record.digest) for record in made]

    for node in plan.nodes.values():
        inputs: dict[str, Reference | list[Reference]] = {
            name: [r for source in value for r in references(source)]
            if isinstance(value, list)
            else references(value)[0]
            for name, value in node.inputs.items()
        }
        for path, shard in zip(node.paths(), node.shards or ("",), strict=True):
            given = dict(inputs)
            if shard:
                for name in node.step.by_shard:
                    whole = given[name]
                    assert isinstance(whole, Reference)
                    given[name] = whole.model_copy(update={"file": f"{shard}.parquet"})
            told = StepTeller(store, run, path, node.step.name)
            with told.failures():
                records[path] = run_step(node.step, told, node.config, given)
    return records
