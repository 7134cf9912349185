"""A TrainJob as an object that Kubernetes' API takes."""

import json
from typing import Any

import jsonschema
import pytest

from multiview import environment
from multiview.config.kubeflow import MULTI_NODE_STEPS
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.steps.backends.trainjob import Task, job_name, nodes_here, train_job
from multiview.steps.table import STEPS
from tests.fixtures.cluster_api import SCHEMA
from tests.fixtures.pod_security import violations
from tests.fixtures.training_jobs import TASK, nodes


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


def test_pods_that_train_together_write_to_volumes_alone() -> None:
    """Their images need no other folder than /scratch (tests/images/test_containers.py)."""
    spec = pod_of(train_job(TASK, nodes()))["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch"}]
    assert spec["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_pods_that_train_together_are_of_the_level_restricted() -> None:
    for chosen in (nodes(), nodes(scratch="1Gi", shared_memory="1Gi")):
        spec = pod_of(train_job(TASK, chosen))["spec"]
        assert not violations(spec)
        assert violations({**spec, "securityContext": {}})
