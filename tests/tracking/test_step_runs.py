"""What MLflow receives about runs, steps, models and files."""

import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli.lookup import Lookup
from multiview.errors import InputError
from multiview.steps.events import EventLog, MetricEvent
from multiview.tracking import step_runs
from multiview.tracking.mlflow_runs import TAG_CHARACTERS, fill, log_metrics, parameters, set_description
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database


def test_a_run_holds_its_systems_and_steps(expected):
    assert set(expected) == {"", "split", "camvr", "camvr/round-2/train", "camvr/round-2/evaluate"}
    status, tags, params, metrics, _, _, _, files = expected[""]
    assert (status, params, files) == ("FINISHED", {"train.epochs": "2"}, ["run.json"])
    assert tags["architecture"] == "camvr"
    assert metrics == {"accuracy_at_5": [(0, 0.75)]}, "by its name alone: there is one system"
    status, tags, params, metrics, datasets, inputs, outputs, _ = expected["camvr/round-2/train"]
    assert metrics["loss"] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert params == {"encode.compute": "float32"}
    assert (status, tags["architecture"], tags["system"]) == ("FINISHED", "camvr", "camvr")
    assert (len(datasets), inputs, outputs) == (1, 0, 1)
    assert expected["camvr/round-2/evaluate"][5] == 1


def test_a_step_that_all_systems_share_has_no_system_by_shard_either(uri, tmp_path):
    reported = ReportedRun(tmp_path, uri, "shared")
    reported.events("generate-queries/shard-00", "a", step="generate-queries")
    reported.events("camvr/round-1/encode/shard-00", "a", step="encode")
    tracking.ship(reported.store, reported.run.id, uri)
    systems = {path: tags.get("system") for path, (_, tags, *_) in reported.seen().items() if "/" in path}
    assert systems == {"generate-queries/shard-00": None, "camvr/round-1/encode/shard-00": "camvr"}


def metrics_of_model(uri: str, reported: ReportedRun) -> list[Any]:
    """The metrics of the logged model of the run's training, as MLflow has them now."""
    reference = reported.reference("model", "camvr-round-2-train")
    client = MlflowClient(uri)
    (found,) = client.search_logged_models(["1"], f"tags.sha256 = '{reference.digest}'")
    return client.get_logged_model(found.model_id).metrics or []


def test_a_model_has_the_metrics_of_each_evaluation_once(tmp_path):
    uri = new_database(tmp_path)
    for run in ("first", "again"):  # whose steps were all there, and MLflow new
        reported = ReportedRun(tmp_path / "store", uri, run)
        reported.events("split", "s")
        reported.events("camvr/round-2/train", "t", status="found")
        reported.events("camvr/round-2/evaluate", "e", status="found")
        tracking.ship(reported.store, run, uri)
        metrics = metrics_of_model(uri, reported)
        assert {metric.key: metric.value for metric in metrics} == {
            "accuracy_at_5": 0.75,
            "accuracy_at_5/view_1": 0.5,
        }
        (digest,) = {metric.dataset_digest for metric in metrics}
        assert reported.reference("dev_questions", "split").digest.startswith(digest)
        (run_id,) = {metric.run_id for metric in metrics}
        assert MlflowClient(uri).get_run(run_id).data.tags["multiview.run"] == "first"
        assert reported.seen()["camvr/round-2/evaluate"][1]["corpus"] == "@passages", "by its digest"


def test_a_logged_model_leads_to_its_artifact(expected, uri, tmp_path):
    reported = ReportedRun(tmp_path, uri, "expected")
    model = MlflowClient(uri).search_logged_models(["1"])[0]
    reference = tracking.logged_model(uri, model.model_id)
    assert reference.digest == reported.reference("model", "camvr-round-2-train").digest
    (typed,) = Lookup(str(tmp_path), uri).artifacts(f"models:/{model.model_id}")
    assert typed == reference
    with pytest.raises(InputError, match="^MLflow at .*camvr"):
        tracking.logged_model(uri, "camvr")


def test_what_a_resumed_step_warns_of_again_is_said_once(tmp_path, uri):
    reported = ReportedRun(tmp_path, uri, "resumed")
    reported.events("camvr/round-2/train", "t")
    first, second = (EventLog(reported.store, f"model/camvr-round-2-train/attempts/{name}") for name in "at")
    first.warning("few negatives")
    second.warning("few negatives")
    second.warning("few questions")
    second.resume(first.text())
    tracking.ship(reported.store, reported.run.id, uri)
    _, tags, *_ = reported.seen()["camvr/round-2/train"]
    assert {name: text for name, text in tags.items() if name.startswith("warning")} == {
        "warning.0": "few negatives",
        "warning.1": "few questions",
    }


def test_a_model_that_a_step_only_reads_has_the_settings_that_made_it(tmp_path, uri):
    """As with `train.model` of another store, whose training another MLflow knows, or none."""
    attempt = Attempt(LocalStore(tmp_path / "other"), "model", "0123456789abcdef")
    (attempt.path / "weights").write_text("x")
    made, _ = attempt.publish(step="train", step_version=1, config={"train": {"seed": 7}}, inputs={})
    start = Reference.to(LocalStore(tmp_path / "other"), made)
    reported = ReportedRun(tmp_path, uri, "reads")
    reported.events("camvr/round-1/train", "a", inputs={"start": [start]}, config={"train": {"seed": 1}})
    tracking.ship(reported.store, reported.run.id, uri)
    digest = f"tags.{names.TAG_SHA256} = '{made.digest}'"
    (model,) = MlflowClient(uri).search_logged_models(["1"], filter_string=digest)
    assert (model.name, model.params) == ("train-01234567", {"train.seed": "7"})
    copy = shutil.copytree(tmp_path / "other", tmp_path / "copy")
    (copied,) = Lookup(str(copy), uri).artifacts(model.model_id)
    assert copied.address == f"{copy}/model/0123456789abcdef", "that of a copied store"


