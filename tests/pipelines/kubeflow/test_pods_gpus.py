"""GPUs of compiled pods: how many each step has, and none that a step leaves idle."""

import json
import subprocess
import sys

import pytest

from components import CPU_IMAGE
from multiview.errors import InputError
from multiview.plans.request import Request
from pipelines.kubeflow.compile import compile_request
from tests.fixtures.compiled import ON_GPU, compiled, documents
from tests.fixtures.project import ROOT


@pytest.mark.parametrize("step", ["index", "split", "bm25-negatives", "open-run", "close-run"])
def test_no_gpu_is_paid_for_that_a_step_leaves_idle(tmp_path, step):
    with pytest.raises(InputError, match=f": {step} uses no GPU"):
        compiled(tmp_path, steps={step: {"gpus": 1}})


@pytest.mark.parametrize(
    ("pod", "seen"),
    [
        ({"gpus": 4}, 4),
        ({"gpus": 2, "gpu_type": "amd.com/gpu"}, 2),
        ({"gpus": 2, "gpu_type": "nvidia.com/mig-1g.10gb"}, 1),
    ],
)
def test_a_pod_knows_how_many_gpus_torch_must_see(tmp_path, pod, seen):
    ir, _ = compiled(tmp_path, steps={"train": pod})
    for step, expected in (("train", str(seen)), ("encode", "1"), ("index", None)):
        container = ir["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        assert variables.get("MULTIVIEW_GPUS") == expected


def test_a_step_that_uses_one_gpu_has_one_however_many_trainings_have(tmp_path):
    ir, _ = compiled(tmp_path, gpu={"gpus": 4})
    count = {
        name: executor["container"]["resources"].get("accelerator", {}).get("resourceCount")
        for name, executor in ir["deploymentSpec"]["executors"].items()
    }
    assert {name: count[f"exec-{name}"] for name in ("train", "encode", "mine", "evaluate", "index")} == {
        "train": "4",
        "encode": "1",
        "mine": "1",
        "evaluate": "1",
        "index": None,
    }


def test_a_cpu_for_encoding_wants_pods_without_a_gpu(tmp_path):
    request = Request.from_settings(
        "training",
        None,
        ["encode.device=cpu", "kubeflow.steps={encode: {gpus: 0}, mine: {gpus: 0}, evaluate: {gpus: 0}}"],
    )
    ir, _ = documents(compile_request(request, tmp_path / "training.yaml"))
    assert ir["deploymentSpec"]["executors"]["exec-encode"]["container"]["image"] == CPU_IMAGE


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
