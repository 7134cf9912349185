"""`submit --wait`: the run is followed to its end, by the store's states or by KFP's tasks."""

import io
import json
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import kfp_server_api as api
import pytest
from mlflow import MlflowClient
from urllib3 import HTTPResponse

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import open_store
from multiview.cli.console import Console
from multiview.kubeflow.run import open_run
from multiview.steps.events import Progress, progress_path
from multiview.steps.runs import Run, StepState, write_state
from pipelines.kubeflow import follow
from pipelines.kubeflow.client import FOLLOWING_RETRY
from pipelines.kubeflow.follow import reason_in, waits_for
from pipelines.runs import results
from tests.fixtures.argo_nodes import NEVER_STARTED, Phases, Workflow
from tests.fixtures.kubeflow_server import Fault
from tests.fixtures.servers import new_database

SUBMIT = "submit training --preset small.yaml --wait"
TIMES = int(FOLLOWING_RETRY.total or 0)
"""That a server which is away is asked again."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(follow, "FOLLOWING_RETRY", FOLLOWING_RETRY.new(backoff_factor=0))
    # Its steps have only said that they are done: there is no evaluation to show a question of.
    monkeypatch.setattr("pipelines.runs.results._show_example", lambda console, evaluation: None)


@pytest.fixture
def store(bucket, tmp_path) -> str:
    return f"{bucket}/{tmp_path.name}"


class Cluster:
    """What becomes of a run: at its first look it is opened, at the next its steps are done or fail."""

    def __init__(self, failing: str | None = None, word: str = "SUCCEEDED"):
        self.failing, self.word = failing, word
        self.looks: list[str] = []

    def __call__(self, run) -> None:
        self.looks.append(run.run_id)
        given = run.runtime_config.parameters
        described = Run.model_validate_json(given["described"])
        if len(self.looks) == 1:
            run.state = "RUNNING"
            open_run(given["store"], given["described"], run.run_id)
        elif run.state == "RUNNING":
            store = open_store(given["store"])
            for path in described.steps:
                failed = path == self.failing
                state = StepState(
                    path=path,
                    step=path.rsplit("/", 1)[-1],
                    status="failed" if failed else "done",
                    started=time.time(),
                    ended=time.time(),
                    error="corpus.source: row 3 has no text" if failed else None,
                )
                write_state(store, described.id, state)
                if failed:
                    break
            run.state = self.word


def test_a_run_is_followed_to_its_end(kubeflow, command, store):
    kubeflow.on_run = Cluster()
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}")
    (run,) = kubeflow.runs.values()
    steps = Run.model_validate_json(run.runtime_config.parameters["described"]).steps
    assert all(step in printed for step in steps), "a line for each step"
    assert f"{run.display_name}: {len(steps)} steps done, 0 found" in printed


def test_a_failing_step_s_line_ends_it_with_status_1(kubeflow, command, store):
    kubeflow.on_run = Cluster(failing="bm25-negatives", word="FAILED")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("error: bm25-negatives: corpus.source: row 3 has no text\n")


def cancel(run, state: str = "FAILED") -> None:
    """As "Terminate" does: CANCELING, and FAILED when the workflow has ended."""
    run.state = state
    for past in ("CANCELING", state):
        run.state_history.append(api.V2beta1RuntimeStatus(update_time=datetime.now(UTC), state=past))


def test_a_run_that_was_cancelled_is_said_to_be(kubeflow, command, store, monkeypatch, tmp_path):
    """Its exit handler does not run: whoever waits closes it in MLflow, where its step may not have had a second."""
    uri, cluster = new_database(tmp_path), Cluster()

    def on_run(run) -> None:
        if cluster.looks:
            (described,) = (Run.model_validate_json(run.runtime_config.parameters["described"]),)
            training = StepState(path="split", step="split", status="running", started=time.time())
            write_state(open_store(store), described.id, training)
            tracking.ship(open_store(store), described.id, uri)
            cancel(run)
        else:
            cluster(run)

    kubeflow.on_run = on_run
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    (run,) = kubeflow.runs.values()
    assert printed.endswith(
        f"error: {run.display_name} was cancelled; the same command goes on from what is there\n"
    )
    assert "failed" not in printed
    assert {each.info.status for each in MlflowClient(uri).search_runs(["1"])} == {"KILLED"}


class Argo:
    """What becomes of a run by Argo's nodes alone: at each look the next phases of its tasks, with their end."""

    def __init__(self, kubeflow, *looks: tuple[str, Phases]):
        self.kubeflow, self.looks = kubeflow, list(looks)

    def __call__(self, run) -> None:
        version = self.kubeflow.versions[run.pipeline_version_reference.pipeline_version_id]
        run.state, phases = self.looks.pop(0)
        run.run_details = Workflow(version.pipeline_spec).details(phases)


