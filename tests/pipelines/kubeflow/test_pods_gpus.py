"""GPUs of pods: how many each step has, and none that a step leaves idle."""

import pytest

from components import CPU_IMAGE
from multiview import environment
from multiview.config.overrides import validate
from multiview.plans.pod_settings import check_gpus
from multiview.plans.request import Request
from multiview.steps.table import STEPS
from pipelines.kubeflow.pod_template import pod_template
from pipelines.kubeflow.pods import Pods
from tests.fixtures.compiled import ON_GPU


def container(step: str, **kubeflow: object) -> dict:
    """The container of a step's pod with these settings of Kubeflow."""
    template = pod_template(Pods(validate({"kubeflow": kubeflow})).pod(step), {}, {})
    return template["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("pod", "seen"),
    [
        ({"gpus": 4}, 4),
        ({"gpus": 2, "gpu_type": "amd.com/gpu"}, 2),
        ({"gpus": 2, "gpu_type": "nvidia.com/mig-1g.10gb"}, 1),
    ],
)
def test_a_pod_knows_how_many_gpus_torch_must_see(pod, seen):
    for step, expected in (("train", str(seen)), ("encode", "1"), ("index", None)):
        given = {each["name"]: each["value"] for each in container(step, steps={"train": pod})["env"]}
        assert given.get(environment.GPUS) == expected


def test_a_step_that_uses_one_gpu_has_one_however_many_trainings_have():
    found = {step: Pods(validate({"kubeflow": {"gpu": {"gpus": 4}}})).pod(step).gpus for step in STEPS}
    several = dict.fromkeys(("train", "warm-up"), 4)
    assert found == dict.fromkeys(STEPS, 0) | dict.fromkeys(ON_GPU, 1) | several


def test_a_cpu_for_encoding_wants_pods_without_a_gpu():
    steps = {step: {"gpus": 0} for step in ("encode", "mine", "evaluate")}
    request = Request.make("training", {"encode": {"device": "cpu"}, "kubeflow": {"steps": steps}})
    check_gpus(request.plan, request.config)
    assert container("encode", steps=steps)["image"] == CPU_IMAGE
