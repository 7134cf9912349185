"""Why a run failed, as `submit --wait` says it in one line: by its step's state, its pod's log, or what Argo's nodes tell."""

import re
import time
from datetime import UTC, datetime, timedelta

import kfp_server_api as api
import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.store import LocalStore, open_store
from multiview.steps.runs import Start, StepState, write_start, write_state
from pipelines.kubeflow.connection import Connection
from pipelines.kubeflow.follow import reason, reason_in
from pipelines.kubeflow.run_view import RunView
from tests.fixtures.argo_nodes import NEVER_STARTED
from tests.fixtures.servers import new_database
from tests.pipelines.kubeflow.followed import BEFORE, OPENED, Argo, Cluster, described_of, each

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


def test_a_failing_step_s_line_ends_it_with_status_1(followed):
    printed = followed(Cluster(failing="bm25-negatives", word="FAILED"), status=1)
    assert printed.endswith("error: bm25-negatives: corpus.source: row 3 has no text\n")


def test_the_reason_is_what_failed_first_since_the_run_was_started_again(tmp_path):
    """States of an earlier start stay until their steps begin again."""
    store, begun = LocalStore(tmp_path / "store"), datetime.now(UTC)
    write_start(store, "second", Start(run="training-1"))
    for path, minutes, why in (("train", -60, "no memory"), ("split", 1, "no text"), ("index", 2, "no room")):
        then = (begun + timedelta(minutes=minutes)).timestamp()
        failed = StepState(path=path, step=path, status="failed", started=then, ended=then, error=why)
        write_state(store, "training-1", failed)
    run = api.V2beta1Run(run_id="second", state="FAILED", created_at=begun, state_history=[])
    assert reason(Connection(host="http://nowhere.invalid"), RunView(run), store) == "split: no text"


@pytest.mark.parametrize("reached", [True, False])
def test_a_run_that_was_cancelled_is_said_to_be(kubeflow, followed, store, monkeypatch, tmp_path, reached):
    """Its exit handler does not run: whoever waits closes it in MLflow, or has `multiview sync` do it, since its step may not
    have had a second."""
    uri, cluster = new_database(tmp_path), Cluster()

    def cancelled(run) -> None:
        """As "Terminate" does: CANCELING, and FAILED when the workflow has ended."""
        if not cluster.looks:
            cluster(run)
            return
        described = described_of(run)
        training = StepState(path="split", step="split", status="running", started=time.time())
        write_state(open_store(store), described.id, training)
        tracking.ship(open_store(store), described.id, uri)
        run.state = "FAILED"
        for past in ("CANCELING", run.state):
            run.state_history.append(api.V2beta1RuntimeStatus(update_time=datetime.now(UTC), state=past))

    if reached:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    printed = followed(cancelled, status=1)
    (run,) = kubeflow.runs.values()
    line = f"error: {run.display_name} was cancelled; the same command goes on from what is there\n"
    assert printed.endswith(line) and "failed" not in printed

    def shown() -> set[str]:
        return {found.info.status for found in MlflowClient(uri).search_runs(["1"])}

    opened, described = open_store(store), described_of(run)
    if reached:
        assert shown() == {"KILLED"}
    for address in (
        uri,
        re.sub("/([^/]+)$", r"/./\1", uri),
    ):  # as pods and people may reach one MLflow differently
        tracking.sync(opened, address)
        assert shown() == {"KILLED"}
        assert not opened.files(names.KILLED)
    for path in described.steps:
        write_state(
            opened,
            described.id,
            StepState(path=path, step=path.rsplit("/")[-1], status="done", started=time.time()),
        )
    tracking.sync(opened, uri)
    assert shown() == {"FINISHED"}, "elsewhere"


ENDED = (
    "Argo ended it, as it does where a run is too large for it (docs/cluster.md, Many shards, many systems); kubectl "
    "--namespace kubeflow get workflow training-x7k2p -o jsonpath='{.status.message}' says why"
)
NO_LOG = "failed, and Kubeflow has no log of its pod, which was deleted or could not begin; the run's page has its events"


