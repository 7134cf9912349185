"""What a typed text names, and the artifacts and the index that it stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from multiview.artifacts.champions import crown
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli.lookup import Lookup, form_of, run_artifacts, run_index
from multiview.errors import InputError
from multiview.steps.runs import Run, StepState, read_states, write_run, write_state
from multiview.tracking import TrackedRun
from tests.fixtures.champions import artifact, champion, refuse

MODEL = "m-" + "0123456789abcdef" * 2
NEAR = LocalStore(Path("none"))
"""A store without anything."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("store/index/04b79ad1", "address"),
        ("/home/me/store/model/04b79ad1/", "address"),
        ("gs://bucket/store/index/04b79ad1", "address"),
        ("m-/index/04b79ad1", "address"),
        ("comparison-6bbf357d57", "run"),
        ("0123456789abcdef0123456789abcdef", "run"),
        ("8d7943a0-1c5e-4a5b-9b1e-0c2f6a9d3e11", "run"),
        ("m-0123", "run"),
        ("champions", "run"),
        ("it's", "run"),
        ("", "run"),
        ("champion", "champion"),
        ("challenger", "challenger"),
        (MODEL, "logged model"),
        (f"models:/{MODEL}", "logged model"),
        ("models:/multiview-train.json@champion", "registered model"),
        ("models:/my model/12", "registered model"),
        (f"models:/{MODEL}/1", "registered model"),
    ],
)
def test_a_text_names_one_thing_by_its_form(text: str, expected: str) -> None:
    assert form_of(text) == expected


def test_a_uri_that_names_no_model_is_refused() -> None:
    for text in (
        "models:/camvr",
        "models:camvr@a",
        "models:/camvr@",
        "models:/camvr/latest",
        "models:/a/b@c",
    ):
        with pytest.raises(
            InputError, match=f"^{text} names no registered model: give models:/NAME@ALIAS or "
        ):
            form_of(text)


# What a run stands for, in the store and in MLflow.


def reference(key: str, kind: str = "index") -> Reference:
    return Reference(address=f"store/{kind}/{key}", digest=key)


ENCODE = {"outputs": {"embeddings": reference("1", "embeddings")}}
INDEX = {"inputs": {"embeddings": [reference("1", "embeddings")]}, "outputs": {"index": reference("2")}}
EVALUATE = {"inputs": {"index": [reference("2")]}, "outputs": {"evaluation": reference("3", "evaluation")}}
LATER = {"inputs": {"index": [reference("2")]}, "outputs": {"index": reference("4")}}


def store_run(**steps: dict) -> list[StepState]:
    """A run of the store, `{path: fields of its state}`."""
    return [
        StepState.model_validate({"path": path.replace("_", "/"), "step": "any", "status": "done", **fields})
        for path, fields in steps.items()
    ]


def tracked_run(step: str | None = None, earlier: tuple[str, ...] = (), **steps: dict) -> TrackedRun:
    """A run as MLflow knows it; the steps `earlier` are those of the run that it reruns in part."""
    tracked = {state.path: state for state in store_run(**steps)}
    steps_of_run = [path for path in tracked if path not in earlier]
    return TrackedRun(
        "id", "store", Run(id="r", pipeline="training", config={}, steps=steps_of_run), tracked, step
    )


def addresses(artifacts: list[Reference]) -> list[str]:
    return [artifact.address for artifact in artifacts]


@pytest.mark.parametrize("run", [store_run, tracked_run])
def test_a_run_stands_for_what_it_ends_with_and_for_its_index(run) -> None:
    whole = run(camvr_encode=ENCODE, camvr_index=INDEX, camvr_evaluate=EVALUATE)
    assert addresses(run_artifacts("r", whole)) == ["store/evaluation/3"]
    assert run_index("r", whole, NEAR) == "store/index/2"
    with pytest.raises(InputError, match="^r has made nothing yet: wait for it, or run it again$"):
        run_artifacts("r", run(camvr_encode={}))
    with pytest.raises(InputError, match="^run r has no index yet: finish it, or give --index$"):
        run_index("r", run(camvr_encode=ENCODE), NEAR)


@pytest.mark.parametrize("pipeline", ["refresh", "comparison"])
def test_a_refresh_stands_for_the_index_that_it_built(tmp_path, pipeline) -> None:
    """A comparison's rows may have any names."""
    store, states = LocalStore(tmp_path), store_run(champion_index=LATER, challenger_index=INDEX)
    described = Run(id="r", pipeline=pipeline, config={}, steps=[state.path for state in states])
    write_run(store, described)
    for run in (states, TrackedRun("id", "store", described, {state.path: state for state in states})):
        if pipeline == "refresh":
            assert run_index("r", run, store) == "store/index/2"
            continue
        with pytest.raises(InputError, match="^run r has several systems"):
            run_index("r", run, store)


