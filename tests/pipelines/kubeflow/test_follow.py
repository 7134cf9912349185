"""`submit --wait`: the run is followed to its end, by the store's states or by KFP's tasks."""

import io
import json
import time
from dataclasses import asdict

import pytest
from urllib3 import HTTPResponse

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import open_store
from multiview.cli.console import Console
from multiview.steps.events import Progress, progress_path
from multiview.steps.runs import StepState, write_state
from pipelines.kubeflow import follow
from pipelines.kubeflow.client import FOLLOWING_RETRY
from pipelines.kubeflow.follow import waits_for
from pipelines.runs import results
from tests.fixtures.kubeflow_server import Fault
from tests.pipelines.kubeflow.followed import BEFORE, OPENED, Argo, Cluster, described_of, each, silent

TIMES = int(FOLLOWING_RETRY.total or 0)
"""That a server which is away is asked again."""


def test_a_run_is_followed_to_its_end(kubeflow, followed):
    printed = followed(Cluster())
    (run,) = kubeflow.runs.values()
    steps = described_of(run).steps
    assert all(step in printed for step in steps), "a line for each step"
    assert f"{run.display_name}: {len(steps)} steps done, 0 found" in printed


def test_where_the_store_cannot_be_read_kfp_s_nodes_are_told_as_steps(kubeflow, followed, unreadable):
    encoding = {**BEFORE, "encode": ["Succeeded", "Running"]}
    looks = Argo(
        kubeflow,
        ("RUNNING", {}),
        ("RUNNING", {"open-run": "Running"}),
        ("RUNNING", {"open-run": "Succeeded", "split": "Running"}),
        ("RUNNING", encoding),
        ("SUCCEEDED", {**encoding, "encode": ["Succeeded", "Succeeded"]}),
    )
    assert followed(looks, "--set corpus.shards=2").splitlines()[1:-2] == [
        "open-run running",
        "open-run succeeded",
        "split running",
        "split succeeded",
        "bm25-negatives succeeded",
        "camvr/initial-model succeeded",
        "camvr/round-1/train succeeded",
        "camvr/round-1/encode succeeded (1 of 2 shards)",
        "camvr/round-1/encode running (1 of 2 shards)",
        "camvr/round-1/encode succeeded (2 of 2 shards)",
    ]


@pytest.mark.parametrize("state", ["RUNNING", "CANCELING"])
def test_a_run_whose_workflow_is_gone_is_not_waited_for(followed, state):
    printed = followed(each(lambda run: setattr(run, "state", state), silent()), status=1)
    assert "nothing has been heard of it since" in printed
    assert "its workflow is gone; --again starts" in printed


def test_a_step_that_says_that_it_works_is_waited_for(followed, store):
    """However long ago Kubeflow has seen anything change."""

    def working(run) -> None:
        if run.state == "RUNNING":
            silent()(run)
            attempt, began = "passages/k/attempts/a", run.created_at.timestamp()
            running = StepState(path="split", step="split", status="running", attempt=attempt, started=began)
            write_state(open_store(store), run.display_name, running)
            progress = Progress(0, 0, "", "working for 3:00:00", time.time())
            open_store(store).replace(progress_path(attempt), json.dumps(asdict(progress)).encode())

    assert " steps done, 0 found" in followed(each(Cluster(), working))


@pytest.mark.parametrize(
    ("phase", "why"), [("Pending", "a pod of it waits for a node"), ("Running", "a step of it is long")]
)
def test_what_may_still_be_going_is_said_once_and_waited_for(
    kubeflow, followed, unreadable, monkeypatch, phase, why
):
    monkeypatch.setattr(follow, "SILENCE_POLL_SECONDS", 0.0)
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": phase})] * 3, ("SUCCEEDED", OPENED))
    printed = followed(each(looks, silent()))
    assert printed.count("nothing has been heard of it since") == 1 and why in printed


@pytest.mark.parametrize(
    ("phase", "hours", "why", "status"),
    [
        ("Running", 83, "a step of it is long or waits, or", 0),
        ("Running", 85, "UTC: its workflow is gone", 1),
        ("Pending", 85, "its workflow is gone; --again starts another run beside it", 1),
    ],
)
def test_a_step_may_be_silent_for_as_long_as_its_pod_may_wait_and_run(
    kubeflow, followed, unreadable, phase, hours, why, status
):
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": phase})] * 3, ("SUCCEEDED", OPENED))
    options = "--set kubeflow.steps.train.timeout_hours=72"
    assert why in followed(each(looks, silent(hours)), options, status)


NODES, BACKOFF = "kubeflow.steps.train.nodes=2", "kubeflow.gpu.backoff_seconds=1800"


@pytest.mark.parametrize("said", ["running", "failed"])
@pytest.mark.parametrize(
    ("setting", "hours", "status"),
    [(NODES, 0.5, 0), (NODES, 12.5, 1), (BACKOFF, 0.5, 0), (BACKOFF, 1.5, 1), ("train.epochs=1", 0.5, 1)],
)
def test_nodes_and_a_next_attempt_are_waited_for(kubeflow, followed, store, said, setting, hours, status):
    looks = Argo(kubeflow, *[("RUNNING", {**BEFORE, "train": "Running"})] * 3, ("SUCCEEDED", OPENED))

    def begun(run) -> None:
        state = StepState(path="camvr/round-1/train", step="train", status=said)
        write_state(open_store(store), run.display_name, state)

    printed = followed(each(looks, silent(hours), begun), f"--set {setting}", status)
    gone = "its workflow is gone" if status else "a step of it is long or waits, or its workflow is gone"
    assert f" UTC: {gone}; --again" in printed


