"""Compiled pods: images, resources, timeouts, retries, and what a shared cluster asks for."""

import json

import pytest

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.plans import PIPELINES
from pipelines.kubeflow.pods import Pods
from tests.fixtures.compiled import ON_GPU, all_tasks, compiled, default_documents, made_documents, tasks_of
from tests.fixtures.pod_security import driver_s_pod, violations


@pytest.mark.parametrize("name", PIPELINES)
def test_every_task_has_image_resources_timeout_and_retries_and_no_cache(name):
    check_tasks(*default_documents(name))


@pytest.mark.parametrize(
    ("made", "steps"),
    [
        ("queries", {"generate-queries", "gather-queries", "train-generator", "warm-up"}),
        ("crops", {"crop-questions", "make-questions"}),
        ("generator", {"generate-questions", "make-questions"}),
        ("llm", {"ask-questions", "make-questions"}),
    ],
)
def test_so_has_every_task_that_queries_or_questions_are_made_by(made, steps):
    """Which no golden pipeline holds."""
    assert steps <= check_tasks(*made_documents(made))


def check_tasks(ir: dict, platform: dict) -> set[str]:
    """The tasks' names."""
    tasks = tasks_of(ir)
    assert len(tasks) >= 12 and {"open-run", "close-run"} <= set(tasks)
    assert {"split", "split-again"} & set(tasks)
    for task_name, task in tasks.items():
        assert not task.get("cachingOptions", {}).get("enableCache", False), task_name
        assert task.get("retryPolicy", {}).get("maxRetryCount") == (None if task_name == "open-run" else 2), (
            task_name
        )
        executor = ir["components"][task["componentRef"]["name"]]["executorLabel"]
        container = ir["deploymentSpec"]["executors"][executor]["container"]
        assert "pip install" not in json.dumps(container)
        resources, step = container["resources"], task_name.rstrip("-0123456789")
        gpu = step in ON_GPU
        assert container["image"] == (GPU_IMAGE if gpu else CPU_IMAGE), task_name
        assert ("accelerator" in resources) == gpu
        assert resources["resourceMemoryLimit"] == resources["resourceMemoryRequest"]
        assert resources["resourceCpuRequest"] and "resourceCpuLimit" not in resources
        assert platform[executor]["activeDeadlineSeconds"] == str(24 * 3600)
        assert ("emptyDirMounts" in platform[executor]) == gpu
    assert set(platform) == set(ir["deploymentSpec"]["executors"])
    return set(tasks)


