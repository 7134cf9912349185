"""How a component's body handles KFP's artifacts; the steps themselves are tested elsewhere."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from kfp.dsl import Artifact, Dataset, Model

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import crown
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.kubeflow import component
from multiview.kubeflow.component import configured, execute, open_index
from multiview.steps import events
from multiview.steps.runs import NO_PAGES, Pages, RunReference, read_run, read_state, write_settings
from multiview.steps.table import STEPS, step
from tests.fixtures.champions import champion

GATHERED = "gathered.txt"


def publish(store: LocalStore, kind: str, key: str, text: str, made_from: dict | None = None) -> Record:
    attempt = Attempt(store, kind, key)
    (attempt.path / GATHERED).write_text(text)
    return attempt.publish(step="split", step_version=1, config={}, inputs=made_from or {})[0]


def given(store: LocalStore, record: Record) -> dict[str, str]:
    """The metadata of an artifact that a step made."""
    return {"address": f"{store.url}/{record.folder}", "digest": record.digest, "path": "earlier/step"}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def run(store) -> str:
    return json.dumps({"store": store.url, "run": "r"})


@pytest.fixture
def encoded(store, tmp_path) -> dict[str, Any]:
    """What a component that encodes is given besides its run."""
    model, passages = (publish(store, kind, "k", kind) for kind in (names.MODEL, names.PASSAGES))
    return {
        "shard": "shard-01",
        "model": Model(metadata=given(store, model)),
        "passages": Dataset(metadata=given(store, passages)),
        "embeddings": Artifact(uri=str(tmp_path / "embeddings")),
    }


def source_of(artifact: Artifact, file: str | None = None) -> Reference:
    """What a step reads of an artifact that a component is given."""
    return Reference(address=artifact.metadata["address"], digest=artifact.metadata["digest"], file=file)


@pytest.fixture
def seen_configs() -> list[str]:
    """The settings that steps were given, filled by `done`."""
    return []


@pytest.fixture
def done(monkeypatch, store, seen_configs):
    """What the step `execute` was asked for had as inputs; its outputs are published in its place."""
    seen: list[tuple[str, dict]] = []

    def run_step(step, reporter, config, inputs) -> None:
        seen.append((step.name, dict(inputs)))
        seen_configs.append(config)
        records = {kind: publish(store, kind, "k", "made") for kind in step.outputs}
        outputs = {kind: Reference.to(store, record) for kind, record in records.items()}
        reporter.finish("done", "", outputs)

    monkeypatch.setattr(component, "run_step", run_step)
    return seen


def test_a_shard_is_part_of_the_path_and_of_what_is_read_by_shard(store, run, done, encoded):
    address = execute("encode", run, "camvr/round-1/encode", "{}", **encoded)
    part = source_of(encoded["passages"], "shard-01.parquet")
    assert done == [("encode", {"model": source_of(encoded["model"]), "passages": part})]
    state = read_state(store, "r", "camvr/round-1/encode/shard-01")
    assert state is not None and state.status == "done"
    embeddings = encoded["embeddings"]
    assert embeddings.metadata == {
        "address": address,
        "digest": state.outputs["embeddings"].digest,
        "path": "camvr/round-1/encode/shard-01",
    }
    assert address == f"{store.url}/embeddings/k"
    assert Path(embeddings.path).read_bytes() == store.read("embeddings/k/artifact.json")


def test_a_list_is_one_of_addresses_and_without_a_shard_all_is_read(store, run, done, tmp_path):
    parts = [publish(store, names.QUERIES, key, key) for key in ("a", "b")]
    addresses = [f"{store.url}/{part.folder}" for part in parts]
    execute("gather-queries", run, "q", "{}", parts=addresses, queries=Dataset(uri=str(tmp_path / "queries")))
    assert done == [("gather-queries", {"parts": [Reference.to(store, part) for part in parts]})]


def test_shards_that_were_there_are_read_in_the_order_of_the_plan(store, run, done, tmp_path):
    parts = [publish(store, names.QUERIES, key, key) for key in ("a", "b", "c", "d")]
    addresses = [f"{store.url}/{part.folder}" for part in parts]
    made, there = addresses[1::2], json.dumps({"parts": [addresses[0], None, addresses[2], None]})
    queries = Dataset(uri=str(tmp_path / "queries"))
    execute("gather-queries", run, "q", "{}", parts=made, queries=queries, there=there)
    assert done == [("gather-queries", {"parts": [Reference.to(store, part) for part in parts]})]


def test_what_was_there_is_read_by_address_and_digest(run, done, encoded):
    texts = {
        name: source_of(encoded[name]).model_dump_json(exclude_defaults=True)
        for name in ("model", "passages")
    }
    execute("encode", run, "encode", "{}", **{**encoded, **texts})
    part = source_of(encoded["passages"], "shard-01.parquet")
    assert done == [("encode", {"model": source_of(encoded["model"]), "passages": part})]


@pytest.mark.parametrize("lacking", ["passages", "embeddings"])
def test_a_pipeline_of_another_version_that_lacks_an_input_or_output_is_one_line(run, done, encoded, lacking):
    del encoded[lacking]
    line = f"^error: encode is not given {lacking}: this pipeline was compiled by another version"
    with pytest.raises(SystemExit, match=line):
        execute("encode", run, "encode", "{}", **encoded)
    assert not done


def test_the_log_of_a_pod_says_what_its_step_does_and_what_it_wrote_where(
    store, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(events, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(events, "PROGRESS_SECONDS", 0.01)
    outputs: dict[str, Any] = {kind: Dataset(uri=str(tmp_path / kind)) for kind in step("split").outputs}
    config = "questions.source=demo://train.json; questions.dev_source=demo://dev.json"
    address = execute("split", store.url, "", config, **outputs)
    first, *between, _, _, _, _ = lines = capsys.readouterr().out.splitlines()
    assert first.endswith(" split started") and any(" for 0:" in line or "/s" in line for line in between)
    assert f"  split: wrote passages {address}" in lines


def test_an_input_that_no_step_published_is_named_and_reported_as_a_failure(store, run, done, tmp_path):
    kinds = ("passages", "questions", "negatives")
    artifacts: dict[str, Any] = {kind: Dataset(kind, str(tmp_path / kind)) for kind in kinds}
    with pytest.raises(SystemExit, match="input artifact passages carries no address"):
        execute("bm25-negatives", run, "bm25-negatives", "{}", **artifacts)
    state = read_state(store, "r", "bm25-negatives")
    assert state is not None and state.status == "failed" and state.bad_input
    assert not done


def test_a_run_s_settings_are_read_from_its_store(store, run, done, seen_configs, encoded):
    write_settings(store, "r", {"camvr/round-1/encode": '{"own": 1}', "split": "{}"})
    execute("encode", run, "camvr/round-1/encode", "", **encoded)
    assert seen_configs == ['{"own": 1}']
    with pytest.raises(SystemExit, match="run r of store .* has no settings of step mvr/round-1/encode"):
        execute("encode", run, "mvr/round-1/encode", "", **encoded)


def test_a_step_hears_of_its_run_s_pages(store, done, tmp_path, monkeypatch):
    pages: list[Pages] = []
    run_step = component.run_step

    def noting(step, reporter, config, inputs) -> None:
        pages.append(reporter.pages)
        run_step(step, reporter, config, inputs)

    monkeypatch.setattr(component, "run_step", noting)
    known = Pages(kubeflow="https://kubeflow/#/runs/details/aaaa", mlflow="https://mlflow/#/runs/bbbb")
    for given_pages in (known, NO_PAGES):
        run = RunReference(store=store.url, run="r", pages=given_pages).model_dump_json(exclude_defaults=True)
        made: dict[str, Any] = {kind: Artifact(uri=str(tmp_path / kind)) for kind in step("split").outputs}
        execute("split", run, "split", "{}", **made)
    assert pages == [known, NO_PAGES]


def test_figures_are_metadata_and_a_file(store, run, done, tmp_path, monkeypatch):
    monkeypatch.setattr("multiview.evaluation.files.of_evaluation", lambda *found: {"accuracy_at_5": 0.5})
    artifacts: dict[str, Any] = {
        name: Dataset(metadata=given(store, publish(store, kind, "k", kind)))
        for name, kind in (("passages", names.PASSAGES), ("questions", names.DEV_QUESTIONS))
    }
    evaluation, metrics = (Artifact(uri=str(tmp_path / kind)) for kind in ("evaluation", "metrics"))
    execute("evaluate-bm25", run, "bm25/evaluate", "{}", evaluation=evaluation, metrics=metrics, **artifacts)
    assert metrics.metadata == {"accuracy_at_5": 0.5} == json.loads(Path(metrics.path).read_text())
    assert set(evaluation.metadata) == {"address", "digest", "path"}


def test_a_step_in_someone_elses_pipeline_is_a_run_of_its_own(done, seen_configs, encoded, tmp_path):
    theirs = LocalStore(tmp_path / "theirs")
    whole = source_of(encoded["model"])
    encoded["model"] = Model(metadata={"address": whole.address})
    settings = [
        "encode.compute=autocast; encode.batch_tokens=512",
        "encode.compute=autocast\nencode.batch_tokens=512\n",
        "",
    ]
    for each in settings:
        execute("encode", theirs.url, "", each, **encoded)
    same, other = theirs.folders(names.RUNS)
    assert same.startswith("encode-") and other.startswith("encode-")
    assert read_run(theirs, same).steps == ["encode/shard-01"]
    assert read_state(theirs, same, "encode/shard-01") is not None
    assert [json.loads(config)["encode"]["batch_tokens"] for config in seen_configs] == [512, 512, 32768]
    assert done[0][1]["model"] == whole, "an address alone is enough"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("evaluation.depth=3", "evaluation.depth is not read by encode, which reads encode"),
        ("encode.computes=float32", "encode.computes is not read by encode, which reads encode.compute"),
        ("encode", "expected SECTION.NAME=VALUE"),
    ],
)
def test_settings_as_text_are_those_of_the_step(settings, line):
    with pytest.raises(InputError, match=line):
        configured(STEPS["encode"], settings)


def test_the_architecture_s_defaults_are_those_of_a_step(store):
    config = json.loads(configured(STEPS["train"], "model.architecture=mvr; train.epochs=2"))
    assert (config["train"]["local_weight"], config["train"]["epochs"]) == (0.01, 2)


def test_an_index_is_opened_with_what_it_was_made_from(store, tmp_path):
    model, passages = (publish(store, kind, "k", kind) for kind in (names.MODEL, names.PASSAGES))
    made_from = {"model": [Reference.to(store, model)], "passages": [Reference.to(store, passages)]}
    index = publish(store, names.INDEX, "k", "views", made_from)
    outputs = {kind: Artifact(uri=str(tmp_path / kind)) for kind in ("index", "model", "passages")}
    folder = open_index(f"{store.url}/{index.folder}", **outputs)
    assert (Path(folder) / GATHERED).read_text() == names.PASSAGES
    for kind, record in (("index", index), ("model", model), ("passages", passages)):
        assert outputs[kind].metadata["address"] == f"{store.url}/{record.folder}"
        assert outputs[kind].metadata["digest"] == record.digest
    with pytest.raises(InputError, match="is the address of model, not of an index"):
        open_index(f"{store.url}/{model.folder}", **outputs)


def test_a_store_s_index_is_its_champion_s(store, tmp_path):
    outputs = {kind: Artifact(uri=str(tmp_path / kind)) for kind in ("index", "model", "passages")}
    with pytest.raises(InputError, match="no artifact at .*; nor is it a store with a champion"):
        open_index(store.url, **outputs)
    for number in (1, 2):
        found = champion(store, number)
        made_from = {"model": [found.model], "passages": [found.passages]}
        index = publish(store, names.INDEX, f"crowned-{number}", "views", made_from)
        crown(store, found.model_copy(update={"index": Reference.to(store, index)}))
    open_index(store.url, **outputs)
    assert outputs["index"].metadata["address"] == f"{store.url}/index/crowned-2"
    assert outputs["model"].metadata["address"] == found.model.address


@pytest.fixture
def shipped(monkeypatch):
    """The MLflow servers that steps are shipped to; nothing is sent."""
    servers: list[str] = []

    @contextlib.contextmanager
    def ship(store, run_id, path, uri):
        servers.append(uri)
        yield

    monkeypatch.setattr(tracking, "ship_step_live", ship)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://kubeflow-s")
    return servers


@pytest.mark.parametrize(
    ("ours", "warned"), [("http://ours", True), ("http://kubeflow-s", False), (None, False)]
)
def test_another_mlflow_than_the_settings_name_is_told(
    store, run, done, shipped, tmp_path, monkeypatch, capsys, ours, warned
):
    """KFP's MLflow plugin replaces the variable that the settings set."""
    if ours:
        monkeypatch.setenv("MULTIVIEW_MLFLOW_URI", ours)
    execute("gather-queries", run, "q", "{}", parts=[], queries=Dataset(uri=str(tmp_path / "queries")))
    assert shipped == ["http://kubeflow-s"]
    warning = "warning: this step is recorded in http://kubeflow-s, which Kubeflow's MLflow plugin gives, and not in"
    assert (f"{warning} http://ours: " in capsys.readouterr().err) == warned