def test_an_earlier_round_s_index_is_not_its_run_s(tmp_path) -> None:
    store, paths = LocalStore(tmp_path), ["camvr/round-1/index", "camvr/round-2/index"]
    described = Run(id="r", pipeline="training", config={}, steps=paths)
    write_run(store, described)
    first = [StepState.model_validate({"path": paths[0], "step": "index", "status": "done", **INDEX})]
    for run in (first, TrackedRun("id", "store", described, {paths[0]: first[0]})):
        with pytest.raises(
            InputError, match="^run r has not finished camvr/round-2/index: let it finish, or "
        ):
            run_index("r", run, store)


def test_a_failed_step_s_index_is_not_its_run_s() -> None:
    with pytest.raises(InputError, match="has no index yet"):
        run_index("r", store_run(camvr_index={**INDEX, "status": "failed"}), NEAR)


def test_a_rerun_ends_with_its_own_steps_and_has_the_earlier_run_s_index() -> None:
    rerun = tracked_run(earlier=("camvr/index",), camvr_index=INDEX, camvr_evaluate=EVALUATE)
    assert addresses(run_artifacts("r", rerun)) == ["store/evaluation/3"]
    assert run_index("r", rerun, NEAR) == "store/index/2"


def test_a_run_of_a_copied_store_stands_for_the_copies(indexes, tmp_path):
    """Its states name the store that they were written in; what the copy lacks is found there still."""
    copy = LocalStore(shutil.copytree(indexes.store.root, tmp_path / "copy"))
    (run,) = copy.folders("runs")
    step = "camvr/round-0/index"
    state = next(state for state in read_states(copy, run) if state.path == step)
    write_run(copy, Run(id="one", pipeline="training", config={}, steps=[step]))
    write_state(copy, "one", state)
    lookup, name = Lookup(copy.url, None), state.outputs["index"].address.rpartition("/")[2]
    found = lookup.index("one")
    assert found == f"{copy.url}/index/{name}" != state.outputs["index"].address
    assert addresses(lookup.artifacts("one")) == [found]
    shutil.rmtree(copy.root / "index" / name)
    assert lookup.index("one") == state.outputs["index"].address


@pytest.mark.parametrize(
    ("step", "made", "index"),
    [
        ("camvr/index", "store/index/2", "store/index/2"),
        ("camvr/evaluate", "store/evaluation/3", "store/index/2"),
        ("camvr/later", "store/index/4", "store/index/4"),
        ("camvr/encode", "store/embeddings/1", "store/index/4"),
    ],
)
def test_a_step_stands_for_its_outputs_and_for_the_index_that_it_built_or_searched(
    step: str, made: str, index: str
) -> None:
    """A step that neither built nor searched an index stands for the index of its run."""
    run = tracked_run(
        step, camvr_encode=ENCODE, camvr_index=INDEX, camvr_evaluate=EVALUATE, camvr_later=LATER
    )
    assert (addresses(run_artifacts("r", run)), run_index("r", run, NEAR)) == ([made], index)


# The other forms, in a store.


def test_the_challenger_is_the_index_that_was_refused_last(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    lookup = Lookup(store.url, None)
    crown(store, champion(store, 1))
    with pytest.raises(InputError, match=f"^store {store.url} has no challenger: no refresh was refused"):
        lookup.index("challenger")
    refused = artifact(store, "index", "refused")
    refuse(store, 1, refused, ended=1)
    assert lookup.index("challenger") == refused.address
    assert lookup.artifacts("challenger") == [refused]


def test_the_champion_is_an_index_and_an_artifact(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    lookup = Lookup(store.url, None)
    for find in (lookup.index, lookup.artifacts):
        with pytest.raises(InputError, match=f"^store {store.url}: there is nothing; is it the right one"):
            find("champion")
    index = crown(store, champion(store, 1)).index
    assert lookup.artifacts("champion") == [index]
    assert lookup.index("champion") == lookup.index(None) == index.address


def test_an_address_needs_neither_store_nor_mlflow() -> None:
    assert Lookup("s9://no/such/protocol", None).index("store/index/04b79ad1") == "store/index/04b79ad1"
