"""`submit --wait`: the run is followed to its end, by the store's states or by KFP's tasks."""

import time

import kfp_server_api as api
import pytest
from urllib3 import HTTPResponse

from multiview import tracking
from multiview.artifacts.store import open_store
from multiview.kubeflow.run import open_run
from multiview.steps.runs import Run, StepState, write_state
from pipelines.kubeflow import follow
from pipelines.kubeflow.client import FOLLOWING_RETRY
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


def test_a_run_that_was_cancelled_ends_it_too(kubeflow, command, store):
    kubeflow.on_run = Cluster(word="CANCELED")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.rstrip().endswith("was cancelled")


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
    monkeypatch.setattr(follow, "_readable", lambda store: False)


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


@pytest.mark.parametrize(
    ("phases", "line"),
    [
        (
            {**OPENED, "split": "Failed"},
            "split: failed without a word; its pod's log knows more",
        ),
        (
            {**OPENED, "split": NEVER_STARTED},
            "split: never started; the log of its pod split-driver knows more",
        ),
        (
            {**BEFORE, "encode": ["Succeeded", "Failed"], "close-run": "Succeeded"},
            "camvr/round-1/encode: failed without a word; its pod's log knows more",
        ),
        (
            {"open-run": "Failed", "close-run": "Failed"},
            "open-run: failed without a word; its pod's log knows more",
        ),
        ({}, "RUN failed: its page knows more"),
    ],
)
def test_a_run_that_fails_without_a_word_is_still_one_line(
    kubeflow, command, store, unreadable, phases, line
):
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
    assert printed.endswith("error: root: never started; the log of its pod root-driver knows more\n")


def test_a_pod_that_was_killed_is_told_where_the_store_has_no_error(kubeflow, command, store):
    kubeflow.on_run = Argo(kubeflow, ("FAILED", {**OPENED, "split": "Failed"}))
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store}", status=1)
    assert printed.endswith("error: split: failed without a word; its pod's log knows more\n")


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
    assert "answers 503: upstream connect error" in printed
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
    kubeflow.on_run = Cluster()
    printed = command(
        f"{SUBMIT} --host {kubeflow.url} --store {store} --set kubeflow.mlflow_uri=http://mlflow:5000"
    )
    assert "| camvr" in printed and "Look at it:   http://mlflow:5000\n" in printed
