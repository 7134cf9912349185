"""Compiled pods of trainings on several nodes."""

import json

import pytest

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from tests.fixtures.compiled import compiled, tasks_of

ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
MEMORY = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Exists", "values": []}
TRAIN = {
    "nodes": 2,
    "gpus": 8,
    "timeout_hours": 100,
    "retries": 7,
    "backoff_seconds": 5,
    "priority_class": "high",
    "scratch": "1Ti",
}


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> tuple[dict, dict]:
    """The pipeline of a training on two nodes."""
    return compiled(
        tmp_path_factory.mktemp("several"),
        gpu={"node_affinity": [ZONE, {**SPOT, "weight": 30}, MEMORY]},
        steps={"train": TRAIN},
        mlflow_uri="http://mlflow:5000",
        secrets={"mlflow": "keys", "hub": "hub", "bucket": "keys", "session": "keys"},
        service_account="multiview-steps",
        queue="gpus",
    )


def container_of(ir: dict, step: str) -> tuple[dict, dict[str, str]]:
    """A step's container, and its variables."""
    container = ir["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
    return container, {variable["name"]: variable["value"] for variable in container["env"]}


def test_a_training_on_several_nodes_knows_them_and_waits_in_a_small_pod(several):
    """With the secrets of every other pod, and the whole of what they need to know."""
    ir, platform = several
    container, variables = container_of(ir, "train")
    assert container["image"] == CPU_IMAGE and "accelerator" not in container["resources"]
    assert container["resources"]["resourceMemoryLimit"] == "8Gi"
    assert platform["exec-train"]["activeDeadlineSeconds"] == "403200", "it outlives those that it follows"
    policy = tasks_of(ir)["train"]["retryPolicy"]
    assert (policy["maxRetryCount"], policy["backoffDuration"]) == (7, "5s")
    job = json.loads(variables[environment.NODES])
    trainer = job["spec"]["trainer"]
    assert (trainer["image"], trainer["numNodes"], trainer["numProcPerNode"]) == (GPU_IMAGE, 2, 8)
    assert job["spec"]["activeDeadlineSeconds"] == 360_000
    assert {v["name"]: v["value"] for v in trainer["env"] if "value" in v} == {
        "MLFLOW_TRACKING_URI": "http://mlflow:5000",
        environment.MLFLOW_URI: "http://mlflow:5000",
        environment.IMAGE: GPU_IMAGE,
        environment.GPUS: "8",
        environment.PROCESSORS: "4",
    }
    assert variables[environment.IMAGE] == CPU_IMAGE and environment.GPUS not in variables
    (patch,) = job["spec"]["runtimePatches"]
    (pods,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert pods["template"]["spec"]["template"]["spec"]["serviceAccountName"] == "multiview-steps"
    keys = (
        *("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    )
    secrets = {"keys": {name: name for name in keys}, "hub": {"HF_TOKEN": "HF_TOKEN"}}
    given: dict[str, dict[str, str]] = {}
    for variable in trainer["env"]:
        if "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            given.setdefault(reference["name"], {})[reference["key"]] = variable["name"]
    assert given == secrets
    for step in platform.values():
        given = {
            s["secretName"]: {k["secretKey"]: k["envVar"] for k in s["keyToEnv"]} for s in step["secretAsEnv"]
        }
        assert given == secrets
    assert environment.NODES not in container_of(ir, "encode")[1]


def test_a_training_on_several_nodes_is_queued_once(several):
    """As its TrainJob: the pod that follows it holds no place in the queue, and may be on any node."""
    ir, platform = several
    _, variables = container_of(ir, "train")
    job = json.loads(variables[environment.NODES])
    assert {"gpus", "high"} <= set(job["metadata"]["labels"].values())
    assert "1Ti" in variables[environment.NODES]
    assert not {"podMetadata", "genericEphemeralVolume", "nodeAffinity"} & set(platform["exec-train"])


def test_nodes_are_chosen_by_conditions_that_all_hold_and_by_preferences(several):
    _, platform = several
    preferred = {name: value for name, value in SPOT.items() if value}
    assert platform["exec-encode"]["nodeAffinity"] == [
        {"matchExpressions": [ZONE, MEMORY]},
        {"matchExpressions": [preferred], "weight": 30},
    ]
    assert "nodeAffinity" not in platform["exec-split"]


def test_the_first_pod_knows_of_trainings_on_several_nodes(several, tmp_path):
    """So that it looks for Kubeflow Trainer. A run without such a step, as this one without a warm-up, needs none."""
    ir, platform = several
    _, variables = container_of(ir, "open-run")
    assert json.loads(variables[environment.NODES])["spec"]["trainer"]["numNodes"] == 2
    assert "podMetadata" not in platform["exec-open-run"]
    ir, _ = compiled(tmp_path, steps={"warm-up": {"nodes": 3}})
    assert environment.NODES not in container_of(ir, "open-run")[1]
