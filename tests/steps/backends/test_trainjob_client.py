"""A TrainJob to its end, against a Kubernetes API server that runs its pods as processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends import trainjob_api
from multiview.steps.backends.trainjob import job_name, owned_by, train_job
from multiview.steps.backends.trainjob_client import delete_abandoned, run_train_job
from tests.fixtures.cluster import Cluster
from tests.fixtures.training_jobs import TASK, nodes


def until(cluster: Cluster, true: Callable[[], Any]) -> None:
    with cluster.changed:
        assert cluster.changed.wait_for(true, timeout=60)


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


def waiting(file: Path) -> str:
    return f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.05)"


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


OWNER = {"apiVersion": "v1", "kind": "Pod", "blockOwnerDeletion": False}


def pod_here(monkeypatch: pytest.MonkeyPatch, folder: Path, namespace: str = "team") -> dict[str, Any]:
    """The owner that a pod of this name is, once this process is in it."""
    (folder / "namespace").write_text(namespace)
    monkeypatch.setattr(trainjob_api, "NAMESPACE_FILE", folder / "namespace")
    monkeypatch.setenv("KFP_POD_NAME", "train-2")  # as KFP's compiler of workflows names them
    monkeypatch.setenv("KFP_POD_UID", "uid-2")
    return {**OWNER, "name": "train-2", "uid": "uid-2"}


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


def step_pod(name: str, workflow: str, phase: str) -> dict[str, Any]:
    """A pod of a step, as Argo makes it."""
    labels = {"workflows.argoproj.io/workflow": workflow}
    return {"metadata": {"name": name, "labels": labels}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("owners", "deleted"),
    [
        ([step_pod("train-1", "cancelled", "Failed")], True),
        ([step_pod("train-1", "cancelled", "Running")], True),  # Argo is about to end it
        ([], True),
        ([step_pod("train-1", "cancelled", "Failed"), step_pod("train-2", "again", "Running")], False),
        ([step_pod("train-1", "cancelled", "Failed"), step_pod("train-2", "again", "Failed")], True),
    ],
)
def test_the_exit_handler_deletes_the_job_of_a_cancelled_start(
    cluster: Callable[..., Cluster],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    owners: list[dict[str, Any]],
    deleted: bool,
) -> None:
    """Its step's pod was killed before it could; a job that another start follows stays."""
    here = cluster(waiting(tmp_path / "never"))
    monkeypatch.setenv("KFP_POD_NAME", "close-run-1")
    here.steps = {pod["metadata"]["name"]: pod for pod in owners}
    here.steps["close-run-1"] = step_pod("close-run-1", "cancelled", "Running")
    job = train_job(TASK, nodes())
    for pod in owners or [step_pod("train-1", "cancelled", "Failed")]:
        job = owned_by(job, pod["metadata"]["name"], f"uid of {pod['metadata']['name']}")
    other = train_job(TASK.model_copy(update={"run": "another", "key": "1" * 32}), nodes())
    here.steps["other-1"] = step_pod("other-1", "elsewhere", "Failed")
    for each in (job, owned_by(other, "other-1", "uid of other-1")):
        here.create(each)
        until(here, lambda name=each["metadata"]["name"]: name in here.processes)
    pods = here.processes[job_name(TASK)]
    assert delete_abandoned(TASK.store, TASK.run, nodes()) == ([job_name(TASK)] if deleted else [])
    left = {other["metadata"]["name"]} | (set() if deleted else {job_name(TASK)})
    until(here, lambda: here.jobs.keys() == left)
    assert all((pod.poll() is not None) == deleted for pod in pods)


def closing(
    here: Cluster, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], *pods: dict[str, Any]
) -> None:
    """The exit handler of the workflow `cancelled` is here; pods follow a job, which runs."""
    monkeypatch.setenv("KFP_POD_NAME", "close-run-1")
    for pod in (*pods, step_pod("close-run-1", "cancelled", "Running")):
        here.steps[pod["metadata"]["name"]] = pod
    for pod in pods:
        job = owned_by(job, pod["metadata"]["name"], f"uid of {pod['metadata']['name']}")
    here.create(job)


