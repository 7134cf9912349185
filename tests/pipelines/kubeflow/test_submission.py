"""The checks of `submit` before anything is sent: bad input is one line."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiview.model.base_model import hub
from multiview.steps.runs import Run
from pipelines.kubeflow import submission
from pipelines.kubeflow.submission import readable
from tests.fixtures.hub_listings import LISTINGS, RENAMED
from tests.fixtures.hub_server import Hub, hub_serving

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


def test_a_dry_run_says_what_would_run_and_sends_nothing(kubeflow, submit, bucket):
    printed = submit(f"--store {bucket}/dry --set corpus.shards=3 --dry-run")
    assert "  new    camvr/round-1/encode/shard-02\n" in printed
    assert not kubeflow.runs and not kubeflow.versions


@pytest.fixture
def hub_with_presets(monkeypatch) -> Iterator[Hub]:
    with hub_serving(Hub({}, listings={**LISTINGS}, renamed=RENAMED)) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        hub.commit_of.cache_clear()
        yield server
    hub.commit_of.cache_clear()


def test_a_base_is_looked_for_on_the_hub_before_anything_is_done(kubeflow, command, hub_with_presets):
    """Each base of a preset: tests/model/base_model/test_checkpoint.py."""
    name = next(iter(LISTINGS))
    hub_with_presets.listings[name] = {**LISTINGS[name], "siblings": [{"rfilename": "config.json"}]}
    base = f"--preset small.yaml --set model.base={name}"
    for line in (
        f"submit training {base} --store gs://bucket/store --host {kubeflow.url}",
        f"run training {base} --store here",
    ):
        told = command(line, status=2)
        assert f"model.base: {name} holds no *.safetensors or pytorch_model*.bin" in told
    assert not kubeflow.requests and not Path("here").exists()
    hub_with_presets.listings[name] = LISTINGS[name]
    hub.commit_of.cache_clear()
    command(f"submit training {base} --store gs://bucket/store --host {kubeflow.url}")
    assert kubeflow.runs


def test_pods_fetch_beir_s_collections_themselves(kubeflow, submit, beir_server):
    submit("--set questions.source=beir:scifact/train")
    assert kubeflow.runs


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--store {tmp}/store", "which no pod reaches: give --store gs://"),
        ("--store gs://", "store gs:// names no bucket: give --store gs://BUCKET/PREFIX"),
        ("--host kubeflow.example.org", "host: expected an address as in http://HOST:PORT or https://HOST"),
        ("--ui-host https://", "ui_host: expected an address"),
        ("--pipeline-root /tmp/x", "pipeline_root: expected a place in a bucket as in gs://"),
        ("--set notify.url=foo", "notify.url: expected an address as in http://HOST:PORT"),
        ("--set notify.url=http://[::1", "notify.url: input should be a valid URL, invalid IPv6 address"),
        ("--set kubeflow.mlflow_uri=http://h:99999", "kubeflow.mlflow_uri: input should be a valid URL, invalid port"),
        ("--time-zone Nowhere", "time_zone: there is no time zone 'Nowhere'; it is named as in"),
        ("--profile team", "profiles"),
        ("--token-file {tmp}/token", "token_file: there is no file"),
        ("--preset dmeo", "there is no preset 'dmeo'; did you mean demo?"),
        ("--set train.epoch=3", "there is no setting train.epoch; did you mean epochs"),
        ("--set questions.source={tmp}/q.json", "q.json is on this machine, which no pod reaches"),
        ("--set questions.source=demo://none.json", "none.json"),
        ("--set model.base={tmp}", "model.base:"),
        ("--set search.rerank={tmp}", "search.rerank: {tmp} is on this machine"),
        (
            "--set questions.origin=llm --set make_questions.llm.model=m --set make_questions.llm.prompt=prompt.yaml",
            "make_questions.llm.prompt: prompt.yaml is on this machine",
        ),
        ("--set kubeflow.steps.trian.gpus=1", "there is no step 'trian'; did you mean train"),
        ("--set kubeflow.gpu.gpus=0 --set encode.device=cuda", "encode.device=cuda needs a GPU"),
        ("--set kubeflow.gpu.gpus=0 --set train.precision=float16", "train.precision=float16 needs"),
        ("--set kubeflow.gpu.gpus=0 --set encode.compute=float16", "encode.compute=float16 needs"),
        (
            "--set kubeflow.steps.train.gpus=4 --set train.processes=1",
            "train: train.processes=1 would leave GPUs of its pod idle, which has 4: leave it out, or set "
            "kubeflow.steps.train.gpus=1",
        ),
        (
            "--set train.processes=4",
            "train: train.processes=4 needs a GPU for each, and its pod has 1: set kubeflow.steps.train.gpus=4",
        ),
        *(
            (f"--set {pods} --set train.batch_size=4", "train: train.batch_size=4 leaves some of 8 processes")
            for pods in (
                "kubeflow.steps.train.gpus=8",
                "kubeflow.steps.train.gpus=4 --set kubeflow.steps.train.nodes=2",
                "kubeflow.gpu.gpus=0 --set train.processes=8",
            )
        ),
        ("--set kubeflow.steps.split.gpus=1", "kubeflow.steps.split.gpus=1: split uses no GPU: leave the setting out"),
        ("--set kubeflow.cpu.gpus=2", "kubeflow.cpu.gpus=2: split uses no GPU"),
        (
            "--set encode.device=cpu",
            "encode: encode.device=cpu would leave its pod's GPU idle: leave it out, or set kubeflow.steps.encode.gpus=0",
        ),
        (
            "--set kubeflow.steps.evaluate.gpus=4",
            "kubeflow.steps.evaluate.gpus=4: evaluate uses one GPU at most; only train and warm-up use several",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_nothing_is_sent(options, line, kubeflow, submit, tmp_path):
    told = submit(options.format(tmp=tmp_path), status=2)
    assert line.format(tmp=tmp_path) in told
    assert not kubeflow.requests


def test_without_an_address_the_ways_to_give_one_are_told(command):
    told = command(SUBMIT, status=2)
    assert "Kubeflow's address is not known: give --host (KF_PIPELINES_ENDPOINT)" in told
    assert "kube_context" in command(f"{SUBMIT} --kube-context nowhere", status=2)


def test_a_refresh_s_model_is_where_pods_reach_it(kubeflow, command):
    line = SUBMIT.replace("training", "refresh") + f" --host {kubeflow.url} --set model.architecture=camvr"
    printed = command(f"{line} --set refresh.model=store/model/KEY", status=2)
    assert "refresh.model: store/model/KEY is on this machine" in printed and not kubeflow.requests


def test_a_comparison_that_argo_has_no_room_for_is_submitted_in_the_parts_that_the_line_names(
    kubeflow, command
):
    """Most of it are the nodes of its shards, which Argo lists one by one."""
    line = SUBMIT.replace("submit training", "submit comparison") + f" --host {kubeflow.url}"
    systems = ", ".join(f"seed-{number}: {{train: {{seed: {number}}}}}" for number in range(3))
    line = f"{line} --set corpus.shards=90 --set 'comparison.systems={{{systems}}}'"
    told = command(line, status=2)
    assert "a workflow of about 1." in told and "and Argo takes 1.0 " in told
    assert not kubeflow.changes()
    assert told.endswith(
        ": give the same command with each of --part 1/3 to --part 3/3, then join their runs by "
        "python -m pipelines compare RUN RUN --store gs://bucket/store\n"
    )
    for number in range(1, 4):
        assert " started: " in command(f"{line} --part {number}/3")
    started = [
        Run.model_validate_json(run.runtime_config.parameters["described"]) for run in kubeflow.runs.values()
    ]
    compared = [name for run in started for name in run.config["comparison"]["systems"]]
    assert compared == ["seed-0", "seed-1", "seed-2"]
    assert "expected one part of some, as in 1/3" in command(f"{line} --part 3/2", status=2)


def test_processes_have_a_gpu_each_on_their_node(kubeflow, submit):
    options = "--set train.processes=4 --set kubeflow.steps.train.gpus=4"
    assert " started: " in submit(options)


def test_an_unknown_profile_names_those_there_are(submit, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    file = tmp_path / "profiles.yaml"
    file.write_text("team: {}\nother: {hots: x}\nthird: {settings: {train: {epochs: 1}}}\n")
    assert "did you mean team?" in submit("--profile taem", status=2)
    assert "there is no setting hots; did you mean host" in submit("--profile other", status=2)
    assert "settings.train decides what a run does" in submit("--profile third", status=2)
    file.write_text("team: [")
    assert "is not YAML" in submit("--profile team", status=2)


def test_refusals_are_one_line_and_start_nothing(kubeflow, submit):
    kubeflow.token = "right"
    printed = submit("--token wrong", status=2)
    assert "refuses the credentials (401)" in printed and "--token" in printed
    assert kubeflow.requests == [("GET", "healthz")], "asked once"
    kubeflow.namespaces, kubeflow.forbidden = ("team", "others"), ("others",)
    printed = submit("--token right --namespace others", status=2)
    assert "does not allow this (403): User 'system:serviceaccount:" in printed
    assert printed.endswith("is the namespace others yours?\n"), "the user's account is not the run's"
    printed = submit("--token right", status=2)
    assert "has several users: give --namespace" in printed
    assert not kubeflow.runs and not kubeflow.pipelines and not kubeflow.changes()


def test_a_host_that_does_not_answer_is_one_line(submit):
    printed = submit("--host http://127.0.0.1:9", status=2)
    assert "Kubeflow at http://127.0.0.1:9 does not answer" in printed


def test_a_store_that_does_not_answer_is_not_waited_for(monkeypatch, tmp_path):
    assert readable(str(tmp_path)) is not None and readable("") is None
    monkeypatch.setattr(submission, "READ_SECONDS", 0.2)
    monkeypatch.setattr(submission, "open_store", lambda url: time.sleep(60))
    began = time.monotonic()
    assert readable("gs://bucket/store") is None and time.monotonic() - began < 10
