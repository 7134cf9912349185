"""`submit`: what is sent, how often, as whom, and that bad input sends nothing."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from multiview.artifacts.record import Reference
from multiview.config import Config
from multiview.errors import InputError
from multiview.model import hub
from multiview.plans.plan import Plan
from multiview.steps.path import StepPath
from multiview.steps.runs import Run
from pipelines.kubeflow.images import check_images
from pipelines.kubeflow.submission import warn_of_shards
from tests.fixtures.hub_listings import LISTINGS, RENAMED
from tests.fixtures.hub_server import Hub, hub_serving
from tests.fixtures.kubeflow_server import Fault

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


def submitted(kubeflow) -> Run:
    (run,) = kubeflow.runs.values()
    return Run.model_validate_json(run.runtime_config.parameters["described"])


def test_a_pipeline_version_is_uploaded_and_a_run_of_it_started(kubeflow, command):
    printed = command(
        f"{SUBMIT} --host {kubeflow.url} --pipeline-root gs://bucket/kfp --set kubeflow.service_account=trainer"
    )
    (run,), (version,), (pipeline,) = (
        list(some.values()) for some in (kubeflow.runs, kubeflow.versions, kubeflow.pipelines)
    )
    assert f"started: {kubeflow.url}/#/runs/details/{run.run_id}" in printed
    assert pipeline.display_name == "multiview-training"
    assert version.display_name.startswith("training-") and version.pipeline_id == pipeline.pipeline_id
    assert run.pipeline_version_reference.pipeline_version_id == version.pipeline_version_id
    assert run.runtime_config.parameters["store"] == "gs://bucket/store"
    assert run.runtime_config.pipeline_root == "gs://bucket/kfp"
    assert run.service_account == "trainer"
    (experiment,) = kubeflow.experiments.values()
    assert experiment.display_name == "multiview" and run.experiment_id == experiment.experiment_id
    described = submitted(kubeflow)
    assert run.display_name == described.id and described.preset == "small.yaml" and not described.each_time
    assert described.config["train"]["max_steps"] == 2 and described.steps[:2] == ["split", "bm25-negatives"]
    spec = version.pipeline_spec["pipeline_spec"]
    assert spec["pipelineInfo"]["name"] == "training"


def test_a_dry_run_prints_the_estimate_and_sends_nothing(kubeflow, command, bucket, tmp_path):
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
    (tmp_path / "small_base" / "config.json").write_text(json.dumps(dict.fromkeys(names, 8)))
    words = SUBMIT.replace("gs://bucket/store", f"{bucket}/dry")
    printed = command(f"{words} --host {kubeflow.url} --set corpus.shards=3 --dry-run")
    assert "| camvr/round-1/encode | 3, 3 at once |" in printed and "in all" in printed
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
        assert f"model.base: {name} has neither *.safetensors nor pytorch_model*.bin on the hub" in told
    assert not kubeflow.requests and not Path("here").exists()
    hub_with_presets.listings[name] = LISTINGS[name]
    hub.commit_of.cache_clear()
    command(f"submit training {base} --store gs://bucket/store --host {kubeflow.url}")
    assert kubeflow.runs


def test_the_same_command_continues_its_run(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    (first,) = kubeflow.runs.values()
    assert "is going already" in command(f"{SUBMIT} --host {kubeflow.url}")
    assert list(kubeflow.runs.values()) == [first], "a run that is going is not started twice"
    first.state = "FAILED"
    command(f"{SUBMIT} --host {kubeflow.url}")
    second = next(run for run in kubeflow.runs.values() if run is not first)
    assert second.display_name == first.display_name
    assert second.runtime_config.parameters == first.runtime_config.parameters
    assert len(kubeflow.versions) == len(kubeflow.pipelines) == len(kubeflow.experiments) == 1
    assert kubeflow.asked("upload_version") == 1
    command(f"{SUBMIT} --host {kubeflow.url} --set kubeflow.cpu.memory=9Gi")
    assert kubeflow.asked("upload_version") == 1, "it is going: nothing is uploaded"
    second.state = "CANCELED"
    command(f"{SUBMIT} --host {kubeflow.url} --set kubeflow.cpu.memory=9Gi")
    assert len(kubeflow.versions) == 2 and len({run.display_name for run in kubeflow.runs.values()}) == 1


@pytest.mark.parametrize(
    ("options", "pages"),
    [
        ("", "HOST"),
        ("--ui-host https://pages.example.org/pipeline", "https://pages.example.org/pipeline"),
        ("--ui-host http://ml-pipeline-ui.kubeflow.svc:80", None),
        ("--ui-host https://pages.example.org --set notify.kubeflow=https://ours.org", "https://ours.org"),
    ],
)
def test_notices_link_to_the_pages_that_submit_knows(kubeflow, command, options, pages):
    command(f"{SUBMIT} --host {kubeflow.url} {options}")
    described = submitted(kubeflow)
    expected = pages and pages.replace("HOST", kubeflow.url)
    assert described.config.get("notify", {}).get("kubeflow") == expected
    (version,) = kubeflow.versions.values()
    command(f"{SUBMIT} --host {kubeflow.url} --set notify.kubeflow=https://another.example.org")
    assert [run.display_name for run in kubeflow.runs.values()] == [described.id], "the same run"
    assert "notify.kubeflow" in options or kubeflow.url not in str(version.pipeline_spec), "nor the pipeline"


def test_a_run_into_another_store_is_another_run(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    printed = command(f"{SUBMIT.replace('/store', '/other')} --host {kubeflow.url}")
    assert " started: " in printed and len(kubeflow.runs) == 2
    assert len({run.display_name for run in kubeflow.runs.values()}) == 1


def test_a_run_of_another_experiment_is_not_started_twice(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url} --experiment mine")
    assert "is going already: " in command(f"{SUBMIT} --host {kubeflow.url} --experiment other")
    assert len(kubeflow.runs) == 1


def test_a_run_that_is_being_cancelled_may_still_write(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    (run,) = kubeflow.runs.values()
    run.state = "CANCELING"
    assert "is being cancelled: " in command(f"{SUBMIT} --host {kubeflow.url}")
    assert len(kubeflow.runs) == 1


def test_that_a_going_run_has_other_pods_is_said(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --set kubeflow.cpu.memory=9Gi")
    assert "is going already, with another version of the pipeline than training-" in printed
    assert len(kubeflow.runs) == len(kubeflow.versions) == 1


def test_what_is_there_is_found_on_later_pages(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    (going,) = kubeflow.runs.values()
    ended = {str(number): copy.copy(going) for number in range(3)}
    for run in ended.values():
        run.state = "FAILED"
    kubeflow.runs = {**ended, going.run_id: going}
    kubeflow.page_size = 1
    kubeflow.requests.clear()
    assert going.run_id in command(f"{SUBMIT} --host {kubeflow.url}")
    assert kubeflow.asked("list_runs") == 4 and not kubeflow.changes()


def test_a_profile_stands_below_environment_and_flags(kubeflow, command, monkeypatch, tmp_path):
    profiles = {
        "default": {"host": "http://nowhere.invalid", "experiment": "of default"},
        "team": {
            "host": "http://nowhere.invalid",
            "experiment": "of the profile",
            "namespace": "of-the-profile",
            "pipeline_root": "gs://bucket/of-the-profile",
            "store": "gs://bucket/of-the-profile",
            "settings": {"kubeflow": {"service_account": "of-the-profile", "mlflow_uri": "http://mlflow"}},
        },
    }
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(profiles))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", kubeflow.url)
    monkeypatch.setenv("KF_PIPELINES_DEFAULT_EXPERIMENT_NAME", "of the environment")
    monkeypatch.setenv("KFP_NAMESPACE", "of-the-environment")
    kubeflow.namespaces = ("of-the-flag",)
    command(
        "submit training --preset small.yaml --profile team --namespace of-the-flag --set kubeflow.service_account=own"
    )
    (experiment,) = kubeflow.experiments.values()
    assert (experiment.display_name, experiment.namespace) == ("of the environment", "of-the-flag")
    (pipeline,) = kubeflow.pipelines.values()
    assert pipeline.namespace == "of-the-flag"
    (run,) = kubeflow.runs.values()
    assert run.runtime_config.pipeline_root == "gs://bucket/of-the-profile"
    assert run.runtime_config.parameters["store"] == "gs://bucket/of-the-profile"
    assert run.service_account == "own"
    assert submitted(kubeflow).config["kubeflow"] == {"service_account": "own", "mlflow_uri": "http://mlflow"}
    assert "nowhere.invalid" in command(f"{SUBMIT} --host http://nowhere.invalid", status=2)


def test_tokens_are_sent_and_a_token_file_is_read_anew(kubeflow, command, tmp_path):
    kubeflow.token = "first"
    command(f"{SUBMIT} --host {kubeflow.url} --token first")
    file = tmp_path / "token"
    file.write_text("second")
    kubeflow.token = "second"
    kubeflow.runs.clear()
    command(f"{SUBMIT} --host {kubeflow.url} --token-file {file}")
    assert kubeflow.runs


def test_a_server_that_is_busy_is_asked_again(kubeflow, command):
    faults = [
        Fault("healthz", 503),
        Fault("list_runs", 502),
        Fault("list_versions", 500),
        Fault("create_run", 503),
    ]
    kubeflow.faults += faults
    command(f"{SUBMIT} --host {kubeflow.url}")
    assert len(kubeflow.runs) == 1 and not any(fault.times for fault in faults)


def test_a_run_that_may_have_been_started_is_not_started_again(kubeflow, command):
    kubeflow.faults.append(Fault("create_run", 504, done=True))
    assert "answers 504" in command(f"{SUBMIT} --host {kubeflow.url}", status=2)
    assert kubeflow.asked("create_run") == 1
    assert "is going already" in command(f"{SUBMIT} --host {kubeflow.url}")
    assert len(kubeflow.runs) == 1


def test_who_comes_second_takes_what_the_first_has_made(kubeflow, command):
    """Between looking and making, another makes the same: 409 is as good as made."""
    for endpoint in ("create_experiment", "create_pipeline", "upload_version"):
        kubeflow.faults.append(Fault(endpoint, 409, done=True))
    command(f"{SUBMIT} --host {kubeflow.url}")
    assert len(kubeflow.runs) == len(kubeflow.versions) == len(kubeflow.experiments) == 1


@pytest.mark.parametrize(
    "settings",
    ["index.device=cuda", "index.device=cuda index.kind=compact kubeflow.steps.index.gpus=1"],
)
def test_an_exact_index_needs_no_gpu_and_another_may_have_one(kubeflow, command, settings):
    options = " ".join(f"--set {setting}" for setting in settings.split())
    command(f"{SUBMIT} --host {kubeflow.url} {options}")
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
            "--host HOST --set index.device=cuda --set index.kind=compact",
            "index: index.device=cuda needs a GPU, and its pod has none: set kubeflow.steps.index.gpus=1",
        ),
        (
            "--host HOST --set questions.source={tmp}/q.json",
            "q.json is on this machine, which no pod reaches",
        ),
        ("--host HOST --set questions.source=demo://none.json", "none.json"),
        ("--host HOST --set model.base={tmp}", "model.base:"),
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
        ("--host HOST --set kubeflow.mlflow_uri=nonsense", "kubeflow.mlflow_uri: expected an address"),
        (
            "--host HOST --set train.processes=4",
            "train: train.processes=4 needs a GPU for each, and its pod has 1: set kubeflow.steps.train.gpus=4",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_sent(options, line, kubeflow, command, tmp_path):
    options = options.replace("HOST", kubeflow.url).format(tmp=tmp_path)
    assert line in command(f"{SUBMIT} {options}", status=2)
    assert not kubeflow.requests


def test_images_must_be_named(kubeflow, command, monkeypatch):
    monkeypatch.delenv("MULTIVIEW_GPU_IMAGE")
    assert "MULTIVIEW_GPU_IMAGE=" in command(f"{SUBMIT} --host {kubeflow.url}", status=2)
    assert not kubeflow.requests
    command(f"{SUBMIT} --host {kubeflow.url} --set kubeflow.gpu.gpus=0")
    monkeypatch.delenv("MULTIVIEW_CPU_IMAGE")
    assert "MULTIVIEW_CPU_IMAGE=" in command(f"{SUBMIT} --host {kubeflow.url}", status=2)


@pytest.mark.parametrize("image", ["not an image", "team/CPU", "cpu@sha256:12", "registry.example/", "a:b:c"])
def test_an_image_s_name_is_one(image, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", image)
    with pytest.raises(InputError, match=f"^MULTIVIEW_CPU_IMAGE: '{image}' is no name of an image"):
        check_images([False])


@pytest.mark.parametrize(
    "image",
    [
        "multiview-cpu",
        "multiview-cpu:python3.11",
        "localhost:5000/multiview-cpu:1",
        "europe-docker.pkg.dev/my-project/multiview_cpu:1",
        f"ghcr.io/team/a__b/cpu:1.0@sha256:{1:064x}",
    ],
)
def test_images_of_any_registry_are_taken(image, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", image)
    check_images([False])


def test_a_bad_name_of_an_image_sends_nothing(kubeflow, command, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", "not an image")
    assert "MULTIVIEW_GPU_IMAGE: 'not an image'" in command(f"{SUBMIT} --host {kubeflow.url}", status=2)
    assert not kubeflow.requests


@pytest.mark.parametrize(("shards", "warned"), [(99, False), (100, True)])
def test_more_shards_than_argo_has_room_for_are_warned_of(capsys, shards, warned):
    """Of four loops."""
    plan = Plan("p")
    for name in "abcd":
        inputs = {
            kind: Reference(address=f"gs://b/s/{kind}/k", digest="d") for kind in ("generator", "passages")
        }
        files = tuple(f"shard-{number:03}" for number in range(shards))
        plan.add(StepPath("generate-queries", name), "generate-queries", Config(), shards=files, **inputs)
    warn_of_shards(plan)
    printed = capsys.readouterr().err
    assert printed.startswith("warning: this run has 400 steps on single shards") == warned
    assert warned or not printed


def test_a_warning_of_shards_stops_nothing(kubeflow, command):
    line = SUBMIT.replace("submit training", "submit comparison")
    printed = command(f"{line} --host {kubeflow.url} --set corpus.shards=100 --set train.rounds=2")
    assert "steps on single shards, and Argo's status" in printed and " started: " in printed


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


def test_the_server_speaks_kfp_s_protocol(kubeflow):
    """A field that no model has is refused, or the tests would pass for what the real server ignores."""
    import requests

    answer = requests.post(
        f"{kubeflow.url}/apis/v2beta1/experiments", data=json.dumps({"nmae": "x"}), timeout=9
    )
    assert answer.status_code == 400 and "nmae" in answer.json()["message"]
