"""A TrainJob from the step that it trains for to its end, against a Kubernetes API server that runs its pods as
processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from urllib3.util import Retry

from multiview import environment
from multiview.artifacts.store import LocalStore
from multiview.config import Config, JsonObject
from multiview.config.kubeflow import MULTI_NODE_STEPS
from multiview.errors import InputError, ProcessFailed
from multiview.kubeflow.run import open_run
from multiview.steps.backends import trainjob
from multiview.steps.backends.trainjob import (
    TrainJobs,
    check_trainer,
    run_train_job,
    template_here,
    train_job,
)
from multiview.steps.events import Progress, progress_path
from multiview.steps.runs import Run, StepState, read_start, read_state, write_state
from multiview.steps.table import STEPS
from multiview.steps.work import StepReporter, Work
from tests.fixtures.cluster import Cluster
from tests.fixtures.cluster_api import SCHEMA
from tests.fixtures.training_jobs import STATE, STEP, template

DESCRIBED = Run(id="training-1", pipeline="training", config={}, steps=["split"]).model_dump_json()
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "train-2", "uid": "uid-2", "blockOwnerDeletion": False}

Clusters = Callable[..., Cluster]


def job_here(state: StepState = STATE, store: str = STEP[0], workflow: str = "training-w") -> JsonObject:
    return train_job(store, STEP[1], state, template(), workflow)


def until(cluster: Cluster, true: Callable[[], Any]) -> None:
    with cluster.changed:
        assert cluster.changed.wait_for(true, timeout=60)


def waiting(file: Path) -> str:
    """A pod's code that ends once a file is there."""
    return f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.05)"


def test_a_job_names_its_step_and_belongs_to_the_pod_of_its_step() -> None:
    job = job_here()
    jsonschema.validate(job, SCHEMA)
    assert job["spec"]["trainer"]["args"] == [STEP[0], STEP[1], STATE.path]
    assert job["metadata"]["ownerReferences"] == [OWNER], "with which Kubernetes deletes it"


def test_processes_of_a_node_are_as_set() -> None:
    set_ = STATE.model_copy(update={"config": {"train": {"processes": 3}}})
    assert train_job(*STEP[:2], set_, template(gpus=4), "w")["spec"]["trainer"]["numProcPerNode"] == 3
    assert train_job(*STEP, template(gpus=4), "w")["spec"]["trainer"]["numProcPerNode"] == 4
    assert train_job(*STEP, template(), "w")["spec"]["trainer"]["numProcPerNode"] == 1


def test_a_name_stands_for_one_step_of_one_workflow() -> None:
    changes = ({"key": "1" * 32}, {"path": "mvr/round-1/train"})
    jobs = [job_here(STATE.model_copy(update=change)) for change in changes]
    others = [job_here(store="gs://b"), job_here(workflow="another")]
    names = {job["metadata"]["name"] for job in [job_here(), *jobs, *others]}
    assert len(names) == 5


def test_several_nodes_are_for_training_alone() -> None:
    assert {name for name, step in STEPS.items() if step.multi_node} == set(MULTI_NODE_STEPS)


def test_a_step_trains_itself_without_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    assert template_here() is None
    monkeypatch.setenv(environment.NODES, json.dumps(template()))
    assert template_here() == template()


def test_a_job_is_followed_to_its_end_and_deleted(cluster: Clusters) -> None:
    here = cluster()
    run_train_job(*STEP, template())
    until(here, lambda: not here.jobs)
    assert [job["metadata"]["name"] for job in here.created] == [job_here()["metadata"]["name"]]


def test_the_pods_have_the_secrets_that_are_named(cluster: Clusters, tmp_path: Path) -> None:
    token = tmp_path / "token"
    here = cluster(f"import os; open({str(token)!r}, 'w').write(os.environ['HF_TOKEN'])")
    here.secrets = {"hub": {"token": "hf_1"}}
    run_train_job(*STEP, template(secrets={"hub": {"token": "HF_TOKEN"}}))
    assert token.read_text() == "hf_1"