@pytest.fixture
def unreadable(monkeypatch) -> None:
    monkeypatch.setattr(follow, "readable", lambda store: None)


OPENED = {"open-run": "Succeeded", "close-run": "Succeeded"}
BEFORE = {
    **dict.fromkeys(("split", "bm25-negatives", "initial-model", "train"), "Succeeded"),
    "open-run": "Succeeded",
}
"""Everything before the first round's encoding."""


def test_where_the_store_cannot_be_read_kfp_s_nodes_are_told_as_steps(kubeflow, command, store, unreadable):
    encoding = {**BEFORE, "encode": ["Succeeded", "Running"]}
    kubeflow.on_run = Argo(
        kubeflow,
        ("RUNNING", {}),
        ("RUNNING", {"open-run": "Running"}),
        ("RUNNING", {"open-run": "Succeeded", "split": "Running"}),
        ("RUNNING", encoding),
        ("SUCCEEDED", {**encoding, "encode": ["Succeeded", "Succeeded"]}),
    )
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store} --set corpus.shards=2").splitlines()
    assert printed[1:-2] == [
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


ENDED = (
    "Argo ended it, as it does where a run is too large for it (docs/cluster.md, Many shards, many systems); kubectl "
    "--namespace kubeflow get workflow training-x7k2p -o jsonpath='{.status.message}' says why"
)
NO_LOG = "failed, and Kubeflow has no log of its pod, which was deleted or could not begin; the run's page has its events"


@pytest.mark.parametrize(
    ("phases", "line"),
    [
        (
            {**OPENED, "split": "Failed"},
            f"split: {NO_LOG}",
        ),
        (
            {**OPENED, "split": NEVER_STARTED},
            "split: never started: the log of its driver knows more, on the page of the run",
        ),
        (
            {**BEFORE, "encode": ["Succeeded", "Failed"], "close-run": "Succeeded"},
            f"camvr/round-1/encode: {NO_LOG}",
        ),
        (
            {"open-run": "Failed", "close-run": "Failed"},
            f"open-run: {NO_LOG}",
        ),
        ({}, f"RUN failed, and no step of it: {ENDED}"),
        (
            {"open-run": "Succeeded", "split": "Running"},
            f"split: {NO_LOG}; or the run was ended over it: {ENDED}",
        ),
    ],
)
def test_a_run_that_fails_without_a_log_is_still_one_line(kubeflow, command, store, unreadable, phases, line):
    """As where a pod was deleted, could not be made, or a run ended before it had any."""
    kubeflow.on_run = Argo(kubeflow, ("FAILED", phases))
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store} --set corpus.shards=2", status=1)
    (run,) = kubeflow.runs.values()
    assert printed.endswith(f"error: {line.replace('RUN', run.display_name)}\n")
    lines = printed.splitlines()[1:-1]
    assert len(lines) == sum(1 if isinstance(phase, str) else len(phase) for phase in phases.values()) - (
        NEVER_STARTED in phases.values()
    ), "one for each step and shard"


def test_a_driver_of_kubeflow_s_own_that_fails_is_told(kubeflow, command, store, unreadable):
    def on_run(run) -> None:
        run.state = "FAILED"
        run.run_details = Workflow(
            kubeflow.versions[run.pipeline_version_reference.pipeline_version_id].pipeline_spec
        ).details({})
        for node in run.run_details.task_details or []:
            if node.display_name == "root-driver":
                node.state = "FAILED"

    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert "error: root: never started: the log of its driver knows more" in printed


