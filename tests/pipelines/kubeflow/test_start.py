"""Starts of submissions: what is sent, how often, and as whom."""

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from multiview.steps.runs import Run
from tests.fixtures.kubeflow_server import Fault
from tests.fixtures.schedules import NIGHTLY, write

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
    ],
)
def test_notices_link_to_the_pages_that_submit_knows(kubeflow, command, options, pages):
    command(f"{SUBMIT} --host {kubeflow.url} {options}")
    described = submitted(kubeflow)
    expected = pages and pages.replace("HOST", kubeflow.url)
    assert described.config.get("notify", {}).get("kubeflow") == expected
    (version,) = kubeflow.versions.values()
    command(f"{SUBMIT} --host {kubeflow.url} --ui-host https://another.example.org")
    assert [run.display_name for run in kubeflow.runs.values()] == [described.id], "the same run"
    assert kubeflow.url not in str(version.pipeline_spec), "nor the pipeline"


def test_a_run_that_is_going_is_followed_however_large_it_is_said_to_be(kubeflow, command, monkeypatch):
    """As one without the steps that were there, which alone has room."""
    command(f"{SUBMIT} --host {kubeflow.url}")
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "1000")
    assert "is going already: " in command(f"{SUBMIT} --host {kubeflow.url}")
    (run,) = kubeflow.runs.values()
    run.state = "FAILED"
    assert "would be a workflow of about" in command(f"{SUBMIT} --host {kubeflow.url}", status=2)


def test_a_run_into_another_store_is_another_run(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url}")
    printed = command(f"{SUBMIT.replace('/store', '/other')} --host {kubeflow.url}")
    assert " started: " in printed and len(kubeflow.runs) == 2
    assert len({run.display_name for run in kubeflow.runs.values()}) == 1


def test_a_run_of_another_experiment_is_not_started_twice(kubeflow, command):
    command(f"{SUBMIT} --host {kubeflow.url} --experiment mine")
    assert "is going already: " in command(f"{SUBMIT} --host {kubeflow.url} --experiment other")
    assert len(kubeflow.runs) == 1


@pytest.mark.parametrize(
    ("state", "words"), [("RUNNING", "is going already"), ("CANCELING", "is being cancelled")]
)
def test_beside_a_run_that_is_silent_another_is_started_again(kubeflow, command, state, words):
    """As where its workflow was deleted: Kubeflow says for ever that it is going."""
    again = f"{SUBMIT} --host {kubeflow.url} --again"
    command(f"{SUBMIT} --host {kubeflow.url}")
    assert "is going already: " in command(again), "it has been heard of"
    (run,) = kubeflow.runs.values()
    run.state, run.created_at = state, datetime.now(UTC) - timedelta(hours=2)
    for past in run.state_history:
        past.update_time = run.created_at
    printed = command(f"{SUBMIT} --host {kubeflow.url}")
    since = f"{run.created_at:%Y-%m-%d %H:%M} UTC"
    assert f"{words}; nothing has been heard of it since {since}: " in printed
    assert "--again starts another run beside it" in printed and len(kubeflow.runs) == 1
    assert " started: " in command(again) and len(kubeflow.runs) == 2
    assert "is going already: " in command(f"{SUBMIT} --host {kubeflow.url}"), "the other one"
    assert "is going already: " in command(again) and len(kubeflow.runs) == 2


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


def test_the_server_speaks_kfp_s_protocol(kubeflow):
    """A field that no model has is refused, or the tests would pass for what the real server ignores."""
    import requests

    answer = requests.post(
        f"{kubeflow.url}/apis/v2beta1/experiments", data=json.dumps({"nmae": "x"}), timeout=9
    )
    assert answer.status_code == 400 and "nmae" in answer.json()["message"]


@pytest.mark.parametrize(
    ("accounts", "unusable", "said"),
    [
        (("pipeline-runner",), (), "service account multiview-steps is not allowed"),
        (("multiview-steps",), ("multiview-steps",), "Verb:use,Group:,Version:v1,Resource:serviceaccounts"),
    ],
)
@pytest.mark.parametrize("line", [SUBMIT, "schedule apply refresh.yaml"])
def test_a_service_account_that_kfp_2_18_refuses_is_a_line_with_the_way_out(
    kubeflow, command, line, accounts, unusable, said
):
    settings = {"kubeflow": {"service_account": "multiview-steps"}}
    write({**NIGHTLY, "settings": settings})
    line = line.replace("submit", "submit --set kubeflow.service_account=multiview-steps")
    kubeflow.namespaces, kubeflow.accounts, kubeflow.unusable = ("team",), accounts, unusable
    told = command(f"{line} --host {kubeflow.url} --namespace team", status=2)
    assert "does not let the run have its service account (403): " in told and said in told
    assert "ALLOWEDSERVICEACCOUNTS" in told and "the verb `use`" in told and not kubeflow.runs
    kubeflow.accounts, kubeflow.unusable = ("multiview-steps",), ()
    command(f"{line} --host {kubeflow.url} --namespace team")


def test_another_user_s_account_is_no_refused_service_account(kubeflow, command):
    kubeflow.namespaces, kubeflow.forbidden = ("team", "others"), ("others",)
    told = command(f"{SUBMIT} --host {kubeflow.url} --namespace others", status=2)
    assert "User 'system:serviceaccount:multiview:default' is not authorized" in told
    assert told.endswith("is the namespace others yours?\n")
