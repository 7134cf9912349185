"""A TrainJob to its end, against a Kubernetes API server that runs its pods as processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends.trainjob import job_name, owned_by, train_job
from multiview.steps.backends.trainjob_client import run_train_job
from tests.fixtures.cluster import Cluster
from tests.fixtures.training_jobs import TASK, nodes
from tests.steps.backends.tries import OWNER, pod_here, until, waiting


def test_a_job_is_followed_to_its_end_and_deleted(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    run_train_job(TASK, nodes())
    until(here, lambda: not here.jobs)
    assert [job["metadata"]["name"] for job in here.created] == [job_name(TASK)]


def test_the_pods_have_the_secrets_that_are_named(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    token = tmp_path / "token"
    here = cluster(f"import os; open({str(token)!r}, 'w').write(os.environ['HF_TOKEN'])")
    here.secrets = {"hub": {"token": "hf_1"}}
    run_train_job(TASK, nodes().model_copy(update={"secrets": {"hub": {"token": "HF_TOKEN"}}}))
    assert token.read_text() == "hf_1"


def test_the_line_of_the_pod_that_failed_first_is_reported(
    cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
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
        run_train_job(TASK, nodes())
    until(here, lambda: not here.jobs)


def test_bad_input_of_a_pod_keeps_its_line(cluster: Callable[..., Cluster]) -> None:
    cluster("""
import os, pathlib, sys
rank, log = os.environ["PET_NODE_RANK"], pathlib.Path(os.environ["MULTIVIEW_TERMINATION_LOG"])
log.write_text("connection closed" if rank == "0" else "train.positive: answer does not suit")
sys.exit(1 if rank == "0" else 2)
""")
    with pytest.raises(InputError, match=r"^train\.positive: answer does not suit$"):
        run_train_job(TASK, nodes())


def test_a_pod_without_a_message_is_reported_by_how_it_ended(cluster: Callable[..., Cluster]) -> None:
    cluster("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ProcessFailed, match=r"abcde: OOMKilled \(exit status 137\)$"):
        run_train_job(TASK, nodes())


def start(here: Cluster) -> subprocess.Popen[bytes]:
    """A step's pod, once its job is there."""
    command = [sys.executable, "-m", "tests.steps.backends.starter"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [TASK.model_dump_json(), nodes().model_dump_json()]
    starter = subprocess.Popen([*command, *words], env=environment)
    until(here, lambda: job_name(TASK) in here.processes)
    return starter


def test_a_retry_finds_the_job_that_a_killed_step_left(
    cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    here = cluster(waiting(tmp_path / "go"))
    starter = start(here)
    starter.kill()
    starter.wait()
    assert job_name(TASK) in here.jobs
    (tmp_path / "go").touch()
    run_train_job(TASK, nodes())
    assert len(here.created) == 1


def test_a_step_that_is_ended_takes_its_job_along(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "never"))
    starter = start(here)
    pods = here.processes[job_name(TASK)]
    starter.terminate()
    assert starter.wait(60) == -signal.SIGTERM
    until(here, lambda: not here.jobs)
    assert all(pod.poll() is not None for pod in pods)


def test_a_job_that_failed_before_makes_room_for_a_new_one(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    old = train_job(TASK, nodes())
    here.change("ADDED", old)
    here.end(old, "Failed", "an earlier try")
    run_train_job(TASK, nodes())
    assert len(here.created) == 1


def test_a_job_that_somebody_deletes_is_an_error(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "never"))

    def delete() -> None:
        until(here, lambda: job_name(TASK) in here.processes)
        here.delete(here.jobs[job_name(TASK)])

    somebody = threading.Thread(target=delete)
    somebody.start()
    with pytest.raises(ProcessFailed, match="was deleted before it ended"):
        run_train_job(TASK, nodes())
    somebody.join()


@pytest.mark.parametrize(
    ("status", "hint"),
    [(403, "let the step's service account get, list, watch, create, patch and delete"), (401, "not known")],
)
def test_a_refusal_says_what_to_do(cluster: Callable[..., Cluster], status: int, hint: str) -> None:
    here = cluster()
    here.refuse = status
    with pytest.raises(InputError, match=f"TrainJob in namespace team: {status} .*{hint}"):
        run_train_job(TASK, nodes())


def test_a_cluster_without_kubeflow_trainer_is_named(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    here.installed = False
    with pytest.raises(InputError, match="install Kubeflow Trainer"):
        run_train_job(TASK, nodes())


def test_an_object_that_the_cluster_rejects_is_named(cluster: Callable[..., Cluster]) -> None:
    cluster()
    wrong = nodes().model_copy(update={"environment": {"PET_NNODES": "7"}})
    with pytest.raises(InputError, match=r"422 .*env"):
        run_train_job(TASK, wrong)


def test_a_kubeflow_trainer_that_drops_our_patches_is_named(
    cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    here = cluster(waiting(tmp_path / "never"))
    here.patches = False
    with pytest.raises(InputError, match=r"knows no runtimePatches.* install 2\.2 or later"):
        run_train_job(TASK, nodes())
    until(here, lambda: not here.jobs)


@pytest.mark.parametrize(("namespace", "owns"), [("team", True), ("elsewhere", False)])
def test_a_job_belongs_to_the_step_s_pod(
    cluster: Callable[..., Cluster],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    namespace: str,
    owns: bool,
) -> None:
    """So that Kubernetes deletes it with the pod, where the pod could not; a pod owns nothing in other namespaces."""
    here = cluster()
    owner = pod_here(monkeypatch, tmp_path, namespace)
    run_train_job(TASK, nodes())
    (job,) = here.created
    assert job["metadata"].get("ownerReferences", []) == ([owner] if owns else [])


@pytest.mark.parametrize("patching", [True, False])
def test_the_next_try_s_pod_owns_the_job_too(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patching: bool
) -> None:
    """A try whose pod is deleted takes no job along that another one follows; without the right it still follows."""
    here = cluster(waiting(tmp_path / "go"))
    here.patching = patching
    here.create(owned_by(train_job(TASK, nodes()), "train-1", "uid-1"))
    first, second = {**OWNER, "name": "train-1", "uid": "uid-1"}, pod_here(monkeypatch, tmp_path)
    follower = threading.Thread(target=run_train_job, args=(TASK, nodes()))
    follower.start()
    owners = [first, second] if patching else [first]
    until(here, lambda: here.jobs[job_name(TASK)]["metadata"]["ownerReferences"] == owners)
    (tmp_path / "go").touch()
    follower.join(60)
    assert not follower.is_alive() and len(here.created) == 1
