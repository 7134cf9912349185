"""Compiled pods of trainings on several nodes."""

import json

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from tests.fixtures.compiled import compiled, tasks_of


def test_a_training_on_several_nodes_knows_them_and_waits_in_a_small_pod(tmp_path):
    """With the secrets of every other pod, and the whole of what they need to know."""
    ir, platform = compiled(
        tmp_path,
        steps={"train": {"nodes": 2, "gpus": 8, "timeout_hours": 100, "retries": 7, "backoff_seconds": 5}},
        mlflow_uri="http://mlflow:5000",
        secrets={"mlflow": "keys", "hub": "hub", "bucket": "keys"},
        service_account="multiview-steps",
    )
    container = ir["deploymentSpec"]["executors"]["exec-train"]["container"]
    assert container["image"] == CPU_IMAGE and "accelerator" not in container["resources"]
    assert container["resources"]["resourceMemoryLimit"] == "8Gi"
    assert platform["exec-train"]["activeDeadlineSeconds"] == "403200", "it outlives those that it follows"
    policy = tasks_of(ir)["train"]["retryPolicy"]
    assert (policy["maxRetryCount"], policy["backoffDuration"]) == (7, "5s")
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
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
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
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
    other = ir["deploymentSpec"]["executors"]["exec-encode"]["container"]
    assert environment.NODES not in {variable["name"] for variable in other["env"]}


def test_a_training_on_several_nodes_is_queued_once(tmp_path):
    """As its TrainJob: the pod that follows it holds no place in the queue."""
    ir, platform = compiled(
        tmp_path, queue="gpus", steps={"train": {"nodes": 2, "priority_class": "high", "scratch": "1Ti"}}
    )
    container = ir["deploymentSpec"]["executors"]["exec-train"]["container"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    job = json.loads(variables[environment.NODES])
    assert {"gpus", "high"} <= set(job["metadata"]["labels"].values())
    assert "1Ti" in variables[environment.NODES]
    assert not {"podMetadata", "genericEphemeralVolume"} & set(platform["exec-train"])


def test_the_first_pod_knows_of_trainings_on_several_nodes(tmp_path):
    """So that it looks for Kubeflow Trainer. A run without such a step, as this one without a warm-up, needs none."""
    for steps, told in (({"train": {"nodes": 3}}, True), ({"warm-up": {"nodes": 3}}, False), ({}, False)):
        ir, platform = compiled(tmp_path, steps=steps, queue="gpus")
        container = ir["deploymentSpec"]["executors"]["exec-open-run"]["container"]
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        assert (environment.NODES in variables) == told
        if told:
            assert json.loads(variables[environment.NODES])["spec"]["trainer"]["numNodes"] == 3
        assert "podMetadata" not in platform["exec-open-run"]
