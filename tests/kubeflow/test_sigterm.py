"""A pod that is told to end: its step's state and its MLflow run are KILLED while it still works in a library."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.store import LocalStore
from multiview.kubeflow.run import open_run
from multiview.kubeflow.sigterm import killed_by_sigterm
from multiview.steps.runs import Run, read_state
from multiview.steps.work import StepReporter, Termination
from tests.fixtures.servers import new_database

STEP = """
import hashlib, json, sys
from pathlib import Path
from kfp.dsl import Dataset
from multiview import tracking
from multiview.kubeflow import component

store, uri, here = sys.argv[1:]

def run_step(step, reporter, config, inputs):
    reporter.begin_attempt("passages/k/attempts/a")
    tracking.ship(reporter.store, "r", uri, only={"split"})
    (Path(here) / "begun").touch()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes, in which Python runs no handler of a signal

component.run_step = run_step
run = json.dumps({"store": store, "run": "r"})
outputs = {name: Dataset(name, f"{here}/{name}") for name in ("passages", "train_questions", "dev_questions", "lost_questions")}
component.execute("split", run, "split", "{}", **outputs)
"""


def wait_for(file: Path, process: subprocess.Popen) -> None:
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.1)


def statuses(client: MlflowClient) -> dict[str, str]:
    runs = client.search_runs(["1"])
    return {run.data.tags.get(names.TAG_PATH, "above"): run.info.status for run in runs}


def test_a_step_that_is_told_to_end_says_so_before_it_is_killed(tmp_path, monkeypatch):
    uri, store = new_database(tmp_path), LocalStore(tmp_path / "store")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run = Run(id="r", pipeline="training", config={}, steps=["split"])
    open_run(store.url, run.model_dump_json(), "aaaa1111")
    script = tmp_path / "step.py"
    script.write_text(STEP)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    step = subprocess.Popen([sys.executable, str(script), store.url, uri, str(tmp_path)], env=environment)
    try:
        wait_for(tmp_path / "begun", step)
        time.sleep(0.5)
        step.send_signal(signal.SIGTERM)
        client, until = MlflowClient(uri), time.monotonic() + 30  # a second where nothing else runs
        while time.monotonic() < until and statuses(client)["split"] != "KILLED":
            time.sleep(0.2)
    finally:
        step.kill()
        step.wait()
    state = read_state(store, "r", "split")
    assert state and (state.status, state.error) == ("killed", "its pod was told to end (SIGTERM)")
    assert statuses(client) == {"split": "KILLED", "above": "RUNNING"}
    assert tracking.find_run(uri, "r").steps["split"].status == "killed"

    # The next start of anything in the store closes what is above.
    open_run(store.url, run.model_copy(update={"id": "other"}).model_dump_json(), "bbbb1111")
    parents = client.search_runs(["1"], f"tags.`{names.TAG_STORE}` LIKE '%'")
    assert {run.data.tags[names.TAG_RUN]: run.info.status for run in parents} == {
        "r": "KILLED",
        "other": "RUNNING",
    }
    assert not store.files(names.KILLED)


@pytest.fixture
def reporter(tmp_path) -> StepReporter:
    return StepReporter(LocalStore(tmp_path / "store"), "r", "split", "split")


def test_python_s_own_code_is_ended_at_once_with_the_status_of_a_killed_process(reporter):
    with pytest.raises(SystemExit) as ended, killed_by_sigterm(reporter, None), reporter.failures():
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)
    assert isinstance(ended.value, Termination) and ended.value.code == 143
    state = read_state(reporter.store, "r", "split")
    assert state and state.status == "killed"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and signal.set_wakeup_fd(-1) == -1


def test_what_a_killed_step_s_end_breaks_is_not_its_error(reporter):
    """As where the processes of a training get the signal too."""
    with pytest.raises(RuntimeError), reporter.failures():
        reporter.fail(Termination())
        raise RuntimeError("a process of the training ended")
    state = read_state(reporter.store, "r", "split")
    assert state and state.status == "killed"


def test_a_worker_that_is_ended_speaks_for_itself(reporter):
    with killed_by_sigterm(reporter, None):
        fork = multiprocessing.get_context("fork")
        begun = fork.Event()
        worker = fork.Process(target=lambda: (begun.set(), time.sleep(60)))
        worker.start()
        assert begun.wait(30)
        worker.terminate()
        worker.join(30)
        assert worker.exitcode == -signal.SIGTERM
    assert read_state(reporter.store, "r", "split") is None


def test_a_step_that_is_done_stays_so(reporter):
    reporter.finish("done", "", {})
    with pytest.raises(Termination), killed_by_sigterm(reporter, None):
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)
    state = read_state(reporter.store, "r", "split")
    assert state and state.status == "done"


def test_sync_closes_the_runs_above_a_step_that_was_killed(tmp_path, monkeypatch):
    uri, store = new_database(tmp_path), LocalStore(tmp_path / "store")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    paths = ["split", "camvr/round-1/train"]
    run = Run(id="r", pipeline="training", config={}, steps=paths, architectures={"camvr": "camvr"})
    open_run(store.url, run.model_dump_json(), "aaaa1111")
    split, train = (StepReporter(store, "r", path, path.rpartition("/")[2]) for path in paths)
    split.finish("done", "", {})
    train.write()
    tracking.ship(store, "r", uri, only=set(paths))
    client = MlflowClient(uri)
    statuses = {run.data.tags.get(names.TAG_PATH): run.info.status for run in client.search_runs(["1"])}
    assert statuses == {"split": "FINISHED", "camvr/round-1/train": "RUNNING", None: "RUNNING"}
    train.fail(Termination())
    tracking.sync(store, uri)
    levels = {(run.data.tags[names.TAG_LEVEL], run.info.status) for run in client.search_runs(["1"])}
    assert levels == {("pipeline", "KILLED"), ("system", "KILLED"), ("step", "KILLED"), ("step", "FINISHED")}
    store.replace(f"{names.KILLED}/r", b"")
    open_run(store.url, run.model_dump_json(), "bbbb1111")
    (parent,) = client.search_runs(["1"], f"tags.`{names.TAG_LEVEL}` = 'pipeline'")
    assert parent.info.status == "RUNNING", "once more"
