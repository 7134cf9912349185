"""A plan that was done before: it is found whole, as its steps would find it one by one, or not at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.plans.found import find_all
from multiview.plans.plan import Plan
from multiview.plans.training import training
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
    assert not find_all(plan, store, "first")
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
    assert find_all(plan, store, "together")
    run_plan(plan, store, "one-by-one")
    found = states(store, "together")
    assert found == states(store, "one-by-one")
    assert [*found] == sorted(map(str, plan.paths())) and any("shard-01" in path for path in found)
    assert {state.status for state in found.values()} == {"found"}


@pytest.mark.parametrize("path", ["split", "camvr/initial-model", "camvr/round-0/encode/shard-01"])
def test_without_one_artifact_nothing_is_found(
    plan: Plan, store: LocalStore, tmp_path: Path, path: str
) -> None:
    state = states(store, "first")[path]
    (lost, *_) = state.outputs.values()
    record = Path(lost.address) / "artifact.json"
    kept = record.read_bytes()
    record.unlink()
    try:
        assert not find_all(plan, store, "incomplete")
    finally:
        record.write_bytes(kept)
    assert not list(read_states(store, "incomplete"))


def test_a_source_that_changed_is_not_found(plan: Plan, store: LocalStore, folder: Path) -> None:
    passages = folder / "passages.parquet"
    kept = passages.read_bytes()
    passages.unlink()
    try:
        assert not find_all(plan, store, "gone")
        passages.write_bytes(kept + b"\0")
        assert not find_all(plan, store, "changed")
    finally:
        passages.write_bytes(kept)
    assert find_all(plan, store, "restored")
