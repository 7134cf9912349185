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
from pipelines.kubeflow.run_view import RunView, StepPod, Task
from tests.fixtures.kubeflow_server import parsed

RECORDED = Path(os.environ.get(environment.DATA, "")).parent / "kubeflow"
"""Answers of a Kubeflow Pipelines 2.17.0, which are no part of this repository."""


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


def test_without_the_pipeline_a_step_is_known_by_the_pod_below_it():
    (view,) = recorded("run-failed-in-open-run")
    failures = {RunView(view.run, tasks).failure for tasks in ({}, {"open-run": Task("open-run")})}
    assert failures == {StepPod(Task("open-run"), "training-mz9nt-3146704611")}


def test_a_driver_of_kubeflow_s_own_may_be_at_work():
    (view,) = recorded("run-too-large")
    assert view.at_work == [StepPod(Task("root"), "comparison-zx8gj-193086973", started=False)]


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
    past = [api.V2beta1RuntimeStatus(state=each) for each in history]
    assert RunView(api.V2beta1Run(state=state, state_history=past)).word == word


def test_of_steps_that_failed_the_first_in_time_is_named():
    """The API lists nodes in any order."""
    nodes = [
        api.V2beta1PipelineTaskDetail(
            display_name=f"{key}-driver", state="FAILED", end_time=datetime(2026, 1, 1, hour, tzinfo=UTC)
        )
        for key, hour in (("index", 5), ("split", 3), ("encode", 4))
    ]
    run = api.V2beta1Run(state="FAILED", run_details=api.V2beta1RunDetails(task_details=nodes))
    failure = RunView(run).failure
    assert failure and failure.task.path == "split"
