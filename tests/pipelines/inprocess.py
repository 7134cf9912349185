"""Runs a plan's steps in this process, one after another, without KFP."""

import sys

import pytest

from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import Store
from multiview.cli.app import run_app
from multiview.steps.execution import StepTeller, run_step
from multiview.steps.runs import Run, StepState, read_states, write_run
from pipelines import __main__ as commands
from pipelines.plans.plan import Output, Plan
from pipelines.runs import local

Records = dict[str, dict[str, Record]]


def run_plan(plan: Plan, store: Store, run: str = "run") -> Records:
    """Records of all outputs, by path and kind; a shard's by the shard's path."""
    records: Records = {}
    outputs: dict[str, dict[str, Reference]] = {}

    def references(source) -> list[Reference]:
        if isinstance(source, Reference):
            return [source]
        assert isinstance(source, Output)
        return [outputs[str(path)][source.kind] for path in plan.nodes[source.path].paths()]

    for node in plan.nodes.values():
        inputs: dict[str, Reference | list[Reference]] = {
            name: [r for source in value for r in references(source)]
            if isinstance(value, list)
            else references(value)[0]
            for name, value in node.inputs.items()
        }
        for path, shard in zip(map(str, node.paths()), node.shards or ("",), strict=True):
            given = dict(inputs)
            if shard:
                for name in node.step.by_shard:
                    whole = given[name]
                    assert isinstance(whole, Reference)
                    given[name] = whole.model_copy(update={"file": f"{shard}.parquet"})
            told = StepTeller(store, run, path, node.step.name)
            with told.failures():
                records[path] = run_step(node.step, told, node.config, given)
            outputs[path] = told.state.outputs
    return records


def run_here(plan: Plan, run: Run, store: Store, uri: str, debug: bool = False) -> list[StepState]:
    """The driver without KFP."""
    write_run(store, run)
    run_plan(plan, store, run.id)
    states = {state.path: state for state in read_states(store, run.id)}
    return [states[path] for path in run.steps]


def command(monkeypatch, capsys, *words: str, status: int = 0) -> str:
    """What `python -m pipelines` prints with these words; it must end with `status`."""
    monkeypatch.setattr(local, "run_here", run_here)
    monkeypatch.setattr(sys, "argv", ["pipelines", *words])
    with pytest.raises(SystemExit) as ended:
        run_app(commands.app)
    printed = capsys.readouterr()
    assert ended.value.code == status, printed
    return printed.err if status else printed.out