def test_pods_are_set_in_one_place(tmp_path):
    ir, platform = compiled(
        tmp_path,
        cpu={"memory": "6Gi", "node_selector": {"pool": "small"}},
        gpu={
            "gpus": 2,
            "tolerations": [{"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        },
        steps={
            "split": {"memory": "64Gi"},
            "mine": {"gpus": 0, "shared_memory": None},
            "open-run": {"retries": 1},  # else it has none: a typo in the UI would take minutes
        },
        mlflow_uri="http://mlflow:5000",
        secrets={"mlflow": "mlflow-user", "hub": "hub", "qdrant": "qdrant", "llm": "llm"},
        environment={"FSSPEC_S3_ENDPOINT_URL": "http://bucket"},
    )
    assert tasks_of(ir)["open-run"]["retryPolicy"]["maxRetryCount"] == 1
    executors = {name: e["container"] for name, e in ir["deploymentSpec"]["executors"].items()}
    memory = {name: e["resources"]["resourceMemoryLimit"] for name, e in executors.items()}
    assert (memory["exec-split"], memory["exec-index"], memory["exec-train"]) == ("64Gi", "6Gi", "32Gi")
    assert platform["exec-index"]["nodeSelector"] == {"labels": {"pool": "small"}}
    assert executors["exec-train"]["resources"]["accelerator"]["resourceCount"] == "2"
    mine = executors["exec-mine"]
    assert mine["image"] == CPU_IMAGE and "accelerator" not in mine["resources"]
    assert "emptyDirMounts" not in platform["exec-mine"]
    (toleration,) = platform["exec-train"]["tolerations"]
    assert toleration == {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    for name, executor in executors.items():
        variables = {variable["name"]: variable["value"] for variable in executor["env"]}
        several = "2" if name.startswith(("exec-train", "exec-warm-up")) else "1"
        gpus = {environment.GPUS: several} if "accelerator" in executor["resources"] else {}
        assert variables == {
            **gpus,
            environment.IMAGE: executor["image"],
            environment.PROCESSORS: executor["resources"]["resourceCpuRequest"],
            "MLFLOW_TRACKING_URI": "http://mlflow:5000",
            environment.MLFLOW_URI: "http://mlflow:5000",
            "FSSPEC_S3_ENDPOINT_URL": "http://bucket",
        }
        secrets = {
            s["secretName"]: [k["envVar"] for k in s["keyToEnv"]] for s in platform[name]["secretAsEnv"]
        }
        assert secrets == {
            "mlflow-user": ["MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"],
            "hub": ["HF_TOKEN"],
            "qdrant": ["MULTIVIEW_QDRANT_API_KEY"],
            "llm": ["OPENAI_API_KEY"],
        }


SHARED = {
    "labels": {"team": "search"},
    "annotations": {"example.org/owner": "search, ranking"},
    "priority_class": "high",
    "image_pull_secrets": ["registry"],
    "scratch": "1Ti",
    "scratch_class": "fast",
    "parallel_shards": 4,
}


def test_pods_are_what_a_shared_cluster_asks_for(tmp_path):
    """Of the pod-security level `restricted`, too."""
    steps = {"mine": {"scratch_class": None}}
    ir, platform = compiled(tmp_path, gpu=SHARED, steps=steps, queue="gpus", run_as_non_root=True)
    for name, executor in ir["deploymentSpec"]["executors"].items():
        assert not violations(driver_s_pod(executor["container"], platform[name])), name
    encode = platform["exec-encode"]
    assert encode["podMetadata"] == {
        "labels": {
            "team": "search",
            "kueue.x-k8s.io/queue-name": "gpus",
            "kueue.x-k8s.io/priority-class": "high",
        },
        "annotations": {"example.org/owner": "search, ranking"},
    }
    assert [secret["secretName"] for secret in encode["imagePullSecret"]] == ["registry"]
    volume = {
        "volumeName": "scratch",
        "mountPath": "/scratch",
        "accessModes": ["ReadWriteOnce"],
        "size": "1Ti",
    }
    assert encode["genericEphemeralVolume"] == [{**volume, "storageClassName": "fast"}]
    assert platform["exec-mine"]["genericEphemeralVolume"] == [{**volume, "defaultStorageClass": True}]
    assert platform["exec-index"]["podMetadata"] == {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}
    assert "genericEphemeralVolume" not in platform["exec-index"]
    for executor in ("exec-open-run", "exec-close-run"):
        assert "podMetadata" not in platform[executor], "a failed run is reported, however full the queue is"
    loops = [task for task in all_tasks(ir).values() if "parameterIterator" in task]
    assert len(loops) == 2 and all(loop["iteratorPolicy"] == {"parallelismLimit": 4} for loop in loops)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_loop_is_displayed_by_its_key_and_runs_all_its_shards_at_once(name):
    """KFP before 2.16 knows a loop's execution by the name that it displays, and looks for its outputs by the key."""
    ir, _ = default_documents(name)
    loops = {key: task for key, task in all_tasks(ir).items() if "parameterIterator" in task}
    assert loops and not any("iteratorPolicy" in task for task in loops.values())
    assert {key: task["taskInfo"]["name"] for key, task in loops.items()} == {key: key for key in loops}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"steps": {"encode": {"nodes": 2}}}, "nodes=2 is for train and warm-up alone, not for encode"),
        ({"steps": {"open-run": {"gpus": 1}}}, "kubeflow.steps.open-run.gpus=1: open-run uses no GPU"),
        ({"steps": {"spilt": {}}}, "kubeflow.steps: there is no step 'spilt'; did you mean split or split-again?"),
        ({"steps": {"split": {"memroy": "1Gi"}}}, "kubeflow.steps.split: there is no setting kubeflow.cpu.memroy"),
        ({"steps": {"split": {"memory": "lots"}}}, "kubeflow.steps.split: kubeflow.cpu.memory"),
        ({"gpu": {"priority_class": "high"}}, "needs a queue: set kubeflow.queue"),
        ({"steps": {"split": {"priority_class": "high"}}}, "needs a queue: set kubeflow.queue"),
        ({"cpu": {"labels": {"team": "search & ranking"}}}, "kubeflow.cpu.labels.team"),
        ({"cpu": {"labels": {"a/b/c": "d"}}}, "kubeflow.cpu.labels"),
        ({"steps": {"split": {"image_pull_secrets": ["My Secret"]}}}, "kubeflow.cpu.image_pull_secrets"),
        ({"cpu": {"node_affinity": [{"key": "zone"}]}}, "operator In takes values"),
        ({"cpu": {"node_affinity": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}, "Exists takes no values"),
        ({"cpu": {"node_affinity": [{"key": "m", "operator": "Gt", "values": ["1", "2"]}]}}, "Gt takes one value"),
    ],
)  # fmt: skip
def test_settings_of_pods_that_cannot_be_had_are_one_line(settings, line):
    with pytest.raises(InputError) as raised:
        Pods(validate({"kubeflow": settings}))
    assert line in str(raised.value)
