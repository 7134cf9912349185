"""How a run on Kubeflow begins and ends: its first step, its exit handler, and what pods ship themselves."""

import time

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.store import LocalStore
from multiview.config.kubeflow import Notify
from multiview.errors import InputError
from multiview.kubeflow.component import execute
from multiview.kubeflow.run import _mlflow_page, close_run, open_run
from multiview.steps.runs import Run, RunReference, StepState, read_run, read_state, read_states, write_state
from tests.fixtures.servers import new_database


def described(**fields: object) -> str:
    return Run.model_validate(
        {"id": "training-1", "pipeline": "training", "config": {}, **fields}
    ).model_dump_json()


def test_a_run_is_opened_once_and_each_start_on_kubeflow_is_noted(tmp_path, monkeypatch):
    uri = new_database(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    where, store = str(tmp_path / "store"), LocalStore(tmp_path / "store")
    for job in ("aaaa1111-2222", "bbbb1111-2222"):
        context = RunReference.model_validate_json(open_run(where, described(steps=["split"]), job))
        assert context.run == "training-1" and read_run(store, context.run).pipeline == "training"
    (parent,) = MlflowClient(uri).search_runs(["1"])
    assert parent.data.tags[names.TAG_KUBEFLOW_RUNS] == "aaaa1111-2222 bbbb1111-2222"
    assert parent.info.status == "RUNNING"

    scheduled = [
        open_run(where, described(each_time=True), job) for job in ("cccc1111-2222", "dddd1111-2222")
    ]
    assert [RunReference.model_validate_json(c).run for c in scheduled] == [
        "training-1-cccc1111",
        "training-1-dddd1111",
    ]


def test_the_first_and_the_last_step_write_their_errors_where_steps_do(tmp_path, monkeypatch):
    """As without MLflow; the next start that opens the run forgets them."""
    where, store, run = str(tmp_path / "store"), LocalStore(tmp_path / "store"), described(steps=["split"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(InputError, match="does not answer"):
        open_run(where, run, "aaaa1111")
    with pytest.raises(InputError, match="does not answer"):
        close_run(where, run, "aaaa1111", "FAILED", "", Notify())
    for path in ("open-run", "close-run"):
        state = read_state(store, "training-1", path)
        assert (
            state and state.status == "failed" and "MLflow at http://127.0.0.1:9 does not" in str(state.error)
        )

    uri = new_database(tmp_path)
    tracking.sync(store, uri)
    assert tracking.find_run(uri, "training-1").steps["open-run"].status == "failed"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    open_run(where, run, "bbbb1111")
    assert [*read_states(store, "training-1")] == []


def test_a_store_without_its_protocol_is_no_folder_of_a_pod_that_goes_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="store bucket/prefix: .* give gs://bucket/prefix or s3://"):
        open_run("bucket/prefix", described(steps=["split"]), "aaaa")
    with pytest.raises(SystemExit, match="store bucket/prefix: .* give gs://bucket/prefix or s3://"):
        execute("split", "bucket/prefix", "", "corpus.source=passages.parquet")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("status", "closed"), [("done", "FINISHED"), ("failed", "FAILED"), ("running", "FAILED")]
)
def test_the_exit_handler_closes_the_run_and_tells_of_a_failure(
    tmp_path, monkeypatch, receiver, status, closed
):
    """Also of a pod that was killed without a word."""
    uri = new_database(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    where, store, run = str(tmp_path / "store"), LocalStore(tmp_path / "store"), described(steps=["split"])
    open_run(where, run, "aaaa")
    error = "no such file" if status == "failed" else None
    state = StepState(path="split", step="split", status=status, started=time.time(), error=error)
    write_state(store, "training-1", state)
    close_run(where, run, "aaaa", "FAILED", "inner task failed", Notify(url=receiver.url))
    (parent,) = MlflowClient(uri).search_runs(["1"], f"tags.`{names.TAG_STORE}` LIKE '%'")
    assert parent.info.status == closed and len(receiver.messages) == (closed == "FAILED")
    for notice in receiver.messages:
        assert notice["failed"] == ([{"step": "split", "error": "no such file"}] if error else [])
        assert notice["unfinished"] == ([] if error else ["split"])
        assert (notice["run"], notice["kubeflow_run"], notice["mlflow"]) == ("training-1", "aaaa", uri)
        line = f"split: {error or 'ended without a word'}"
        assert notice["text"] == f"training-1 failed on Kubeflow\n{line}", "without a page of MLflow's"


def test_a_notice_has_a_text_with_links_that_chats_take(tmp_path, monkeypatch, receiver):
    uri = new_database(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    notify = {"kubeflow": "https://kubeflow.example.org/pipeline/"}
    where, store = str(tmp_path / "store"), LocalStore(tmp_path / "store")
    run = described(steps=["split", "mine"], config={"notify": notify})
    open_run(where, run, "aaaa")
    for number in range(4):
        state = StepState(
            path=f"encode/shard-0{number}",
            step="encode",
            status="failed",
            started=time.time(),
            error="<b> & co\nx" * 99,
        )
        write_state(store, "training-1", state)
    close_run(where, run, "aaaa", "FAILED", "", Notify(url=receiver.url))
    lines = receiver.messages[0]["text"].splitlines()
    assert lines[0] == "training-1 failed on Kubeflow" and lines[4:] == [
        "and 1 more",
        "Kubeflow: https://kubeflow.example.org/pipeline/#/runs/details/aaaa",
    ]
    assert lines[1].startswith("encode/shard-00: &lt;b&gt; &amp; co x") and lines[1].endswith("…")


def test_steps_know_the_page_of_their_run_on_kubeflow(tmp_path):
    pages = {"notify": {"kubeflow": "https://kubeflow.example.org/pipeline/"}}
    for config, page in ((pages, "https://kubeflow.example.org/pipeline/#/runs/details/aaaa"), ({}, None)):
        opened = open_run(str(tmp_path / "store"), described(config=config), "aaaa")
        assert RunReference.model_validate_json(opened).pages.kubeflow == page


def test_a_notice_has_no_link_into_the_cluster(tmp_path):
    """Pods may reach MLflow by an address that no browser does."""
    for uri, linked in (("http://mlflow.mlflow.svc:5000", False), ("https://mlflow.example.org", True)):
        assert (_mlflow_page(uri, "0123") is not None) == linked


@pytest.mark.parametrize("status", ["done", "found", "failed", "running", None])
def test_a_run_has_succeeded_when_all_its_steps_have_whatever_kubeflow_says(
    tmp_path, monkeypatch, receiver, status
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store, run = LocalStore(tmp_path), described(steps=["split", "bm25-negatives"])
    for path, word in (("split", "done"), ("bm25-negatives", status)):
        if word:
            state = {"path": path, "step": path, "status": word, "started": time.time()}
            write_state(store, "training-1", StepState.model_validate(state))
    words = ["SUCCEEDED", "COMPLETE", "RUNNING", "FAILED"]
    for word in words:  # each in a start of its own
        open_run(str(tmp_path), run, word)
        close_run(str(tmp_path), run, word, word, "", Notify(url=receiver.url))
    told = [] if status in ("done", "found") else words
    assert [notice["status"] for notice in receiver.messages] == told


@pytest.mark.parametrize("opened", [True, False])
def test_what_an_earlier_start_did_is_no_success_of_this_one(tmp_path, monkeypatch, receiver, opened):
    """Nor of one whose first pod was lost before it opened the run."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run, before = described(steps=["split"]), time.time() - 3600
    open_run(str(tmp_path), run, "aaaa")
    if opened:
        open_run(str(tmp_path), run, "bbbb")
    state = StepState(path="split", step="split", status="done", started=before)
    write_state(LocalStore(tmp_path), "training-1", state)
    close_run(str(tmp_path), run, "bbbb", "FAILED", "", Notify(url=receiver.url))
    assert [(n["status"], n["failed"], n["unfinished"]) for n in receiver.messages] == [("FAILED", [], [])]


def test_a_failure_is_posted_where_mlflow_or_the_run_itself_is_missing(tmp_path, monkeypatch, receiver):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_database(tmp_path))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    where, run = str(tmp_path / "store"), described(steps=["split"])

    def close(job: str, line: str) -> None:
        with pytest.raises(InputError, match=line):
            close_run(where, run, job, "FAILED", "why", Notify(url=receiver.url))

    close("aaaa", "has no run")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    open_run(where, run, "bbbb")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    close("bbbb", "MLflow at http")
    assert [notice["message"] for notice in receiver.messages] == ["why", "why"]
    close("bbbb", "MLflow at http")  # as Kubeflow tries the exit handler again
    assert len(receiver.messages) == 2