def test_the_job_of_a_run_of_the_same_name_in_another_store_stays(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run's id does not contain its store."""
    here = cluster(waiting(tmp_path / "never"))
    elsewhere = train_job(TASK.model_copy(update={"store": "gs://bucket/another"}), nodes())
    closing(here, monkeypatch, elsewhere, step_pod("train-1", "elsewhere", "Failed"))
    assert delete_abandoned(TASK.store, TASK.run, nodes()) == [] and here.jobs


def test_a_job_that_another_run_had_started_goes_with_the_last_that_follows_it(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = cluster(waiting(tmp_path / "never"))
    job = train_job(TASK.model_copy(update={"run": "another"}), nodes())
    pods = step_pod("train-1", "earlier", "Failed"), step_pod("train-2", "cancelled", "Running")
    closing(here, monkeypatch, job, *pods)
    assert delete_abandoned(TASK.store, TASK.run, nodes()) == [job_name(TASK)]
    until(here, lambda: not here.jobs)


@pytest.mark.parametrize("follows", [True, False])
def test_a_job_that_changes_while_it_is_deleted_is_looked_at_again(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, follows: bool
) -> None:
    here = cluster(waiting(tmp_path / "never"))
    closing(here, monkeypatch, train_job(TASK, nodes()), step_pod("train-1", "cancelled", "Failed"))

    def change() -> None:
        job = here.jobs[job_name(TASK)]
        if follows:  # another start of the run has found the job
            here.steps["train-2"] = step_pod("train-2", "again", "Running")
            job["metadata"]["ownerReferences"].append({**OWNER, "name": "train-2", "uid": "uid-2"})
        here.change("MODIFIED", job)

    here.meanwhile = [change]
    deleted = delete_abandoned(TASK.store, TASK.run, nodes())
    assert deleted == ([] if follows else [job_name(TASK)])
    if follows:
        assert "deletionTimestamp" not in here.jobs[job_name(TASK)]["metadata"]


def test_two_tries_that_adopt_a_job_at_once_both_own_it(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = cluster(waiting(tmp_path / "go"))
    here.create(owned_by(train_job(TASK, nodes()), "train-1", "uid-1"))
    pod_here(monkeypatch, tmp_path)

    def adopt() -> None:
        job = here.jobs[job_name(TASK)]
        here.change("MODIFIED", owned_by(job, "train-3", "uid-3"))

    here.meanwhile = [adopt]
    jobs = trainjob_api.TrainJobs("team")
    jobs.start(owned_by(train_job(TASK, nodes()), "train-2", "uid-2"))
    owners = here.jobs[job_name(TASK)]["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["train-1", "train-3", "train-2"]


def test_a_job_that_is_deleted_while_a_try_adopts_it_is_made_anew(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = cluster(waiting(tmp_path / "go"))
    old = here.create(owned_by(train_job(TASK, nodes()), "train-1", "uid-1"))
    until(here, lambda: job_name(TASK) in here.processes)
    here.meanwhile = [lambda: here.delete(old)]
    trainjob_api.TrainJobs("team").start(owned_by(train_job(TASK, nodes()), "train-2", "uid-2"))
    assert here.jobs[job_name(TASK)]["metadata"]["uid"] != old["metadata"]["uid"]


def test_a_job_without_owners_is_nobody_s_to_delete(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    here = cluster(waiting(tmp_path / "never"))
    here.create(train_job(TASK, nodes()))
    assert delete_abandoned(TASK.store, TASK.run, nodes()) == [] and here.jobs


def test_what_the_exit_handler_may_not_do_is_said(cluster: Callable[..., Cluster]) -> None:
    cluster().refuse = 403
    with pytest.raises(InputError, match="403 Forbidden: let the step's service account get, list"):
        delete_abandoned(TASK.store, TASK.run, nodes())
