"""TrainJobs that several tries adopt, and those that no pod follows any more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiview.errors import InputError
from multiview.steps.backends import trainjob_api
from multiview.steps.backends.trainjob import job_name, owned_by, train_job
from multiview.steps.backends.trainjob_client import delete_abandoned
from tests.fixtures.cluster import Cluster
from tests.fixtures.training_jobs import TASK, nodes
from tests.steps.backends.tries import OWNER, pod_here, until, waiting


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
