"""A TrainJob from its object to its end, against a Kubernetes API server that runs its pods as processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from multiview import environment
from multiview.config import Config, Pod
from multiview.config.kubeflow import MULTI_NODE_STEPS
from multiview.config.overrides import validate
from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends import trainjob_client
from multiview.steps.backends.trainjob import Nodes, Task, job_name, nodes_here, owned_by, train_job
from multiview.steps.backends.trainjob_client import run_train_job
from multiview.steps.table import STEPS
from tests.fixtures.cluster import SCHEMA, Cluster
from tests.fixtures.pod_security import violations

TASK = Task(
    store="gs://bucket/store",
    run="training-0123456789",
    path="camvr/round-1/train",
    step="train",
    config=STEPS["train"].configure(Config()),
    inputs={},
    key="0" * 32,
)


def nodes(**pod: Any) -> Nodes:
    return Nodes(image="registry/multiview-gpu:1", pod=Pod(**{"nodes": 2, **pod}), namespace="team")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster whose pods run a piece of Python."""
    made: list[Cluster] = []

    def make(code: str = "pass") -> Cluster:
        cluster = Cluster(tmp_path, [sys.executable, "-c", code])
        path = str(cluster.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", path)
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        made.append(cluster)
        return cluster

    yield make
    for started in made:
        started.close()


def until(cluster: Cluster, true: Callable[[], Any]) -> None:
    with cluster.changed:
        assert cluster.changed.wait_for(true, timeout=60)


def test_the_object_is_one_that_the_api_takes() -> None:
    many = nodes(
        gpus=4,
        memory="64Gi",
        shared_memory="16Gi",
        node_selector={"pool": "gpu-spot"},
        node_affinity=({"key": "zone", "values": ["a"]}, {"key": "spot", "operator": "Exists", "weight": 5}),
        tolerations=({"key": "nvidia.com/gpu"}, {"key": "spot", "operator": "Equal", "value": "true"}),
        image_pull_secrets=("registry",),
        annotations={"example.org/owner": "search, ranking"},
        scratch="1Ti",
        scratch_class="fast",
    ).model_copy(update={"service_account": "trainer", "environment": {"STORAGE_EMULATOR_HOST": "http://s"}})
    for chosen in (nodes(), many):
        jsonschema.validate(train_job(TASK, chosen), SCHEMA)
    job = train_job(TASK, many)
    trainer = job["spec"]["trainer"]
    assert trainer["numNodes"] == 2 and trainer["numProcPerNode"] == 4
    assert trainer["resourcesPerNode"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "4"}
    assert Task.model_validate_json(trainer["args"][0]) == TASK
    patched = json.dumps(job["spec"]["runtimePatches"])
    assert all(word in patched for word in ("gpu-spot", "nvidia.com/gpu", "/dev/shm", "16Gi", "trainer"))
    (replicated,) = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ]
    preferred = {"matchExpressions": [{"key": "spot", "operator": "Exists", "values": []}]}
    assert replicated["template"]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": preferred}],
    }
    secret = {"multiview-bucket": {"AWS_ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID"}}
    job = train_job(TASK, many.model_copy(update={"secrets": secret}))
    jsonschema.validate(job, SCHEMA)
    assert job["spec"]["trainer"]["env"] == [
        {"name": "STORAGE_EMULATOR_HOST", "value": "http://s"},
        {
            "name": "AWS_ACCESS_KEY_ID",
            "valueFrom": {"secretKeyRef": {"name": "multiview-bucket", "key": "AWS_ACCESS_KEY_ID"}},
        },
    ]
    broken = {**job, "spec": {**job["spec"], "podSpecOverrides": []}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


def test_processes_of_a_node_are_as_set() -> None:
    set_ = TASK.model_copy(update={"config": json.dumps({"train": {"processes": 3}})})
    assert train_job(set_, nodes(gpus=4))["spec"]["trainer"]["numProcPerNode"] == 3
    assert train_job(TASK, nodes())["spec"]["trainer"]["numProcPerNode"] == 1


def test_a_name_stands_for_one_artifact_of_one_store() -> None:
    assert job_name(TASK) == job_name(TASK.model_copy(update={"run": "another"}))
    others = [TASK.model_copy(update=change) for change in ({"store": "gs://b"}, {"key": "1" * 32})]
    assert len({job_name(task) for task in [TASK, *others]}) == 3


def test_several_nodes_are_for_training_alone() -> None:
    assert {name for name, step in STEPS.items() if step.multi_node} == set(MULTI_NODE_STEPS)
    assert validate({"kubeflow": {"steps": {"train": {"nodes": 2}}}})
    with pytest.raises(InputError, match=r"kubeflow\.steps.*nodes=2 .*not for encode"):
        validate({"kubeflow": {"steps": {"encode": {"nodes": 2}}}})


def test_a_step_trains_itself_without_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nodes_here() is None
    monkeypatch.setenv(environment.NODES, nodes(nodes=1).model_dump_json())
    assert nodes_here() is None
    monkeypatch.setenv(environment.NODES, nodes().model_dump_json())
    assert nodes_here() == nodes()
    monkeypatch.setenv(environment.NODES, "{}")
    with pytest.raises(InputError, match="MULTIVIEW_NODES"):
        nodes_here()


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


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    """The patch of the pods of a job: metadata and spec."""
    (job,) = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]


def test_pods_that_train_together_have_no_sidecar() -> None:
    metadata = pod_of(train_job(TASK, nodes(labels={"team": "search"})))["metadata"]
    assert metadata["labels"] == {"team": "search", "sidecar.istio.io/inject": "false"}


def test_a_job_waits_in_a_queue_as_a_whole_and_its_pods_are_not_queued_again() -> None:
    waiting = nodes(labels={"team": "search"}, priority_class="high").model_copy(update={"queue": "gpus"})
    job = train_job(TASK, waiting)
    jsonschema.validate(job, SCHEMA)
    labels = job["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpus" and labels["team"] == "search"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert not any(key.startswith("kueue") for key in pod_of(job)["metadata"]["labels"])


def test_pods_that_train_together_have_a_volume_that_their_user_may_write_to() -> None:
    spec = pod_of(train_job(TASK, nodes(scratch="500Gi", shared_memory="1Gi")))["spec"]
    claims = {
        v["name"]: v["ephemeral"]["volumeClaimTemplate"]["spec"] for v in spec["volumes"] if "ephemeral" in v
    }
    assert claims == {
        "scratch": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "500Gi"}}}
    }
    (container,) = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"shared-memory": "/dev/shm", "scratch": "/scratch"}
    assert spec["securityContext"]["fsGroup"] == 10001
    assert "fsGroup" not in pod_of(train_job(TASK, nodes()))["spec"]["securityContext"]


def test_pods_that_train_together_are_of_the_level_restricted() -> None:
    for chosen in (nodes(), nodes(scratch="1Gi", shared_memory="1Gi")):
        spec = pod_of(train_job(TASK, chosen))["spec"]
        assert not violations(spec)
        assert violations({**spec, "securityContext": {}})


OWNER = {"apiVersion": "v1", "kind": "Pod", "blockOwnerDeletion": False}


def pod_here(monkeypatch: pytest.MonkeyPatch, folder: Path, namespace: str = "team") -> dict[str, Any]:
    """The owner that a pod of this name is, once this process is in it."""
    (folder / "namespace").write_text(namespace)
    monkeypatch.setattr(trainjob_client, "NAMESPACE_FILE", folder / "namespace")
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