def test_the_line_of_the_pod_that_failed_first_is_reported(cluster: Clusters, tmp_path: Path) -> None:
    """Rank 0 fails in the wake of rank 1, once that one's process is gone."""
    here = cluster(f"""
import os, pathlib, sys, time
rank, log = os.environ["PET_NODE_RANK"], pathlib.Path(os.environ["MULTIVIEW_TERMINATION_LOG"])
pid = pathlib.Path({str(tmp_path)!r}) / "pid"
if rank == "1":
    pid.with_suffix(".part").write_text(str(os.getpid()))
    pid.with_suffix(".part").rename(pid)
while rank == "0" and not (pid.exists() and not os.path.exists("/proc/" + pid.read_text())):
    time.sleep(0.05)
log.write_text(f"node {{rank}}: broken")
sys.exit(1)
""")
    with pytest.raises(ProcessFailed, match=r"^pod train-\w+-node-0-1-abcde: node 1: broken$"):
        run_train_job(*STEP, template())
    until(here, lambda: not here.jobs)


def test_bad_input_of_a_pod_keeps_its_line(cluster: Clusters) -> None:
    cluster("""
import os, pathlib, sys
rank, log = os.environ["PET_NODE_RANK"], pathlib.Path(os.environ["MULTIVIEW_TERMINATION_LOG"])
log.write_text("connection closed" if rank == "0" else "train.positive: answer does not suit")
sys.exit(1 if rank == "0" else 2)
""")
    with pytest.raises(InputError, match=r"^train\.positive: answer does not suit$"):
        run_train_job(*STEP, template())


def test_a_pod_without_a_message_is_reported_by_how_it_ended(cluster: Clusters) -> None:
    cluster("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ProcessFailed, match=r"abcde: OOMKilled \(exit status 137\)$"):
        run_train_job(*STEP, template())


def start(here: Cluster, tmp_path: Path) -> subprocess.Popen[bytes]:
    """A step's pod, once its job is there."""
    command = [sys.executable, "-m", "tests.steps.backends.starter"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [STATE.model_dump_json(), json.dumps(template()), str(tmp_path / "namespace")]
    starter = subprocess.Popen([*command, *words], env=environment)
    until(here, lambda: here.processes)
    return starter


def test_a_retry_replaces_the_job_that_a_killed_step_left(cluster: Clusters, tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "go"))
    starter = start(here, tmp_path)
    (pods,) = here.processes.values()
    starter.kill()
    starter.wait()
    assert here.jobs
    (tmp_path / "go").touch()
    run_train_job(*STEP, template())
    assert len(here.created) == 2 and all(pod.poll() is not None for pod in pods)
    until(here, lambda: not here.jobs)


def test_a_step_that_is_ended_takes_its_job_along(cluster: Clusters, tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "never"))
    starter = start(here, tmp_path)
    (pods,) = here.processes.values()
    starter.send_signal(signal.SIGTERM)
    assert starter.wait(60)
    until(here, lambda: not here.jobs)
    assert all(pod.poll() is not None for pod in pods)