UNKNOWN = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "r/cpu:1"'}}
FULL = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are free"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"containerStatuses": [{"state": UNKNOWN}]}, 'ImagePullBackOff: Back-off pulling image "r/cpu:1"'),
        ({"initContainerStatuses": [{"state": UNKNOWN}]}, 'ImagePullBackOff: Back-off pulling image "r/cpu:1"'),
        ({"conditions": [FULL]}, "Unschedulable: 0/3 nodes are free"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, None),
        ({"containerStatuses": [{"state": {"running": {}}}], "conditions": [{**FULL, "status": "True"}]}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_what_a_pod_waits_for_is_in_its_status(status, said):
    assert waits_for(status) == said


@pytest.mark.parametrize("way", ["pages", "kube-context"])
def test_what_a_pod_waits_for_is_said_once(kubeflow, followed, unreadable, monkeypatch, kubernetes, way):
    monkeypatch.setattr(follow, "SILENCE_POLL_SECONDS", 0.0)
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": "Pending"})] * 3, ("SUCCEEDED", OPENED))

    def unscheduled(run) -> None:
        workflow, _, number = looks.workflow.pod("open-run").rpartition("-")
        kubeflow.pods = {f"{workflow}-system-container-impl-{number}": {"conditions": [FULL]}}

    kubeflow.pages, options = way == "pages", "--host '' --kube-context training-cluster"
    if kubeflow.pages:
        kubeflow.below, options = "", f"--token {kubeflow.token}"
    printed = followed(each(looks, unscheduled), options)
    assert printed.count("\nwarning: open-run waits: Unschedulable: 0/3 nodes are free\n") == 1


def test_a_run_that_is_gone_is_one_line(kubeflow, followed):
    printed = followed(lambda run: kubeflow.runs.clear(), status=2)
    assert "answers 404" in printed and "may still be going" not in printed


def test_a_token_that_expires_in_mid_wait_is_replaced(kubeflow, followed, monkeypatch):
    """As IAP's do every hour: signing in again gives another."""
    tokens = iter(["first", "second", "third", "fourth"])
    monkeypatch.setattr("kfp.client.auth.get_auth_token", lambda *clients: (kubeflow.token, False))

    def expiring(run) -> None:
        kubeflow.token = next(tokens)  # the one that has just been sent is none now

    kubeflow.token = "of-the-start"
    assert " steps done, 0 found" in followed(each(expiring, Cluster()), "--iap-client-id iap")
    (run,) = kubeflow.runs.values()
    assert run.state == "SUCCEEDED" and kubeflow.token == "second"


def test_a_token_that_stays_refused_is_asked_for_once(kubeflow, followed):
    kubeflow.token = "mine"
    printed = followed(lambda run: setattr(kubeflow, "token", "another"), "--token mine", status=2)
    assert "refuses the credentials (401)" in printed
    asked = [endpoint for _, endpoint in kubeflow.requests[-2:]]
    assert asked == ["get_run", "healthz"], "signed in once more"


def test_a_session_that_ends_in_mid_wait_is_a_line(kubeflow, followed):
    kubeflow.cookie = "session=1"
    printed = followed(lambda run: setattr(kubeflow, "cookie", "session=2"), "--cookie session=1", status=2)
    assert "sends requests on to /oauth2/start, perhaps to sign in" in printed
    assert "may still be going: the same command follows it" in printed


def test_a_server_that_is_away_for_a_while_is_waited_for(kubeflow, followed):
    kubeflow.faults.append(Fault("get_run", 502, times=TIMES))
    assert " steps done, 0 found" in followed(Cluster())


def test_a_server_that_stays_away_is_no_bad_input(kubeflow, followed):
    kubeflow.faults.append(Fault("get_run", 503, times=1000))
    printed = followed(Cluster(), status=1)
    assert "answers 503: " in printed and "upstream connect error" in printed
    assert "may still be going: the same command follows it" in printed


def test_patience_lasts_some_minutes():
    waited, left = 0.0, FOLLOWING_RETRY
    for _ in range(TIMES):
        left = left.increment("GET", "/", response=HTTPResponse(status=503))
        waited += left.get_backoff_time()
    assert 3 * 60 < waited < 10 * 60


def test_the_table_is_shown_also_where_no_mlflow_is_known(followed, monkeypatch):
    """What a run leaves is made up here."""
    monkeypatch.setattr("pipelines.runs.results._metrics", lambda states: {"camvr": {"ndcg_at_10": 0.25}})
    printed = followed(Cluster())
    assert "| camvr" in printed and "Look at it" not in printed


def test_mlflow_s_page_is_the_one_that_opens_here(followed):
    options = "--set kubeflow.mlflow_uri=http://mlflow:5000"
    printed = followed(Cluster(), options)
    assert "Look at it:   --mlflow-ui, or mlflow_ui of the profile, names MLflow's page\n" in printed
    printed = followed(Cluster(), f"{options} --mlflow-ui http://localhost:5000")
    assert "Look at it:   http://localhost:5000\n" in printed and "http://mlflow:5000" not in printed


def test_the_report_is_a_file_here(store, tmp_path):
    """Its address in the bucket opens in no browser."""
    opened = open_store(store)
    attempt = Attempt(opened, names.REPORT, "0123456789abcdef")
    (attempt.path / names.REPORT_PAGE_FILE).write_text("<p>A report")
    record, _ = attempt.publish(step="report", step_version=1, config={}, inputs={})
    outputs = {names.REPORT: Reference.to(opened, record)}
    state = StepState(path="report", step="report", status="done", outputs=outputs)
    console = Console(file=io.StringIO(), color_system=None, width=200)
    results.show_results(console, [state], None)
    assert isinstance(console.file, io.StringIO)
    page = tmp_path / "report-01234567.html"
    assert f"Report:       {page}\n" in console.file.getvalue() and page.read_text() == "<p>A report"
