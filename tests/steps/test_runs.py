"""Runs and the states of their steps, as a store keeps them."""

from datetime import datetime
from pathlib import Path

import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps.runs import (
    Run,
    Start,
    StepState,
    finished_outputs,
    read_run,
    read_settings,
    read_start,
    read_state,
    read_states,
    write_run,
    write_settings,
    write_start,
    write_state,
)

INDEX = Reference(address="/store/index/k", digest="d")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def state(path: str, status: str = "done", **more) -> StepState:
    return StepState.model_validate({"path": path, "step": "index", "status": status, **more})


def test_a_run_is_described_once_by_who_began_it(store: LocalStore) -> None:
    run = Run(id="training-1", pipeline="training", config={"train": {"epochs": 2}}, steps=["split"])
    write_run(store, run)
    written = read_run(store, run.id)
    assert written == run.model_copy(update={"created": written.created})
    assert datetime.fromisoformat(written.created).tzinfo is not None
    write_run(store, run.model_copy(update={"steps": ["other"]}))
    assert read_run(store, run.id) == written


def test_a_run_that_the_store_lacks_is_named_with_those_that_it_has(store: LocalStore) -> None:
    with pytest.raises(InputError, match=r"has no run training-2; it has: none$"):
        read_run(store, "training-2")
    write_run(store, Run(id="training-1", pipeline="training", config={}))
    with pytest.raises(InputError, match=r"has no run training-2; it has: training-1$"):
        read_run(store, "training-2")


def test_a_state_is_the_last_one_written(store: LocalStore) -> None:
    path = "camvr/round-2/encode/shard-03"
    assert read_state(store, "run", path) is None
    write_state(store, "run", state(path, "running"))
    last = state(path, "failed", error="row 3 has no text", bad_input=True, inputs={"index": [INDEX]})
    write_state(store, "run", last)
    assert read_state(store, "run", path) == last
    assert read_state(store, "another-run", path) is None


def test_states_come_in_order_of_their_paths_without_those_left_out(store: LocalStore) -> None:
    paths = ["split", "camvr/round-1/train", "camvr-v1.5/round-1/train", "camvr/round-1/encode/shard-00"]
    for path in paths:
        write_state(store, "run", state(path))
    write_state(store, "another-run", state("report"))
    (store.root / "runs" / "run" / "steps" / "camvr" / ".train.json.part").write_text("{")
    found = [each.path for each in read_states(store, "run")]
    assert found == sorted(paths)
    left = read_states(store, "run", but={"split", "camvr-v1.5/round-1/train"})
    assert {each.path for each in left} == {"camvr/round-1/train", "camvr/round-1/encode/shard-00"}


def test_outputs_are_those_of_finished_steps() -> None:
    states = [
        state("mvr/index", "found", outputs={"index": INDEX}),
        state("dpr/index", "running", outputs={"index": INDEX}),
        state("mvr/train", "done", outputs={"model": INDEX}),
        state("camvr/index", "done", outputs={"index": INDEX, "model": INDEX}),
    ]
    assert finished_outputs(states, "index") == {"mvr/index": INDEX, "camvr/index": INDEX}


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"run": 1}', "nothing", "[" * 5000])
@pytest.mark.parametrize("file", ["runs/run/settings.json", "starts/job.json"])
def test_damaged_settings_and_starts_of_a_run_are_named(store: LocalStore, file: str, damaged: str) -> None:
    write_settings(store, "run", {"split": "{}"})
    write_start(store, "job", Start(run="training-1"))
    assert read_settings(store, "run", "split") == "{}"
    assert (read_start(store, "job"), read_start(store, "another")) == (Start(run="training-1"), Start())
    store.replace(file, damaged.encode())
    with pytest.raises(InputError, match=rf"^{store.url}/{file} is damaged: remove it, and start"):
        read_settings(store, "run", "split")
        read_start(store, "job")


def test_settings_that_a_run_lacks_are_named(store: LocalStore) -> None:
    with pytest.raises(InputError, match="has no settings of step split: start the run again"):
        read_settings(store, "run", "split")