def test_the_commit_and_the_image_are_those_that_made_it(tmp_path, uri):
    """Of a step that found its output, its record's; of one that is running, its own."""
    reported = ReportedRun(tmp_path, uri, "commit")
    for path, made in (("split", {"git_sha": "made", "image": "i@1"}), ("camvr/round-2/train", {})):
        kind = "passages" if path == "split" else "model"
        attempt = Attempt(reported.store, kind, path.replace("/", "-"))
        attempt.publish(step=path, step_version=0, config={}, inputs={}, environment=made)
    reported.events("split", "a", status="found", git_sha="found", image="i@2")
    reported.events("camvr/round-2/train", "a", git_sha="own", image="i@2")
    reported.events("camvr/round-2/evaluate", "e", status="running", git_sha="own", image="i@3")
    tracking.ship(reported.store, reported.run.id, uri)
    tags = {path: tags for path, (_, tags, *_) in reported.seen().items()}
    assert (tags["split"]["git_sha"], tags["split"]["image"]) == ("made", "i@1")
    assert (tags["camvr/round-2/train"]["git_sha"], tags["camvr/round-2/train"]["image"]) == ("own", "i@2")
    assert tags["camvr/round-2/evaluate"]["image"] == "i@3"
    assert tags[""]["image"] == "i@2 i@3"


def test_a_description_that_a_person_wrote_is_left_alone(tmp_path, uri):
    reported = ReportedRun(tmp_path, uri, "person")
    reported.report_all()
    tracking.ship(reported.store, reported.run.id, uri)
    client, parent = MlflowClient(uri), tracking.find_run(uri, reported.run.id).mlflow_id
    note = client.get_run(parent).data.tags["mlflow.note.content"]
    assert (
        note.startswith("training of camvr over @passages") and f"multiview lineage {reported.run.id}" in note
    )
    client.set_tag(parent, "mlflow.note.content", "the good one")
    reported.events("camvr/round-2/evaluate", "later", status="failed", error="no disk")
    tracking.ship(reported.store, reported.run.id, uri)
    assert client.get_run(parent).data.tags["mlflow.note.content"] == "the good one"


def test_a_description_that_is_too_long_is_replaced_too(uri):
    client = MlflowClient(uri)
    run = client.create_run(client.create_experiment("long")).info.run_id
    for note in ("a" * 9000, "b" * 9000, "c"):
        set_description(client, client.get_run(run), note)
        assert client.get_run(run).data.tags["mlflow.note.content"] == note[:TAG_CHARACTERS]


@pytest.mark.parametrize(
    ("kind", "paths", "logged"),
    [
        (
            "evaluation",
            ["metrics.json", "analyses/metrics.json", "analyses/usage.parquet"],
            [("child", "metrics.json", ""), ("child", "analyses/metrics.json", "/analyses")],
        ),
        ("report", ["report.html"], [("child", "report.html", ""), ("parent", "report.html", "")]),
    ],
)
def test_figures_are_kept_in_their_folders_and_a_report_also_of_the_whole_run(
    tmp_path, monkeypatch, kind, paths, logged
):
    record = SimpleNamespace(files=[SimpleNamespace(path=path) for path in paths], to_json=lambda: b"{}")
    monkeypatch.setattr(Reference, "record_in", lambda *reference: record)
    monkeypatch.setattr(step_runs, "stage", lambda *record: SimpleNamespace(path=tmp_path))
    client, reported = Mock(), ReportedRun(tmp_path, "", "files")
    child = SimpleNamespace(info=SimpleNamespace(run_id="child"), data=SimpleNamespace(tags={}))
    state = SimpleNamespace(outputs={kind: reported.reference(kind, "key")})
    step_runs.log_files(reported.store, client, "parent", child, state)  # type: ignore[arg-type]
    assert [call.args for call in client.log_artifact.call_args_list] == [
        (run, str(tmp_path / path), f"{kind}{folder}") for run, path, folder in logged
    ]


def test_names_that_mlflow_refuses_are_mended_and_stay_apart(uri):
    """Also of more parameters, metrics and tags than MLflow takes at once."""
    fine = ["q-1 a:b.c/d", "größe", *map(str, range(120))]
    names = [
        *fine,
        "q#1",
        "q%1",
        "lr=1e-5",
        "a//b",
        "a/",
        "a/../b",
        "..",
        "/a",
        "",
        "a\n",
        "q" * 300,
        "q" * 299 + "r",
    ]
    client = MlflowClient(uri)
    run = client.create_run("0")
    config = {"gate": {"must_find": {name: rank for rank, name in enumerate(names)}}}
    tags = {f"tag {name}": "x" for name in fine[2:]}
    fill(client, run, parameters(config), tags={**tags})
    metrics = [MetricEvent(0, name, rank, 1) for name in names for rank in range(10)]
    for before in ("", "accuracy_at_1/"):
        log_metrics(client, run.info.run_id, [replace(m, name=f"{before}{m.name}") for m in metrics])
    logged = client.get_run(run.info.run_id).data
    assert sorted(logged.params.values()) == sorted(map(str, range(len(names))))
    assert len(logged.metrics) == 2 * len(names) and set(logged.metrics.values()) == {9}
    assert {f"gate.must_find.{name}" for name in fine} <= logged.params.keys()
    assert all(name.startswith("gate.must_find.") for name in logged.params)
    assert {*fine, *(f"accuracy_at_1/{name}" for name in fine)} <= logged.metrics.keys()
    assert any(name.startswith("accuracy_at_1/lr_1e-5-") for name in logged.metrics)
    assert tags.items() <= logged.tags.items()
