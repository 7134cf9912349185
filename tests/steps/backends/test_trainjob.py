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
from multiview.steps.backends.trainjob import Nodes, Task, job_name, nodes_here, train_job
from multiview.steps.backends.trainjob_client import run_train_job
from multiview.steps.table import STEPS
from tests.fixtures.cluster import SCHEMA, Cluster

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
        tolerations=({"key": "nvidia.com/gpu"}, {"key": "spot", "operator": "Equal", "value": "true"}),
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
    [(403, "let the step's service account get, list, watch, create and delete"), (401, "not known")],
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


def test_pods_that_train_together_have_no_sidecar() -> None:
    (job,) = train_job(TASK, nodes())["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ]
    assert job["template"]["spec"]["template"]["metadata"]["labels"] == {"sidecar.istio.io/inject": "false"}
