"""Each step's pod by the settings, and the check that it has the GPUs that the step's settings need."""

import json

from multiview.config import Config, Pod
from multiview.config.kubeflow import MULTI_NODE_STEPS, Kubeflow, check_nodes
from multiview.config.overrides import validate
from multiview.errors import InputError, naming
from multiview.plans.plan import Plan
from multiview.steps.table import GPU_STEPS


def pod_of(settings: Kubeflow, step: str) -> Pod:
    """Returns the pod of a step: the CPU or GPU pod, with the changes of `kubeflow.steps`. A step that does not train
    gets at most one GPU, even if `kubeflow.gpu` has more. Raises InputError for settings that its pod cannot have."""
    kind = "gpu" if step in GPU_STEPS else "cpu"
    pod: Pod = getattr(settings, kind)
    with naming(f"kubeflow.steps.{step}"):
        changed = validate({"kubeflow": {kind: {**pod.model_dump(), **settings.steps.get(step, {})}}})
    pod = getattr(changed.kubeflow, kind)
    if pod.gpus and step not in GPU_STEPS:
        where = f"steps.{step}" if "gpus" in settings.steps.get(step, {}) else kind
        raise InputError(f"kubeflow.{where}.gpus={pod.gpus}: {step} uses no GPU: leave the setting out")
    if pod.gpus > 1 and step not in MULTI_NODE_STEPS:
        if "gpus" in settings.steps.get(step, {}):
            raise InputError(
                f"kubeflow.steps.{step}.gpus={pod.gpus}: {step} uses one GPU at most; "
                f"only {' and '.join(MULTI_NODE_STEPS)} use several"
            )
        pod = pod.model_copy(update={"gpus": 1})
    try:
        check_nodes(step, pod.nodes)
    except ValueError as error:
        raise InputError(f"kubeflow.{kind}.nodes: {error}") from error
    if pod.priority_class and not settings.queue:
        raise InputError(
            f"kubeflow.{kind}.priority_class: {pod.priority_class} is one of Kueue's and needs a queue: set "
            "kubeflow.queue. Kubernetes' own PriorityClass comes from the cluster (docs/cluster.md, Priorities): "
            "neither KFP nor Kubeflow Trainer hands one to a pod"
        )
    return pod


def check_gpus(plan: Plan, config: Config) -> None:
    """Raises InputError for a step whose settings need a GPU that its pod lacks, or would leave a GPU of its pod idle, and
    for a training with more processes than questions per step."""
    for node in plan.nodes.values():
        name, settings = node.step.name, json.loads(node.config)
        pod = pod_of(config.kubeflow, name)
        gpus = pod.gpus
        if not node.step.gpu:
            continue
        device = settings.get("encode", {}).get("device", "auto")
        needs = {"encode.device": device} if device.startswith("cuda") else {}
        for section, setting in (("train", "precision"), ("encode", "compute")):
            if settings.get(section, {}).get(setting) == "float16":
                needs[f"{section}.{setting}"] = "float16"
        for setting, value in needs.items() if not gpus else ():
            raise InputError(
                f"{node.path}: {setting}={value} needs a GPU, and its pod has none: set kubeflow.gpu.gpus=1, or another "
                f"{setting}"
            )
        if gpus and device == "cpu":
            raise InputError(
                f"{node.path}: encode.device=cpu would leave its pod's GPU idle: leave it out, or set "
                f"kubeflow.steps.{name}.gpus=0"
            )
        if not node.step.multi_node:
            continue
        processes = settings["train"]["processes"]
        if gpus and processes and processes > gpus:
            raise InputError(
                f"{node.path}: train.processes={processes} needs a GPU for each, and its pod has {gpus}: set "
                f"kubeflow.steps.{name}.gpus={processes}, or fewer processes"
            )
        if processes and processes < pod.visible_gpus:
            raise InputError(
                f"{node.path}: train.processes={processes} would leave GPUs of its pod idle, which has {gpus}: "
                f"leave it out, or set kubeflow.steps.{name}.gpus={processes}"
            )
        together = (processes or max(pod.visible_gpus, 1)) * pod.nodes
        if together > (batch_size := settings["train"]["batch_size"]):
            raise InputError(
                f"{node.path}: train.batch_size={batch_size} leaves some of {together} processes without a question: "
                "raise it, or set fewer GPUs, nodes or train.processes"
            )
