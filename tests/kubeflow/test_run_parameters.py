"""Runs that Kubeflow starts with other parameters than the compiled ones."""

import re
import time
from pathlib import Path

import pytest
from kfp import local
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.store import LocalStore
from multiview.config.kubeflow import Notify
from multiview.config.overrides import merge, validate
from multiview.errors import InputError
from multiview.kubeflow.run import close_run, open_run
from multiview.plans.parameters import CompiledRequest
from multiview.plans.plan import Plan
from multiview.plans.request import Request, describe
from multiview.steps.path import StepPath
from multiview.steps.runs import (
    Run,
    RunReference,
    StepState,
    read_run,
    read_settings,
    read_state,
    read_states,
    write_state,
)
from pipelines.kubeflow.compile import cluster_pipeline
from tests.fixtures.corpus import squad_corpus
from tests.fixtures.project import Project
from tests.fixtures.servers import new_database
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(autouse=True)
def without_mlflow(monkeypatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


DEMO = ["questions.source=demo://train.json", "questions.dev_source=demo://dev.json"]


def demo_request(*settings: str) -> Request:
    return Request.from_settings("training", "demo", [*DEMO, *settings])


def compiled(request: Request) -> CompiledRequest:
    found = CompiledRequest.of(request)
    assert found is not None
    return found


def opened(
    folder: Path, request: Request, job: str = "aaaa1111", described: str = "", **given: object
) -> RunReference:
    """The context of a start with other parameters than the compiled ones; `settings` is the text of further ones."""
    asked, settings = compiled(request), str(given.pop("settings", ""))
    values = {**asked.defaults, **given}
    return RunReference.model_validate_json(
        open_run(str(folder), described, job, asked.model_dump_json(), values, settings)
    )


def test_a_run_created_without_changes_is_the_run_that_submit_would_start(tmp_path):
    request, store = demo_request(), LocalStore(tmp_path)
    run = describe(request, store)
    context = opened(tmp_path, request)
    assert context == RunReference(store=store.url, run=run.id)
    assert read_run(store, run.id).model_copy(update={"created": ""}) == run
    submitted = run.model_copy(update={"git_sha": "as described"}).model_dump_json()
    assert opened(tmp_path / "other", request, described=submitted).run == run.id
    assert read_run(LocalStore(tmp_path / "other"), run.id).git_sha == "as described"
    for path, node in request.plan.nodes.items():
        assert read_settings(store, run.id, str(path)) == node.config


PAGES = {"notify": {"kubeflow": "https://kubeflow.example.org"}}


@pytest.mark.parametrize("cloned", [False, True])
def test_other_parameters_are_another_run_with_settings_of_its_own(tmp_path, cloned):
    """A clone keeps the pages that `submit` knew."""
    request, store = demo_request(), LocalStore(tmp_path)
    run = describe(request, store)
    described = run.model_copy(update={"config": run.config | PAGES}).model_dump_json() if cloned else ""
    context = opened(tmp_path, request, described=described, learning_rate=0.5, settings="mining.number=3")
    same = demo_request("train.learning_rate=0.5", "mining.number=3")
    assert context.run == describe(same, store).id != run.id
    for path, node in same.plan.nodes.items():
        assert read_settings(store, context.run, str(path)) == node.config
    assert read_run(store, context.run).config["mining"]["number"] == 3
    page = "https://kubeflow.example.org/#/runs/details/aaaa1111"
    assert context.pages.kubeflow == (page if cloned else None)


def test_a_wrong_parameter_is_one_line_in_the_first_pod_and_in_the_notice(tmp_path, receiver):
    line = "train.learning_rate: input should be greater than 0, not -1"
    with pytest.raises(InputError, match=line):
        opened(tmp_path, demo_request(), learning_rate=-1.0)
    told = Notify(url=receiver.url, kubeflow="https://kubeflow.example.org")
    close_run(str(tmp_path), "", "aaaa1111", "FAILED", "", told, "training")
    (notice,) = receiver.messages
    assert notice["failed"] == [{"step": "open-run", "error": line}]
    assert (notice["run"], notice["pipeline"]) == ("training", "training")
    assert notice["text"].splitlines() == [
        "training failed on Kubeflow",
        f"open-run: {line}",
        "Kubeflow: https://kubeflow.example.org/#/runs/details/aaaa1111",
    ]
    assert LocalStore(tmp_path).folders(names.RUNS) == []


@pytest.mark.parametrize(
    ("compiled_with", "given", "line"),
    [
        (
            [],
            {"corpus_source": [""]},
            "corpus.source: expected names of files, folders or URLs; one is empty",
        ),
        (
            [],
            {"settings": "train.processes=8"},
            "train.processes=8 needs a GPU for each, and its pod has 1: set kubeflow.steps.train.gpus=8",
        ),
        (
            ["kubeflow.gpu.gpus=0"],
            {"settings": "encode.device=cuda:0"},
            "encode.device=cuda:0 needs a GPU, and its pod has none",
        ),
    ],
)
def test_settings_that_submit_refuses_are_refused_by_the_first_pod(tmp_path, compiled_with, given, line):
    with pytest.raises(InputError, match=re.escape(line)):
        opened(tmp_path, demo_request(*compiled_with), **given)


@pytest.mark.parametrize("described", ["{", '{"id": 3}', "my run"])
def test_a_description_that_is_none_is_one_line_and_is_told(tmp_path, receiver, described):
    line = "described is not what submit wrote: leave it empty"
    with pytest.raises(InputError, match=line):
        opened(tmp_path, demo_request(), described=described)
    close_run(str(tmp_path), described, "aaaa1111", "FAILED", "", Notify(url=receiver.url), "training")
    (notice,) = receiver.messages
    assert notice["failed"] == [{"step": "open-run", "error": line}] and notice["run"] == "training"


def test_the_exit_handler_closes_the_run_that_was_opened(tmp_path, receiver):
    described = describe(demo_request(), LocalStore(tmp_path)).model_dump_json()
    context = opened(tmp_path, demo_request(), described=described, seed=3)
    close_run(str(tmp_path), described, "aaaa1111", "FAILED", "", Notify(url=receiver.url), "training")
    assert [notice["run"] for notice in receiver.messages] == [context.run]
    store, now = LocalStore(tmp_path), time.time()
    for path in read_run(store, context.run).steps:
        write_state(store, context.run, StepState(path=path, step=path, status="done", started=now))
    close_run(str(tmp_path), described, "aaaa1111", "SUCCEEDED", "", Notify(url=receiver.url), "training")
    assert len(receiver.messages) == 1


def test_a_part_of_a_pipeline_has_the_settings_of_its_description(tmp_path):
    request, store = demo_request("encode.compute=autocast"), LocalStore(tmp_path)
    part = describe(request, store).model_copy(
        update={"rerun_of": "training-1", "steps": ["camvr/round-1/encode"]}
    )
    open_run(str(tmp_path), part.model_dump_json(), "aaaa1111")
    path = StepPath.parse("camvr/round-1/encode")
    assert read_settings(store, part.id, str(path)) == request.plan.nodes[path].config


def test_a_pipeline_runs_with_the_parameters_of_its_start_and_ships_itself(
    tmp_path, monkeypatch, receiver, capfd
):
    """As `Create run` on Kubeflow's pages starts it: by KFP, the step `split` alone, without a driver. First with MLflow and
    the variable of KFP's MLflow plugin, which changes nothing; then without MLflow, which is quicker, and without a source."""
    train, dev = squad_corpus(tmp_path / "corpus", passages=6)
    uri = new_database(tmp_path)
    client = MlflowClient(uri)
    theirs = client.create_run(client.create_experiment("kfp"), run_name="split").info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_RUN_ID", theirs)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))
    store = LocalStore(tmp_path / "store")
    overrides = {
        "questions": {"source": str(train), "dev_source": str(dev)},
        "model": {"base": str(tiny_bert(tmp_path / "base"))},
        "kubeflow": {"cpu": {"retries": 0}},
        "notify": {"url": receiver.url},
    }
    plan = Plan("training")
    plan.add(StepPath("split"), "split", validate(overrides))
    request = Request(plan, overrides)
    pipeline = cluster_pipeline(request, store.url)
    pipeline(corpus_source=[str(train), str(dev)], settings="questions.limit=2")
    (run,) = store.folders(names.RUNS)
    changed = {"questions": {"limit": 2}, "corpus": {"source": [str(train), str(dev)]}}
    assert run == describe(Request.make("training", merge(overrides, changed)), store).id
    assert read_run(store, run).config == merge(overrides, changed)
    state = read_state(store, run, "split")
    assert state is not None and state.status == "done" and state.config["questions"]["limit"] == 2
    found = tracking.find_run(uri, run)
    assert found.steps["split"].outputs == state.outputs
    unfinished = "other steps of a training were to follow"
    assert client.get_run(found.mlflow_id).info.status == "FAILED" and receiver.messages, unfinished

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    capfd.readouterr()
    receiver.messages.clear()
    train.unlink()
    described = Run(id="training-2", pipeline="training", config={}, steps=["split"]).model_dump_json()
    with pytest.raises(RuntimeError):
        pipeline(described=described)
    printed = "".join(capfd.readouterr())
    assert "error: " in printed and "Traceback" not in printed
    (notice,) = receiver.messages
    assert notice["run"] == "training-2" and "train.json" in notice["failed"][0]["error"]


@pytest.mark.acceptance
def test_a_run_with_another_learning_rate_trains_with_it(tmp_path, monkeypatch):
    """As `Create run` on Kubeflow's pages starts it: by KFP, up to the training, since KFP's local runner has no loops
    within an exit handler."""
    project, uri = Project.make(tmp_path), new_database(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))
    preset = str(tmp_path / "tiny.yaml")
    settings = ["train.rounds=1", "train.epochs=1", "kubeflow.gpu.gpus=0", "kubeflow.gpu.retries=0"]
    request = Request.from_settings("training", preset, settings)
    steps = list(request.plan.nodes)
    for path in steps[steps.index(StepPath.parse("camvr/round-1/train")) + 1 :]:
        del request.plan.nodes[path]
    cluster_pipeline(request, project.store)(learning_rate=0.25)

    store = LocalStore(Path(project.store))
    same = Request.from_settings("training", preset, [*settings, "train.learning_rate=0.25"])
    (run,) = store.folders(names.RUNS)
    assert run == describe(same, store).id
    assert {state.status for state in read_states(store, run)} == {"done"}
    state = read_state(store, run, "camvr/round-1/train")
    assert state is not None and state.config["train"]["learning_rate"] == 0.25
    found = tracking.find_run(uri, run)
    assert MlflowClient(uri).get_run(found.mlflow_id).data.params["train.learning_rate"] == "0.25"
    assert set(found.steps["camvr/round-1/train"].outputs) == {names.MODEL}
