"""Steps that were done before are found as each would find itself, and the others read from them by address."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.config import canonical_json
from multiview.plans.found import find_steps
from multiview.plans.plan import Plan
from multiview.plans.training import training
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_states
from tests.fixtures.inprocess import run_plan
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("found")


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    passages, questions = write_corpus(folder)
    settings = {
        "corpus": {"source": [str(passages)], "shards": 2},
        "questions": {"source": [str(questions)], "dev_share": 0.4},
        "model": {"base": str(tiny_bert(folder / "base")), "views": 4, "passage_length": 64},
        "train": {"rounds": 0},
    }
    whole = training(settings)
    needed = {
        path: node
        for path, node in whole.nodes.items()
        if node.step.name not in ("bm25-negatives", "evaluate")
    }
    return dataclasses.replace(whole, nodes=needed)


@pytest.fixture(scope="module")
def store(folder: Path, plan: Plan) -> LocalStore:
    store = LocalStore(folder / "store")
    assert find_steps(plan, store, "first") == plan
    assert not list(read_states(store, "first")), "nothing is written"
    run_plan(plan, store, "first")
    return store


def states(store: LocalStore, run: str) -> dict[str, StepState]:
    """The states of a run's steps, without their times."""
    return {
        state.path: state.model_copy(update={"started": 0.0, "ended": 0.0})
        for state in read_states(store, run)
    }


def test_steps_are_found_as_each_finds_itself(plan: Plan, store: LocalStore) -> None:
    assert not find_steps(plan, store, "together").nodes
    run_plan(plan, store, "one-by-one")
    found = states(store, "together")
    assert found == states(store, "one-by-one")
    assert [*found] == sorted(map(str, plan.paths())) and any("shard-01" in path for path in found)
    assert {state.status for state in found.values()} == {"found"}


@pytest.mark.parametrize(
    "path", ["split", "camvr/initial-model", "camvr/round-0/encode/shard-01", "camvr/round-0/index"]
)
def test_without_an_artifact_its_step_and_what_needs_it_are_left(
    plan: Plan, store: LocalStore, path: str
) -> None:
    before = states(store, "first")
    (lost, *_) = before[path].outputs.values()
    record = Path(lost.address) / "artifact.json"
    kept = record.read_bytes()
    record.unlink()
    run = f"without-{path.replace('/', '-')}"
    try:
        rest = find_steps(plan, store, run)
        left = plan.node(path).path.whole
        assert [*rest.nodes] == [left, *plan.downstream(left)]
        found = states(store, run)
        assert {*found} == {
            str(each) for node in plan.nodes.values() if node.path not in rest.nodes for each in node.paths()
        }
        assert all(state.status == "found" for state in found.values())
        # What is left runs by itself, and makes what was there before.
        run_plan(rest, store, run)
    finally:
        record.write_bytes(kept)
    after = states(store, run)
    assert {path: state.outputs for path, state in after.items()} == {
        path: state.outputs for path, state in before.items()
    }
    assert {path: state.inputs for path, state in after.items()} == {
        path: state.inputs for path, state in before.items()
    }


def test_what_was_found_is_read_by_its_address(plan: Plan, store: LocalStore) -> None:
    changed = dataclasses.replace(plan, nodes={**plan.nodes})
    index = StepPath.parse("camvr/round-0/index")
    config = json.loads(plan.nodes[index].config) | {"index": {"kind": "hnsw"}}
    changed.nodes[index] = dataclasses.replace(plan.nodes[index], config=canonical_json(config))
    (node,) = find_steps(changed, store, "other-index").nodes.values()
    assert node.path == index and all(isinstance(source, Reference) for _, source in node.sources())
    assert isinstance(node.inputs["embeddings"], list) and len(node.inputs["embeddings"]) == 2


def test_a_source_that_changed_is_not_found(plan: Plan, store: LocalStore, folder: Path) -> None:
    passages = folder / "passages.parquet"
    kept = passages.read_bytes()
    passages.unlink()
    try:
        assert StepPath("split") in find_steps(plan, store, "gone").nodes
        passages.write_bytes(kept + b"\0")
        assert StepPath("split") in find_steps(plan, store, "changed").nodes
    finally:
        passages.write_bytes(kept)
    assert not find_steps(plan, store, "restored").nodes
