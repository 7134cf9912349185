"""Compiled pods: images, resources, timeouts, retries, and trainings on several nodes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from multiview.config.overrides import Overrides, gather, validate
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.request import Request
from multiview.steps.backends.trainjob import Nodes
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.pods import Pods
from tests.fixtures.project import ROOT

GOLDEN = Path(__file__).parents[1] / "golden"
ON_GPU = {"train", "encode", "mine", "evaluate"}
ON_GPU |= {"train-generator", "generate-queries", "encode-with-queries", "warm-up"}


def documents(path: Path) -> tuple[dict, dict]:
    pipeline, platform = yaml.safe_load_all(path.read_text())
    return pipeline, platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def tasks_of(ir: dict) -> dict[str, dict]:
    """All tasks that run a component, by name; those of loops and of the exit handler's block among them."""
    dags = [ir["root"]["dag"], *(c["dag"] for c in ir["components"].values() if "dag" in c)]
    leaves = {name for name, c in ir["components"].items() if "executorLabel" in c}
    return {
        name: task
        for dag in dags
        for name, task in dag["tasks"].items()
        if task["componentRef"]["name"] in leaves
    }


@pytest.mark.parametrize("name", PIPELINES)
def test_every_task_has_image_resources_timeout_and_retries_and_no_cache(name):
    check_tasks(*documents(GOLDEN / f"{name}.yaml"))


def test_so_has_every_task_that_queries_are_generated_by(tmp_path):
    """The steps that only the Dual Cross Encoder has, which no golden pipeline holds."""
    overrides = gather("dual-cross", ["generation.fine_tune=true", "train.warm_up={max_steps: 2}"])
    target = compile_request(Request.make("training", overrides), tmp_path / "training.yaml")
    tasks = check_tasks(*documents(target))
    assert {"generate-queries", "gather-queries", "train-generator", "warm-up", "evaluate-queries"} <= tasks


def check_tasks(ir: dict, platform: dict) -> set[str]:
    """The tasks' names."""
    tasks = tasks_of(ir)
    assert len(tasks) >= 12 and {"open-run", "close-run"} <= set(tasks)
    assert {"split", "split-again"} & set(tasks)
    for task_name, task in tasks.items():
        assert not task.get("cachingOptions", {}).get("enableCache", False), task_name
        assert task["retryPolicy"]["maxRetryCount"] == 2, task_name
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


def compiled(folder: Path, **kubeflow: object) -> tuple[dict, dict]:
    overrides: Overrides = {"kubeflow": kubeflow}
    return documents(compile_request(Request.make("training", overrides), folder / "training.yaml"))


