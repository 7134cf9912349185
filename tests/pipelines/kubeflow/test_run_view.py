"""What is read from the API's answers about a run: from what a real server answered, where that is here, and made up."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import kfp_server_api as api
import pytest

from multiview import environment
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.follow import reason
from pipelines.kubeflow.run_view import RunView, StepPod, Task, _id_below
from tests.fixtures.argo_nodes import Phases, Workflow
from tests.fixtures.kubeflow_server import parsed

RECORDED = Path(os.environ.get(environment.DATA, "")).parent / "kubeflow"
"""Answers of a Kubeflow Pipelines 2.17.0, which are no part of this repository."""
SPEC = {
    "root": {
        "dag": {
            "tasks": {
                "open-run": {"componentRef": {"name": "step"}},
                "split": {"componentRef": {"name": "step"}, "dependentTasks": ["open-run"]},
            }
        }
    },
    "components": {"step": {"executorLabel": "step"}},
    "deploymentSpec": {"executors": {"step": {}}},
}


def recorded(name: str) -> list[RunView]:
    """The runs in the answers of a file."""
    if not (file := RECORDED / f"{name}.json").exists():
        pytest.skip(f"{RECORDED} is not here")
    answers = [entry["answer"] for entry in json.loads(file.read_text())]
    return [RunView(parsed(answer, "V2beta1Run")) for answer in answers if "run_id" in answer]


@pytest.mark.parametrize(
    ("name", "word", "heard", "waits", "failure"),
    [
        ("run-succeeded", "succeeded", "11:06:44", True, None),
        ("run-failed-in-open-run", "failed", "10:55:42", False, ("open-run", "training-mz9nt-3146704611", True)),
        ("run-cancelled", "cancelled", "11:41:05", False, ("train", "training-jl82n-3499682227", True)),
        ("run-too-large", "failed", "11:51:03", True, None),
        ("run-retried-after-lost-pod", "succeeded", None, None, None),
        ("run-of-a-schedule", "succeeded", None, None, None),
    ],
)  # fmt: skip
def test_what_a_real_server_answered(name, word, heard, waits, failure):
    view = recorded(name)[-1]
    assert view.word == word and view.ended
    if heard:
        assert (f"{view.heard:%H:%M:%S}", view.waits) == (heard, waits)
    if failure:
        assert view.failure
        assert (view.failure.task.path, view.failure.node, view.failure.started) == failure


def test_a_run_that_argo_ends_for_its_size_has_a_line_of_its_own():
    """Of four nodes none has failed but the workflow's own, and no reason is told anywhere."""
    (view,) = recorded("run-too-large")
    line = reason(Connection(host="http://nowhere.invalid"), view, None)
    assert line.startswith(f"{view.run.display_name} failed, and no step of it: Argo ended it, as it does")
    assert "get workflow comparison-zx8gj -o jsonpath='{.status.message}' says why" in line


def test_a_run_whose_workflow_was_deleted_goes_on_for_ever():
    running, cancelling = recorded("run-without-its-workflow")
    assert (running.word, cancelling.word) == ("running", "being cancelled")
    assert not running.ended and not cancelling.ended and not running.waits
    assert f"{running.heard:%H:%M}" == f"{cancelling.heard:%H:%M}" == "12:56"


def run(phases: Phases, state: str, *history: str, retried: bool = True) -> tuple[RunView, Workflow]:
    workflow, now = Workflow(SPEC, retried=retried), datetime.now(UTC)
    past = [api.V2beta1RuntimeStatus(update_time=now, state=each) for each in history]
    made = api.V2beta1Run(
        created_at=now, state=state, state_history=past, run_details=workflow.details(phases)
    )
    return RunView(made), workflow


def test_without_the_pipeline_a_step_is_known_by_the_pod_below_it():
    (view,) = recorded("run-failed-in-open-run")
    failures = {RunView(view.run, tasks).failure for tasks in ({}, {"open-run": Task("open-run")})}
    assert failures == {StepPod(Task("open-run"), "training-mz9nt-3146704611")}


@pytest.mark.parametrize("retried", [True, False])
def test_the_pod_that_failed_is_found_by_the_ids_of_its_nodes(retried):
    view, workflow = run({"open-run": "Succeeded", "split": "Failed"}, "FAILED", retried=retried)
    failure = view.failure
    assert failure and (failure.task.path, failure.node) == ("split", workflow.pod("split"))


def test_at_work_is_what_has_begun_and_not_ended():
    view, workflow = run({"open-run": "Succeeded", "split": "Pending"}, "RUNNING")
    assert view.at_work == [StepPod(Task("split"), workflow.pod("split"))]
    (view,) = recorded("run-too-large")
    assert view.at_work == [StepPod(Task("root"), "comparison-zx8gj-193086973", started=False)]


def test_a_step_that_the_api_has_still_running_explains_a_run_that_has_failed():
    view, workflow = run({"open-run": "Running"}, "FAILED")
    assert view.failure and view.failure.node == workflow.pod("open-run")


@pytest.mark.parametrize(
    ("state", "history", "word"),
    [
        ("FAILED", ("RUNNING", "CANCELING", "FAILED"), "cancelled"),
        ("CANCELED", (), "cancelled"),
        ("CANCELING", ("RUNNING",), "being cancelled"),
        ("SUCCEEDED", ("RUNNING", "CANCELING", "SUCCEEDED"), "succeeded"),
        ("FAILED", ("RUNNING", "FAILED"), "failed"),
        (None, (), "pending"),
    ],
)
def test_cancelled_is_what_a_person_ended(state, history, word):
    assert run({}, state, *history)[0].word == word


def test_an_id_goes_on_where_that_of_a_shorter_name_ends():
    assert _id_below(_id_below("w-2166136261", "w"), "(0)") == _id_below("w-2166136261", "w(0)")
