"""Starts of submissions: what is sent, how often, and as whom."""

import copy
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


def test_a_pipeline_version_is_uploaded_and_a_run_of_it_started(kubeflow, submit):
    printed = submit("--pipeline-root gs://bucket/kfp --set kubeflow.service_account=trainer")
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


def test_the_same_command_continues_its_run(kubeflow, submit):
    submit()
    (first,) = kubeflow.runs.values()
    assert "is going already" in submit()
    assert list(kubeflow.runs.values()) == [first], "a run that is going is not started twice"
    first.state = "FAILED"
    submit()
    second = next(run for run in kubeflow.runs.values() if run is not first)
    assert second.display_name == first.display_name
    assert second.runtime_config.parameters == first.runtime_config.parameters
    assert len(kubeflow.versions) == len(kubeflow.pipelines) == len(kubeflow.experiments) == 1
    assert kubeflow.asked("upload_version") == 1
    told = submit("--set kubeflow.cpu.memory=9Gi")
    assert "is going already, with another version of the pipeline than training-" in told
    assert kubeflow.asked("upload_version") == 1, "nothing is uploaded"
    second.state = "CANCELED"
    submit("--set kubeflow.cpu.memory=9Gi")
    assert len(kubeflow.versions) == 2 and len({run.display_name for run in kubeflow.runs.values()}) == 1


@pytest.mark.parametrize(
    ("options", "pages"),
    [
        ("", "HOST"),
        ("--ui-host https://pages.example.org/pipeline", "https://pages.example.org/pipeline"),
        ("--ui-host http://ml-pipeline-ui.kubeflow.svc:80", None),
    ],
)
def test_notices_link_to_the_pages_that_submit_knows(kubeflow, submit, options, pages):
    submit(options)
    described = submitted(kubeflow)
    expected = pages and pages.replace("HOST", kubeflow.url)
    assert described.config.get("notify", {}).get("kubeflow") == expected
    (version,) = kubeflow.versions.values()
    submit("--ui-host https://another.example.org")
    assert [run.display_name for run in kubeflow.runs.values()] == [described.id], "the same run"
    assert kubeflow.url not in str(version.pipeline_spec), "nor the pipeline"


def test_a_run_that_is_going_is_followed_however_large_it_is_said_to_be(kubeflow, submit, monkeypatch):
    """As one without the steps that were there, which alone has room."""
    submit()
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "1000")
    assert "is going already: " in submit()
    (run,) = kubeflow.runs.values()
    run.state = "FAILED"
    assert "would be a workflow of about" in submit(status=2)


def test_a_run_into_another_store_is_another_run_and_one_of_another_experiment_is_not(kubeflow, submit):
    submit("--experiment mine")
    assert "is going already: " in submit("--experiment other")
    assert len(kubeflow.runs) == 1
    printed = submit("--store gs://bucket/other")
    assert " started: " in printed and len(kubeflow.runs) == 2
    assert len({run.display_name for run in kubeflow.runs.values()}) == 1


@pytest.mark.parametrize(
    ("state", "words"), [("RUNNING", "is going already"), ("CANCELING", "is being cancelled")]
)
def test_beside_a_run_that_is_silent_another_is_started_again(kubeflow, submit, state, words):
    """As where its workflow was deleted: Kubeflow says for ever that it is going."""
    submit()
    assert "is going already: " in submit("--again"), "it has been heard of"
    (run,) = kubeflow.runs.values()
    run.state, run.created_at = state, datetime.now(UTC) - timedelta(hours=2)
    for past in run.state_history:
        past.update_time = run.created_at
    printed = submit()
    since = f"{run.created_at:%Y-%m-%d %H:%M} UTC"
    assert f"{words}; nothing has been heard of it since {since}: " in printed
    assert "--again starts another run beside it" in printed and len(kubeflow.runs) == 1
    assert " started: " in submit("--again") and len(kubeflow.runs) == 2
    assert "is going already: " in submit(), "the other one"
    assert "is going already: " in submit("--again") and len(kubeflow.runs) == 2


def test_what_is_there_is_found_on_later_pages(kubeflow, submit):
    submit()
    (going,) = kubeflow.runs.values()
    ended = {str(number): copy.copy(going) for number in range(3)}
    for run in ended.values():
        run.state = "FAILED"
    kubeflow.runs = {**ended, going.run_id: going}
    kubeflow.page_size = 1
    kubeflow.requests.clear()
    assert going.run_id in submit()
    assert kubeflow.asked("list_runs") == 4 and not kubeflow.changes()


def test_a_profile_stands_below_environment_and_flags(kubeflow, command, submit, monkeypatch, tmp_path):
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
    assert "nowhere.invalid" in submit("--host http://nowhere.invalid", status=2)


def test_tokens_are_sent_and_a_token_file_is_read_anew(kubeflow, submit, tmp_path):
    kubeflow.token = "first"
    submit("--token first")
    file = tmp_path / "token"
    file.write_text("second")
    kubeflow.token = "second"
    kubeflow.runs.clear()
    submit(f"--token-file {file}")
    assert kubeflow.runs


def test_a_server_that_is_busy_is_asked_again(kubeflow, submit):
    faults = [
        Fault("healthz", 503),
        Fault("list_runs", 502),
        Fault("list_versions", 500),
        Fault("create_run", 503),
    ]
    kubeflow.faults += faults
    submit()
    assert len(kubeflow.runs) == 1 and not any(fault.times for fault in faults)


def test_a_run_that_may_have_been_started_is_not_started_again(kubeflow, submit):
    kubeflow.faults.append(Fault("create_run", 504, done=True))
    assert "answers 504" in submit(status=2)
    assert kubeflow.asked("create_run") == 1
    assert "is going already" in submit()
    assert len(kubeflow.runs) == 1


def test_who_comes_second_takes_what_the_first_has_made(kubeflow, submit):
    """Between looking and making, another makes the same: 409 is as good as made."""
    for endpoint in ("create_experiment", "create_pipeline", "upload_version"):
        kubeflow.faults.append(Fault(endpoint, 409, done=True))
    submit()
    assert len(kubeflow.runs) == len(kubeflow.versions) == len(kubeflow.experiments) == 1


@pytest.mark.parametrize(
    ("line", "accounts", "unusable", "said"),
    [
        (SUBMIT, ("pipeline-runner",), (), "service account multiview-steps is not allowed"),
        ("schedule apply refresh.yaml", ("multiview-steps",), ("multiview-steps",), "Verb:use,Group:,"),
    ],
)
def test_a_service_account_that_kfp_2_18_refuses_is_a_line_with_the_way_out(
    kubeflow, command, line, accounts, unusable, said
):
    write({**NIGHTLY, "settings": {"kubeflow": {"service_account": "multiview-steps"}}})
    line = line.replace("submit", "submit --set kubeflow.service_account=multiview-steps")
    kubeflow.namespaces, kubeflow.accounts, kubeflow.unusable = ("team",), accounts, unusable
    told = command(f"{line} --host {kubeflow.url} --namespace team", status=2)
    assert "does not let the run have its service account (403): " in told and said in told
    assert "ALLOWEDSERVICEACCOUNTS" in told and "the verb `use`" in told and not kubeflow.runs
    kubeflow.accounts, kubeflow.unusable = ("multiview-steps",), ()
    command(f"{line} --host {kubeflow.url} --namespace team")
