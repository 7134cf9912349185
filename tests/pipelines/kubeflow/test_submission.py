"""The checks of `submit` before anything is sent: bad input is one line."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiview.model.base_model import hub
from pipelines.kubeflow import submission
from pipelines.kubeflow.submission import readable
from tests.fixtures.hub_listings import LISTINGS, RENAMED
from tests.fixtures.hub_server import Hub, hub_serving

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


def test_a_dry_run_says_what_would_run_and_sends_nothing(kubeflow, command, bucket):
    words = SUBMIT.replace("gs://bucket/store", f"{bucket}/dry")
    printed = command(f"{words} --host {kubeflow.url} --set corpus.shards=3 --dry-run")
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


@pytest.mark.parametrize("name", LISTINGS)
def test_a_base_is_looked_for_on_the_hub_before_anything_is_done(kubeflow, command, hub_with_presets, name):
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


def test_pods_fetch_beir_s_collections_themselves(kubeflow, command, beir_server):
    command(f"{SUBMIT} --host {kubeflow.url} --set questions.source=beir:scifact/train")
    assert kubeflow.runs


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("", "Kubeflow's address is not known: give --host (KF_PIPELINES_ENDPOINT)"),
        ("--host HOST --store {tmp}/store", "which no pod reaches: give --store gs://"),
        ("--host HOST --preset dmeo", "there is no preset 'dmeo'; did you mean demo?"),
        ("--host HOST --set train.epoch=3", "there is no setting train.epoch; did you mean epochs"),
        ("--host HOST --set kubeflow.gpu.gpus=0 --set encode.device=cuda", "encode.device=cuda needs a GPU"),
        (
            "--host HOST --set kubeflow.gpu.gpus=0 --set train.precision=float16",
            "train.precision=float16 needs",
        ),
        (
            "--host HOST --set kubeflow.gpu.gpus=0 --set encode.compute=float16",
            "encode.compute=float16 needs",
        ),
        (
            "--host HOST --set kubeflow.steps.train.gpus=4 --set train.processes=1",
            "train: train.processes=1 would leave GPUs of its pod idle, which has 4: leave it out, or set "
            "kubeflow.steps.train.gpus=1",
        ),
        *(
            (
                f"--host HOST {pods} --set train.batch_size=4",
                "train: train.batch_size=4 leaves some of 8 processes",
            )
            for pods in (
                "--set kubeflow.steps.train.gpus=8",
                "--set kubeflow.steps.train.gpus=4 --set kubeflow.steps.train.nodes=2",
                "--set kubeflow.gpu.gpus=0 --set train.processes=8",
            )
        ),
        (
            "--host HOST --set kubeflow.steps.split.gpus=1",
            "kubeflow.steps.split.gpus=1: split uses no GPU: leave the setting out",
        ),
        ("--host HOST --set kubeflow.cpu.gpus=2", "kubeflow.cpu.gpus=2: split uses no GPU"),
        ("--host HOST --set kubeflow.steps.index.gpus=1", "kubeflow.steps.index.gpus=1: index uses no GPU"),
        (
            "--host HOST --set encode.device=cpu",
            "encode: encode.device=cpu would leave its pod's GPU idle: leave it out, or set "
            "kubeflow.steps.encode.gpus=0",
        ),
        (
            "--host HOST --set kubeflow.steps.evaluate.gpus=4",
            "kubeflow.steps.evaluate.gpus=4: evaluate uses one GPU at most; only train and warm-up use several",
        ),
        (
            "--host HOST --set questions.source={tmp}/q.json",
            "q.json is on this machine, which no pod reaches",
        ),
        ("--host HOST --set questions.source=demo://none.json", "none.json"),
        ("--host HOST --set model.base={tmp}", "model.base:"),
        ("--host HOST --set search.rerank={tmp}", "search.rerank: {tmp} is on this machine"),
        (
            "--host HOST --set questions.origin=llm --set make_questions.llm.model=m "
            "--set make_questions.llm.prompt=prompt.yaml",
            "make_questions.llm.prompt: prompt.yaml is on this machine",
        ),
        ("--host HOST --time-zone Nowhere", "time_zone: there is no time zone 'Nowhere'; it is named as in"),
        (
            "--host HOST --set kubeflow.steps.trian.gpus=1",
            "there is no step 'trian'; did you mean train",
        ),
        ("--host HOST --profile team", "profiles"),
        ("--host HOST --token-file {tmp}/token", "token_file: there is no file"),
        ("--kube-context nowhere", "kube_context"),
        ("--host HOST --store gs://", "store gs:// names no bucket: give --store gs://BUCKET/PREFIX"),
        ("--host HOST --store s3:///", "store s3:/// names no bucket"),
        ("--host kubeflow.example.org", "host: expected an address as in http://HOST:PORT or https://HOST"),
        ("--host HOST --ui-host https://", "ui_host: expected an address"),
        ("--host HOST --pipeline-root /tmp/x", "pipeline_root: expected a place in a bucket as in gs://"),
        ("--host HOST --pipeline-root gs:///x", "pipeline_root: expected a place in a bucket"),
        ("--host HOST --set notify.url=foo", "notify.url: expected an address as in http://HOST:PORT"),
        (
            "--host HOST --set notify.url=http://[::1",
            "notify.url: input should be a valid URL, invalid IPv6 address",
        ),
        (
            "--host HOST --set notify.url=http://h:99999",
            "notify.url: input should be a valid URL, invalid port",
        ),
        ("--host HOST --set kubeflow.mlflow_uri=nonsense", "kubeflow.mlflow_uri: expected an address"),
        (
            "--host HOST --set train.processes=4",
            "train: train.processes=4 needs a GPU for each, and its pod has 1: set kubeflow.steps.train.gpus=4",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_sent(options, line, kubeflow, command, tmp_path):
    options = options.replace("HOST", kubeflow.url).format(tmp=tmp_path)
    assert line.format(tmp=tmp_path) in command(f"{SUBMIT} {options}", status=2)
    assert not kubeflow.requests


def test_a_refresh_s_model_is_where_pods_reach_it(kubeflow, command):
    submit = f"{SUBMIT.replace('training', 'refresh')} --host {kubeflow.url} --set model.architecture=camvr"
    printed = command(f"{submit} --set refresh.model=store/model/KEY", status=2)
    assert "refresh.model: store/model/KEY is on this machine" in printed and not kubeflow.requests


def test_a_comparison_that_argo_has_no_room_for_is_submitted_in_the_parts_that_the_line_names(
    kubeflow, command
):
    line = SUBMIT.replace("submit training", "submit comparison") + f" --host {kubeflow.url}"
    systems = ", ".join(f"seed-{number}: {{train: {{seed: {number}}}}}" for number in range(12))
    line = f"{line} --set train.rounds=2 --set 'comparison.systems={{{systems}}}'"
    told = command(line, status=2)
    assert "a workflow of about 1." in told and "and Argo takes 1.0 " in told
    assert not kubeflow.changes()
    assert "give the same command with each of --part 1/3 to --part 3/3, then join their runs by " in told
    for number in range(1, 4):
        assert " started: " in command(f"{line} --part {number}/3")
    assert "expected one part of some, as in 1/3" in command(f"{line} --part 3/2", status=2)


def test_processes_have_a_gpu_each_on_their_node(kubeflow, command):
    options = "--set train.processes=4 --set kubeflow.steps.train.gpus=4"
    assert " started: " in command(f"{SUBMIT} --host {kubeflow.url} {options}")


def test_an_unknown_profile_names_those_there_are(kubeflow, command, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    file = tmp_path / "profiles.yaml"
    file.write_text("team: {}\nother: {hots: x}\nthird: {settings: {train: {epochs: 1}}}\n")
    assert "did you mean team?" in command(f"{SUBMIT} --profile taem", status=2)
    assert "there is no setting hots; did you mean host" in command(f"{SUBMIT} --profile other", status=2)
    assert "settings.train decides what a run does" in command(f"{SUBMIT} --profile third", status=2)
    file.write_text("team: [")
    assert "is not YAML" in command(f"{SUBMIT} --profile team", status=2)


def test_refusals_are_one_line_and_start_nothing(kubeflow, command):
    kubeflow.token = "right"
    printed = command(f"{SUBMIT} --host {kubeflow.url} --token wrong", status=2)
    assert "refuses the credentials (401)" in printed and "--token" in printed
    assert kubeflow.requests == [("GET", "healthz")], "asked once"
    kubeflow.namespaces, kubeflow.forbidden = ("team", "others"), ("others",)
    printed = command(f"{SUBMIT} --host {kubeflow.url} --token right --namespace others", status=2)
    assert "does not allow this (403)" in printed and "is the namespace others yours?" in printed
    printed = command(f"{SUBMIT} --host {kubeflow.url} --token right", status=2)
    assert "has several users: give --namespace" in printed
    assert not kubeflow.runs and not kubeflow.pipelines and not kubeflow.changes()


def test_a_host_that_does_not_answer_is_one_line(kubeflow, command):
    printed = command(f"{SUBMIT} --host http://127.0.0.1:9", status=2)
    assert "Kubeflow at http://127.0.0.1:9 does not answer" in printed


def test_a_store_that_does_not_answer_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(submission, "READ_SECONDS", 0.2)
    assert readable(str(tmp_path)) is not None and readable("") is None
    monkeypatch.setattr(submission, "open_store", lambda url: time.sleep(60))
    began = time.monotonic()
    assert readable("gs://bucket/store") is None and time.monotonic() - began < 10