def fail_with(kubeflow, phases: Phases, key: str, log: str, template: str, retried: bool = True) -> None:
    """A run that fails, with the log of the last pod of a task."""

    def on_run(run) -> None:
        version = kubeflow.versions[run.pipeline_version_reference.pipeline_version_id]
        workflow = Workflow(version.pipeline_spec, retried=retried)
        run.state, run.run_details = "FAILED", workflow.details(phases)
        name, _, number = workflow.pod(key).rpartition("-")
        kubeflow.logs = {f"{name}-{template}-{number}": log}

    kubeflow.on_run = on_run


BAD_RATE = """\
        "outputFile": "/minio/mlpipeline/v2/artifacts/training/open-run/output_metadata.json"
    }
}
[KFP Executor 2026-11-26 11:44:54,054 INFO]: Found endpoint for s3 via: environment_global.
error: train.learning_rate: input should be greater than 0, not -1
E1126 11:44:55.547366   17741 launcher_v2.go:449] Component failed to execute successfully: exit status 1
F1126 11:44:55.606574   17741 main.go:59] failed to execute component: exit status 1
"""
"""As recorded of a real run."""


@pytest.mark.parametrize(("version", "pages", "retried"), [
    ("2.17.0", False, True), ("2.16.1", False, False), ("2.14.0", False, False), ("2.17.0", True, True),
])  # fmt: skip
def test_the_log_of_the_pod_has_the_line_of_a_step_that_wrote_no_state(
    kubeflow, command, store, version, pages, retried
):
    """The server knows the log by its node from 2.17 on, by its pod before, and the pages in their own way."""
    kubeflow.version, kubeflow.pages = version, pages
    failed = {"open-run": "Failed", "close-run": "Failed"}
    fail_with(kubeflow, failed, "open-run", BAD_RATE, "retry-system-container-impl", retried)
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("error: open-run: train.learning_rate: input should be greater than 0, not -1\n")


@pytest.mark.parametrize(("version", "pages"), [("2.17.0", True), ("2.16.1", False)])
def test_a_pod_with_labels_or_annotations_is_named_after_how_many_there_are(
    kubeflow, command, store, version, pages
):
    """As `addContainerExecutorTemplate` of KFP names its template."""
    kubeflow.version, kubeflow.pages = version, pages
    failed = {"open-run": "Failed", "close-run": "Failed"}
    fail_with(kubeflow, failed, "open-run", BAD_RATE, "metadata-0-2-system-container-impl")
    labels = "--set 'kubeflow.cpu.labels={team: search, cost-centre: a}'"
    printed = command(f"{SUBMIT} {labels} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("error: open-run: train.learning_rate: input should be greater than 0, not -1\n")


def test_each_of_several_failed_shards_has_its_own_log(kubeflow, command, store):
    phases = {**BEFORE, "encode": ["Failed", "Succeeded"], "close-run": "Succeeded"}
    fail_with(kubeflow, phases, "encode", "error: no\n", "system-container-impl")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store} --set corpus.shards=2", status=1)
    assert "camvr/round-1/encode: failed, and Kubeflow has no log of its pod" in printed, "it is the other's"


@pytest.mark.parametrize("pages", [False, True])
def test_a_driver_s_log_says_why_a_step_never_started(kubeflow, command, store, pages):
    kubeflow.pages = pages
    log = "F1126 11:44:55.606574       1 main.go:79] KFP driver: failed to resolve inputs: no artifact"
    fail_with(kubeflow, {**OPENED, "split": NEVER_STARTED}, "split-driver", log, "system-container-driver")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("split: never started: KFP driver: failed to resolve inputs: no artifact\n")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("error: first\nerror: second\n  at its end\n", "second"),
        ('I1126 11:44:55.5   1 x.go:1] {\n  "a": 1\n}\none\ntwo\n\nthree\nfour\nF1126 11:44:55.6 1 main.go:59] x\n', "two / three / four"),
        (
            "50 of 200 steps\nE1126 11:44:55.547366 1 launcher_v2.go:449] Component failed: signal: killed\n",
            "killed, as where memory runs out; its last lines: 50 of 200 steps",
        ),
        ("F1126 11:44:55.606574   17741 main.go:59] failed to execute component: exit status 1\n", "failed to execute component: exit status 1"),
        ("", None),
    ],
)  # fmt: skip
def test_the_reason_is_the_last_error_line_else_the_step_s_last_lines(log, said):
    assert reason_in(log) == said


