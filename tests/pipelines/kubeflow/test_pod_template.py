"""A TrainJob's pods, as objects that Kubernetes' API takes, and the step's own pod as one of the same settings."""

from typing import Any

import jsonschema
import pytest

from multiview import environment
from multiview.config import JsonObject
from multiview.steps.backends.trainjob import train_job
from tests.fixtures.cluster_api import SCHEMA
from tests.fixtures.pod_security import violations
from tests.fixtures.training_jobs import STEP, template


@pytest.fixture(autouse=True)
def pod_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFP_POD_NAME", "train-2")
    monkeypatch.setenv("KFP_POD_UID", "uid-2")


def pod_of(job: JsonObject) -> dict[str, Any]:
    """The patch of the pods of a job: metadata and spec."""
    (job,) = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]


def test_the_object_is_one_that_the_api_takes() -> None:
    job = template(
        {"STORAGE_EMULATOR_HOST": "http://s"},
        {"multiview-bucket": {"AWS_ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID"}},
        "trainer",
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
    )
    for each in (template(), job):
        jsonschema.validate(train_job(*STEP, each, "training-w"), SCHEMA)
    trainer, spec = job["spec"]["trainer"], pod_of(job)["spec"]
    assert trainer["numNodes"] == 2 and trainer["numProcPerNode"] == 4
    assert trainer["resourcesPerNode"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "4"}
    assert {"name": "STORAGE_EMULATOR_HOST", "value": "http://s"} in trainer["env"]
    assert trainer["env"][-1] == {
        "name": "AWS_ACCESS_KEY_ID",
        "valueFrom": {"secretKeyRef": {"name": "multiview-bucket", "key": "AWS_ACCESS_KEY_ID"}},
    }
    assert spec["serviceAccountName"] == "trainer" and spec["nodeSelector"] == {"pool": "gpu-spot"}
    preferred = {"matchExpressions": [{"key": "spot", "operator": "Exists", "values": []}]}
    assert spec["affinity"]["nodeAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": preferred}],
    }


@pytest.mark.parametrize(("cpu", "processors"), [("500m", "1"), ("1500m", "2"), ("4", "4")])
def test_part_of_a_processor_counts_as_one(cpu: str, processors: str) -> None:
    variables = {each["name"]: each.get("value") for each in template(cpu=cpu)["spec"]["trainer"]["env"]}
    assert variables[environment.PROCESSORS] == processors


def test_pods_that_train_together_have_no_sidecar() -> None:
    metadata = pod_of(template(labels={"team": "search"}))["metadata"]
    assert metadata["labels"] == {"team": "search", "sidecar.istio.io/inject": "false"}


def test_a_job_waits_in_a_queue_as_a_whole_and_its_pods_are_not_queued_again() -> None:
    job = template(labels={"team": "search"}, priority_class="high", queue="gpus")
    labels = job["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpus" and labels["team"] == "search"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert not any(key.startswith("kueue") for key in pod_of(job)["metadata"]["labels"])


def test_pods_that_train_together_have_a_volume_that_their_user_may_write_to() -> None:
    spec = pod_of(template(scratch="500Gi", shared_memory="1Gi"))["spec"]
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
    assert "fsGroup" not in pod_of(template())["spec"]["securityContext"]


def test_pods_that_train_together_write_to_volumes_alone() -> None:
    """Their images need no other folder than /scratch (tests/images/test_containers.py)."""
    spec = pod_of(template())["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch"}]
    assert spec["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_pods_that_train_together_are_of_the_level_restricted() -> None:
    for chosen in (template(), template(scratch="1Gi", shared_memory="1Gi")):
        spec = pod_of(chosen)["spec"]
        assert not violations(spec)
        assert violations({**spec, "securityContext": {}})