def test_pods_are_set_in_one_place(tmp_path):
    ir, platform = compiled(
        tmp_path,
        cpu={"memory": "6Gi", "node_selector": {"pool": "small"}},
        gpu={
            "gpus": 2,
            "tolerations": [{"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        },
        steps={"split": {"memory": "64Gi"}, "mine": {"gpus": 0, "shared_memory": None}},
        mlflow_uri="http://mlflow:5000",
        mlflow_secret="mlflow-user",
        hub_secret="hub",
        environment={"FSSPEC_S3_ENDPOINT_URL": "http://bucket"},
    )
    executors = {name: e["container"] for name, e in ir["deploymentSpec"]["executors"].items()}
    memory = {name: e["resources"]["resourceMemoryLimit"] for name, e in executors.items()}
    assert (memory["exec-split"], memory["exec-index"], memory["exec-train"]) == ("64Gi", "6Gi", "32Gi")
    assert platform["exec-index"]["nodeSelector"] == {"labels": {"pool": "small"}}
    assert executors["exec-train"]["resources"]["accelerator"]["resourceCount"] == "2"
    assert (
        executors["exec-mine"]["image"] == CPU_IMAGE
        and "accelerator" not in executors["exec-mine"]["resources"]
    )
    assert "emptyDirMounts" not in platform["exec-mine"]
    (toleration,) = platform["exec-train"]["tolerations"]
    assert toleration == {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    for name, executor in executors.items():
        variables = {variable["name"]: variable["value"] for variable in executor["env"]}
        assert variables == {
            environment.IMAGE: executor["image"],
            "MLFLOW_TRACKING_URI": "http://mlflow:5000",
            "FSSPEC_S3_ENDPOINT_URL": "http://bucket",
        }
        secrets = {
            s["secretName"]: [k["envVar"] for k in s["keyToEnv"]] for s in platform[name]["secretAsEnv"]
        }
        assert secrets == {
            "mlflow-user": ["MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"],
            "hub": ["HF_TOKEN"],
        }


def test_a_training_on_several_nodes_knows_them_and_waits_in_a_small_pod(tmp_path):
    """With the secrets of every other pod, and the whole of what they need to know."""
    ir, platform = compiled(
        tmp_path,
        steps={"train": {"nodes": 2, "gpus": 8, "timeout_hours": 100, "retries": 7, "backoff_seconds": 5}},
        mlflow_uri="http://mlflow:5000",
        mlflow_secret="keys",
        hub_secret="hub",
        bucket_secret="keys",
        service_account="multiview-steps",
    )
    container = ir["deploymentSpec"]["executors"]["exec-train"]["container"]
    assert container["image"] == CPU_IMAGE and "accelerator" not in container["resources"]
    assert container["resources"]["resourceMemoryLimit"] == "8Gi"
    assert platform["exec-train"]["activeDeadlineSeconds"] == "403200", "it outlives those that it follows"
    policy = tasks_of(ir)["train"]["retryPolicy"]
    assert (policy["maxRetryCount"], policy["backoffDuration"]) == (7, "5s")
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    nodes = Nodes.model_validate_json(variables[environment.NODES])
    assert (nodes.image, nodes.pod.nodes, nodes.pod.gpus) == (GPU_IMAGE, 2, 8)
    assert nodes.environment == {"MLFLOW_TRACKING_URI": "http://mlflow:5000", environment.IMAGE: GPU_IMAGE}
    assert variables[environment.IMAGE] == CPU_IMAGE
    assert nodes.service_account == "multiview-steps"
    assert nodes.secrets == {
        "keys": {
            name: name
            for name in (
                *("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
                *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            )
        },
        "hub": {"HF_TOKEN": "HF_TOKEN"},
    }
    for step in platform.values():
        given = {
            s["secretName"]: {k["secretKey"]: k["envVar"] for k in s["keyToEnv"]} for s in step["secretAsEnv"]
        }
        assert given == nodes.secrets
    other = ir["deploymentSpec"]["executors"]["exec-encode"]["container"]
    assert environment.NODES not in {variable["name"] for variable in other["env"]}


GPUS = """
import json
from multiview.config import Config
from multiview.steps.table import STEPS
from pipelines.kubeflow.pods import Pods
pods = Pods(Config())
print(json.dumps([step for step in STEPS if pods.pod(step).gpus]))
"""


def test_which_pods_have_a_gpu_hangs_on_no_import():
    """A fresh process, in which nothing has been compiled, gives the same steps a GPU."""
    done = subprocess.run([sys.executable, "-c", GPUS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == ON_GPU


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"steps": {"encode": {"nodes": 2}}}, "nodes=2 is for train and warm-up alone, not for encode"),
        (
            {"steps": {"spilt": {}}},
            "kubeflow.steps: there is no step 'spilt'; did you mean split or split-again?",
        ),
        (
            {"steps": {"split": {"memroy": "1Gi"}}},
            "kubeflow.steps.split: there is no setting kubeflow.cpu.memroy",
        ),
        ({"steps": {"split": {"memory": "lots"}}}, "kubeflow.steps.split: kubeflow.cpu.memory"),
    ],
)
def test_settings_of_pods_that_cannot_be_had_are_one_line(settings, line):
    with pytest.raises(InputError) as raised:
        Pods(validate({"kubeflow": settings}))
    assert line in str(raised.value)