@pytest.mark.parametrize(
    ("error", "said"),
    [(None, "left no model"), (ProcessFailed("pod node-0: no memory"), "pod node-0: no memory")],
)
def test_its_pod_says_what_the_first_pod_says_and_its_state_keeps_that_one_s_attempt(
    tmp_path, monkeypatch, error, said
):
    monkeypatch.setattr(trainjob, "LINE_SECONDS", 0.05)
    store, lines = LocalStore(tmp_path / "store"), []
    reporter = StepReporter(store, "r", STATE.path, "train")
    reporter.log = lines.append

    def train(*job: Any) -> None:
        """As the first pod does."""
        time.sleep(0.2)
        write_state(store, "r", STATE.model_copy(update={"attempt": "model/k/attempts/1"}))
        told = Progress(10, 40, "steps", line="10/40 steps, loss 0.5")
        store.replace(progress_path("model/k/attempts/1"), json.dumps(asdict(told)).encode())
        time.sleep(0.2)
        if error:
            raise error

    monkeypatch.setattr(trainjob, "run_train_job", train)
    with pytest.raises(ProcessFailed, match=said), reporter.failures():
        trainjob.work_on_nodes(Work(STEPS["train"], "{}", Config(), {}, {}, "k"), reporter, template())
    assert list(dict.fromkeys(lines))[:3] == [
        f"  {STATE.path} started",
        f"  {STATE.path}: waits for its pods",
        f"  {STATE.path}: 10/40 steps, loss 0.5",
    ]
    state = read_state(store, "r", STATE.path)
    assert state and (state.status, state.attempt) == ("failed", "model/k/attempts/1")


def test_a_job_that_somebody_deletes_is_an_error(cluster: Clusters, tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "never"))
    starter = start(here, tmp_path)
    (job,) = here.jobs.values()
    here.delete(job)
    assert starter.wait(60) == 1


def test_a_job_is_followed_while_the_api_server_is_away_for_minutes(cluster: Clusters, monkeypatch) -> None:
    here, pauses = cluster(), []

    def sleep(retry: Retry, response: Any = None) -> None:
        pauses.append(retry.get_backoff_time())
        if sum(pauses) > 240:
            here.refuse = None

    monkeypatch.setattr(Retry, "sleep", sleep)
    jobs = TrainJobs()
    job = jobs.create(job_here())
    here.refuse = 503
    assert jobs.follow(job)["type"] == "Complete"


def test_the_job_of_another_try_is_not_deleted(cluster: Clusters, tmp_path: Path) -> None:
    """As by a pod of a node that was lost, and is back after the next try has begun."""
    here = cluster(waiting(tmp_path / "never"))
    job = here.create(job_here())
    jobs = TrainJobs()
    jobs.delete({"metadata": {**job["metadata"], "uid": "earlier"}})
    assert list(here.jobs.values()) == [job] and "deletionTimestamp" not in job["metadata"]
    jobs.delete(job)
    until(here, lambda: not here.jobs)
    jobs.delete(job)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"installed": False}, "404 .*: install Kubeflow Trainer, or set nodes to 1"),
        ({"patches": False}, r"knows no runtimePatches: install 2\.2 or later"),
        ({"refuse": 401}, "service account is not known"),
        ({"refuse": 403}, "let the step's service account create, get"),
        (
            {"refuse": 403, "message": 'User "x" cannot create resource "trainjobs"'},
            "let the step's service account",
        ),
        ({"refuse": 403, "message": "exceeded quota: team"}, "403 .*: exceeded quota: team$"),
        ({"refuse": 422, "message": "spec.runtimeRef: no such runtime"}, "422 .*: spec.runtimeRef"),
    ],
)
def test_a_run_that_the_cluster_refuses_ends_in_its_first_pod(
    cluster: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any], line: str
) -> None:
    here, store = cluster(), LocalStore(tmp_path / "store")
    vars(here).update(state)
    open_run(store.url, DESCRIBED, "aaaa")  # no step of it trains on several nodes
    store.remove("runs")
    monkeypatch.setenv(environment.NODES, json.dumps(template()))
    with pytest.raises(InputError, match=f"^training on several nodes: in namespace team: .*{line}"):
        open_run(store.url, DESCRIBED, "aaaa")
    assert "several nodes" in (read_start(store, "aaaa").error or ""), "which the notice tells"
    assert not store.files("runs/training-1")


def test_a_cluster_with_a_trainer_of_today_is_taken_silently(cluster: Clusters, capsys) -> None:
    here = cluster()
    check_trainer(template())
    assert capsys.readouterr() == ("", "") and not here.created
