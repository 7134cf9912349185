"""The pod that the settings give each step, and whether it has the GPUs that the step's settings need."""

from __future__ import annotations

import json

from multiview.config import Config, JsonObject, Pod
from multiview.config.kubeflow import MULTI_NODE_STEPS, Kubeflow, check_nodes
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.plans.plan import Plan
from multiview.steps.step import Step
from multiview.steps.table import GPU_STEPS, STEPS


def pod_of(settings: Kubeflow, step: str) -> Pod:
    """Returns the pod of a step: the one for CPUs or for GPUs, with the changes of `kubeflow.steps` for this step.

    A step other than a training has at most one GPU, however many the settings give to all steps. Raises InputError for
    settings that no pod can have.
    """
    kind = "gpu" if step in GPU_STEPS else "cpu"
    pod: Pod = getattr(settings, kind)
    try:
        changed = validate({"kubeflow": {kind: {**pod.model_dump(), **settings.steps.get(step, {})}}})
    except InputError as error:
        raise InputError(f"kubeflow.steps.{step}: {error}") from error
    pod = getattr(changed.kubeflow, kind)
    if pod.gpus and step not in GPU_STEPS and not _builds_index(step):
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
    """Raises InputError for a step whose settings need a GPU that its pod lacks, or leave idle the GPU that it has."""
    for node in plan.nodes.values():
        name, settings = node.step.name, json.loads(node.config)
        gpus = pod_of(config.kubeflow, name).gpus
        if not gpus:
            if wish := _gpu_wish(node.step, settings):
                way_out = "kubeflow.gpu.gpus=1" if node.step.gpu else f"kubeflow.steps.{name}.gpus=1"
                raise InputError(
                    f"{node.path}: {wish} needs a GPU, and its pod has none: set {way_out}, or another "
                    f"{wish.split('=')[0]}"
                )
        elif node.step.gpu:
            if idle := _refuses_gpu(settings):
                raise InputError(
                    f"{node.path}: {idle} would leave its pod's GPU idle: leave it out, or set "
                    f"kubeflow.steps.{name}.gpus=0"
                )
            processes = settings["train"].get("processes") if node.step.multi_node else None
            if processes and processes > gpus:
                raise InputError(
                    f"{node.path}: train.processes={processes} needs a GPU for each, and its pod has {gpus}: set "
                    f"kubeflow.steps.{name}.gpus={processes}, or fewer processes"
                )
        elif not _gpu_wish(node.step, settings):
            raise InputError(
                f"{node.path}: kubeflow.steps.{name}.gpus={gpus} would be idle with an image of ours, or an exact index. "
                "An image with faiss-gpu (docs/images.md) uses it for the other kinds: set index.device=cuda where yours "
                "has it, or leave kubeflow's setting out"
            )


def _builds_index(step: str) -> bool:
    """Whether faiss may build an index in a step, which an image with faiss-gpu does on a GPU."""
    return step in STEPS and "index" in STEPS[step].settings


def _refuses_gpu(settings: JsonObject) -> str | None:
    """Returns a setting that keeps a GPU step on the processor."""
    for section in ("encode", "generation"):
        if settings.get(section, {}).get("device") == "cpu":
            return f"{section}.device=cpu"
    return None


def _gpu_wish(step: Step, settings: JsonObject) -> str | None:
    """Returns a setting of a step that only a GPU can satisfy."""
    if step.gpu:
        for section in ("encode", "generation"):
            device = str(settings.get(section, {}).get("device", ""))
            if device.startswith("cuda"):
                return f"{section}.device={device}"
        if settings.get("train", {}).get("precision") == "float16":
            return "train.precision=float16"
    # An exact index is written as it comes, and nothing of it is computed.
    index = settings.get("index", {})
    if index.get("device") == "cuda" and index.get("kind") != "exact":
        return "index.device=cuda"
    return None