def test_mlflow_has_a_step_s_own_line_where_the_store_cannot_be_read(
    kubeflow, command, store, unreadable, tmp_path, monkeypatch
):
    uri, cluster = new_database(tmp_path), Cluster(failing="split", word="FAILED")
    looks = Argo(kubeflow, ("RUNNING", {}), ("FAILED", {**OPENED, "split": "Failed"}))

    def on_run(run) -> None:
        cluster(run)
        looks(run)
        described = Run.model_validate_json(run.runtime_config.parameters["described"])
        tracking.ship(open_store(store), described.id, uri)

    kubeflow.on_run = on_run
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("error: split: corpus.source: row 3 has no text\n")


def test_a_run_that_kubeflow_ends_is_told_in_its_words(kubeflow, command, store):
    def on_run(run) -> None:
        run.state, run.error = "FAILED", api.GoogleRpcStatus(code=9, message="exceeded\nits deadline")

    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith(" failed: exceeded its deadline\n")


def old(run, state: str, hours: float = 3) -> None:
    """As a run whose workflow is gone: Kubeflow says of it what it said hours ago."""
    run.state, run.created_at = state, datetime.now(UTC) - timedelta(hours=hours)
    for past in run.state_history:
        past.update_time = run.created_at


@pytest.mark.parametrize("state", ["RUNNING", "CANCELING"])
def test_a_run_whose_workflow_is_gone_is_not_waited_for(kubeflow, command, store, state):
    kubeflow.on_run = lambda run: old(run, state)
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert (
        "nothing has been heard of it since" in printed and "its workflow is gone; --again starts" in printed
    )


def test_a_step_that_says_that_it_works_is_waited_for(kubeflow, command, store):
    """However long ago Kubeflow has seen anything change."""
    cluster = Cluster()

    def on_run(run) -> None:
        cluster(run)
        if run.state == "RUNNING":
            old(run, "RUNNING")
            attempt, began = "passages/k/attempts/a", run.created_at.timestamp()
            running = StepState(path="split", step="split", status="running", attempt=attempt, started=began)
            write_state(open_store(store), run.display_name, running)
            progress = Progress(0, 0, "", "working for 3:00:00", time.time())
            open_store(store).replace(progress_path(attempt), json.dumps(asdict(progress)).encode())

    kubeflow.on_run = on_run
    assert " steps done, 0 found" in command(f"{SUBMIT} --host {kubeflow.url} --store {store}")


@pytest.mark.parametrize(
    ("phase", "why"), [("Pending", "a pod of it waits for a node"), ("Running", "a step of it is long")]
)
def test_what_may_still_be_going_is_said_once_and_waited_for(
    kubeflow, command, store, unreadable, monkeypatch, phase, why
):  # fmt: skip
    monkeypatch.setattr(follow, "SILENCE_POLL_SECONDS", 0.0)
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": phase})] * 3, ("SUCCEEDED", OPENED))

    def on_run(run) -> None:
        looks(run)
        old(run, run.state)

    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}")
    assert printed.count("nothing has been heard of it since") == 1 and why in printed


@pytest.mark.parametrize(
    ("hours", "why", "status"), [(83, "a step of it is long, or", 0), (85, "UTC: its workflow is gone", 1)]
)
def test_a_step_may_be_silent_for_as_long_as_its_pod_may_wait_and_run(
    kubeflow, command, store, unreadable, hours, why, status
):
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": "Running"})] * 3, ("SUCCEEDED", OPENED))

    def on_run(run) -> None:
        looks(run)
        old(run, run.state, hours)

    kubeflow.on_run = on_run
    words = f"{SUBMIT} --set kubeflow.steps.train.timeout_hours=72"
    assert why in command(f"{words} --host {kubeflow.url} --store {store}", status=status)


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
def test_what_a_pod_waits_for_is_said_once(
    kubeflow, command, store, unreadable, monkeypatch, kubernetes, way
):
    monkeypatch.setattr(follow, "SILENCE_POLL_SECONDS", 0.0)
    looks = Argo(kubeflow, *[("RUNNING", {"open-run": "Pending"})] * 3, ("SUCCEEDED", OPENED))

    def on_run(run) -> None:
        looks(run)
        nodes = [node for node in run.run_details.task_details if node.display_name == "executor"]
        workflow, _, number = nodes[0].child_tasks[-1].pod_name.rpartition("-")
        kubeflow.pods = {f"{workflow}-system-container-impl-{number}": {"conditions": [FULL]}}

    kubeflow.on_run, kubeflow.pages = on_run, way == "pages"
    options = "--kube-context training-cluster"
    if kubeflow.pages:
        kubeflow.below, options = "", f"--host {kubeflow.url} --token {kubeflow.token}"
    printed = command(f"{SUBMIT} {options} --store {store}")
    assert printed.count("\nwarning: open-run waits: Unschedulable: 0/3 nodes are free\n") == 1