@pytest.mark.parametrize(
    ("phases", "line"),
    [
        ({**OPENED, "split": "Failed"}, f"split: {NO_LOG}"),
        (
            {**OPENED, "split": NEVER_STARTED},
            "split: never started: the log of its driver knows more, on the page of the run",
        ),
        (
            {**BEFORE, "encode": ["Succeeded", "Failed"], "close-run": "Succeeded"},
            f"camvr/round-1/encode: {NO_LOG}",
        ),
        ({}, f"RUN failed, and no step of it: {ENDED}"),
        (
            {"open-run": "Succeeded", "split": "Running"},
            f"split: {NO_LOG}; or the run was ended over it: {ENDED}",
        ),
    ],
)
def test_a_run_that_fails_without_a_log_is_still_one_line(kubeflow, followed, unreadable, phases, line):
    """As where a pod was deleted, could not be made, or a run ended before it had any."""
    printed = followed(Argo(kubeflow, ("FAILED", phases)), "--set corpus.shards=2", status=1)
    (run,) = kubeflow.runs.values()
    assert printed.endswith(f"error: {line.replace('RUN', run.display_name)}\n")
    begun = [phase for of in phases.values() for phase in ([of] if isinstance(of, str) else of)]
    steps = len(begun) - begun.count(NEVER_STARTED)
    assert len(printed.splitlines()[1:-1]) == steps, "one for each step and shard"


def test_a_driver_of_kubeflow_s_own_that_fails_is_told(kubeflow, followed, unreadable):
    def driver_fails(run) -> None:
        for node in run.run_details.task_details:
            if node.display_name == "root-driver":
                node.state = "FAILED"

    printed = followed(each(Argo(kubeflow, ("FAILED", {})), driver_fails), status=1)
    assert "error: root: never started: the log of its driver knows more" in printed


def failing(kubeflow, phases, key: str, log: str, template: str, retried: bool = True):
    """A run that fails, with the log of the last pod of a task."""
    looks = Argo(kubeflow, ("FAILED", phases), retried=retried)

    def logged(run) -> None:
        name, _, number = looks.workflow.pod(key).rpartition("-")
        kubeflow.logs = {f"{name}-{template}-{number}": log}

    return each(looks, logged)


@pytest.mark.parametrize(
    ("version", "pages", "retried"),
    [("2.17.0", False, True), ("2.16.1", False, False), ("2.17.0", True, True)],
)
def test_the_log_of_the_pod_has_the_line_of_a_step_that_wrote_no_state(
    kubeflow, followed, version, pages, retried
):
    """The server knows the log by its node from 2.17 on, by its pod before, and the pages in their own way."""
    kubeflow.version, kubeflow.pages = version, pages
    failed = {"open-run": "Failed", "close-run": "Failed"}
    run = failing(kubeflow, failed, "open-run", BAD_RATE, "retry-system-container-impl", retried)
    line = "error: open-run: train.learning_rate: input should be greater than 0, not -1\n"
    assert followed(run, status=1).endswith(line)


def test_a_pod_with_labels_or_annotations_is_named_after_how_many_there_are(kubeflow, followed):
    """As `addContainerExecutorTemplate` of KFP names its template."""
    kubeflow.pages = True
    failed = {"open-run": "Failed", "close-run": "Failed"}
    run = failing(kubeflow, failed, "open-run", BAD_RATE, "metadata-0-2-system-container-impl")
    printed = followed(run, "--set 'kubeflow.cpu.labels={team: search, cost-centre: a}'", status=1)
    assert "error: open-run: train.learning_rate: input should be greater than 0" in printed


def test_each_of_several_failed_shards_has_its_own_log(kubeflow, followed):
    phases = {**BEFORE, "encode": ["Failed", "Succeeded"], "close-run": "Succeeded"}
    run = failing(kubeflow, phases, "encode", "error: no\n", "system-container-impl")
    printed = followed(run, "--set corpus.shards=2", status=1)
    assert "camvr/round-1/encode: failed, and Kubeflow has no log of its pod" in printed, "it is the other's"


def test_a_driver_s_log_says_why_a_step_never_started(kubeflow, followed):
    log = "F1126 11:44:55.606574       1 main.go:79] KFP driver: failed to resolve inputs: no artifact"
    phases = {**OPENED, "split": NEVER_STARTED}
    printed = followed(failing(kubeflow, phases, "split-driver", log, "system-container-driver"), status=1)
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
    kubeflow, followed, store, unreadable, tmp_path, monkeypatch
):
    uri = new_database(tmp_path)
    looks = Argo(kubeflow, ("RUNNING", {}), ("FAILED", {**OPENED, "split": "Failed"}))

    def shipped(run) -> None:
        tracking.ship(open_store(store), described_of(run).id, uri)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    printed = followed(each(Cluster(failing="split", word="FAILED"), looks, shipped), status=1)
    assert printed.endswith("error: split: corpus.source: row 3 has no text\n")


def test_a_run_that_kubeflow_ends_is_told_in_its_words(followed):
    def ended(run) -> None:
        run.state, run.error = "FAILED", api.GoogleRpcStatus(code=9, message="exceeded\nits deadline")

    assert followed(ended, status=1).endswith(" failed: exceeded its deadline\n")