def test_nothing_waits_for_days(kubeflow, command, store, unreadable):
    pending = Argo(kubeflow, ("RUNNING", {"open-run": "Pending"}))

    def on_run(run) -> None:
        pending(run)
        old(run, "RUNNING", hours=48)
        for node in run.run_details.task_details:
            node.state_history = []

    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert "its workflow is gone; --again starts another run beside it" in printed


def test_a_run_that_is_gone_is_one_line(kubeflow, command, store):
    def on_run(run) -> None:
        kubeflow.runs.clear()

    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=2)
    assert "answers 404" in printed


def test_a_token_that_expires_in_mid_wait_is_replaced(kubeflow, command, store, tmp_path, monkeypatch):
    """As IAP's do every hour: signing in again gives another."""
    tokens = iter(["first", "second", "third", "fourth"])
    monkeypatch.setattr("kfp.client.auth.get_auth_token", lambda *clients: (kubeflow.token, False))
    cluster = Cluster()

    def on_run(run) -> None:
        kubeflow.token = next(tokens)  # the one that has just been sent is none now
        cluster(run)

    kubeflow.token, kubeflow.on_run = "of-the-start", on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --iap-client-id iap --store {store}")
    (run,) = kubeflow.runs.values()
    assert " steps done, 0 found" in printed and run.state == "SUCCEEDED"
    assert kubeflow.token == "second"


def test_a_token_that_stays_refused_is_asked_for_once(kubeflow, command, store):
    def on_run(run) -> None:
        kubeflow.token = "another"

    kubeflow.token, kubeflow.on_run = "mine", on_run
    printed = command(f"{SUBMIT} --host {kubeflow.url} --token mine --store {store}", status=2)
    assert "refuses the credentials (401)" in printed
    assert [endpoint for _, endpoint in kubeflow.requests[-2:]] == ["get_run", "healthz"], (
        "signed in once more"
    )


@pytest.mark.parametrize("status", [502, 503])
def test_a_server_that_is_away_for_a_while_is_waited_for(kubeflow, command, store, status):
    kubeflow.on_run = Cluster()
    kubeflow.faults.append(Fault("get_run", status, times=TIMES))
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}")
    assert " steps done, 0 found" in printed


def test_a_server_that_stays_away_is_no_bad_input(kubeflow, command, store):
    kubeflow.faults.append(Fault("get_run", 503, times=1000))
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert "answers 503: " in printed and "upstream connect error" in printed
    assert "may still be going: the same command follows it" in printed


def test_patience_lasts_some_minutes():
    waited, left = 0.0, FOLLOWING_RETRY
    for _ in range(TIMES):
        left = left.increment("GET", "/", response=HTTPResponse(status=503))
        waited += left.get_backoff_time()
    assert 3 * 60 < waited < 10 * 60


def test_the_table_is_shown_also_where_no_mlflow_is_known(kubeflow, command, store, monkeypatch):
    """What a run leaves is made up here."""
    monkeypatch.setattr("pipelines.runs.results._metrics", lambda states: {"camvr": {"ndcg_at_10": 0.25}})
    kubeflow.on_run = Cluster()
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}")
    assert "| camvr" in printed and "Look at it" not in printed


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


def test_mlflow_s_page_is_the_one_that_opens_here(kubeflow, command, store):
    line = f"{SUBMIT} --host {kubeflow.url} --store {store} --set kubeflow.mlflow_uri=http://mlflow:5000"
    kubeflow.on_run = Cluster()
    assert "Look at it:   --mlflow-ui, or mlflow_ui of the profile, names MLflow's page\n" in command(line)
    kubeflow.on_run = Cluster()
    printed = command(f"{line} --mlflow-ui http://localhost:5000")
    assert "Look at it:   http://localhost:5000\n" in printed and "http://mlflow:5000" not in printed
