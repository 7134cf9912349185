"""Settings of Kubeflow: the resources of each step's pod, and notifications. None changes a step's output."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from multiview.config.section import HOW, JsonObject, Section

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[KMGTP]i?)?$", coerce_numbers_to_str=True)]
"""An amount as Kubernetes writes it: 500m, 2, 16Gi."""


def _check_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+\S*", value):
        raise PydanticCustomError("address", "expected an address as in http://HOST:PORT or https://HOST")
    return value


Address = Annotated[str, AfterValidator(_check_address)]
"""Address of an HTTP service."""


class Toleration(Section):
    """A node taint that a pod tolerates."""

    key: str
    """The taint's key, such as nvidia.com/gpu."""
    operator: Literal["Equal", "Exists"] = "Exists"
    """`Equal` compares the taint's value; `Exists` ignores it."""
    value: str = ""
    """The taint's value, with operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """The taint's effect; none: any."""


class Pod(Section):
    """Resources of a pod. Memory is both request and limit; processor time has no limit."""

    cpu: Quantity = "2"
    """Processors requested."""
    memory: Quantity = "8Gi"
    """Memory requested, which is also the limit."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """Number of accelerators; with 0 the step runs in the CPU image."""
    gpu_type: str = "nvidia.com/gpu"
    """The accelerators' resource name."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """Number of pods of this size that train together, only for the steps `train` and `warm-up`. Several pods run as a TrainJob of Kubeflow Trainer, which the step's own pod starts and follows (docs/kubeflow.md)."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which processes that train together need; none: the node's default of 64 MB."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes to run on, as in {cloud.google.com/gke-nodepool: gpu-spot}."""
    tolerations: tuple[Toleration, ...] = ()
    """Node taints that the pod tolerates, as in [{key: nvidia.com/gpu}]."""
    timeout_hours: Annotated[float, Field(gt=0)] = 24.0
    """Longest running time of a pod in hours; Kubeflow ends a pod that runs longer."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Retries of a failed step. Each retry continues where the last attempt stopped."""
    backoff_seconds: Annotated[int, Field(ge=0)] = 60
    """Seconds before the first retry; the wait doubles with each further retry."""


class GpuPod(Pod):
    """A pod that has a GPU by default."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: object) -> object:
        return {**GPU_DEFAULTS, **values} if isinstance(values, dict) else values


GPU_DEFAULTS = {
    "cpu": "4",
    "memory": "32Gi",
    "gpus": 1,
    "shared_memory": "8Gi",
    "tolerations": ({"key": "nvidia.com/gpu"},),
}


MULTI_NODE_STEPS = ("train", "warm-up")
"""Steps that several pods can do together (`Step.multi_node`)."""


def check_nodes(step: str, nodes: int) -> None:
    """Raises ValueError for more than one node if the step cannot use them."""
    if nodes != 1 and step not in MULTI_NODE_STEPS:
        raise ValueError(f"nodes={nodes} is for {' and '.join(MULTI_NODE_STEPS)} alone, not for {step}")


class Kubeflow(Section):
    """Execution of steps on Kubeflow. These settings have no effect elsewhere and change no step's output. *Ours.*"""

    cpu: Pod = Pod()
    """Pods of steps that need no GPU."""
    gpu: GpuPod = GpuPod()
    """Pods of steps that use a GPU: training, encoding, generation, mining and evaluation."""
    steps: dict[str, JsonObject] = {}
    """Changed settings per step name, as in {split: {memory: 64Gi}, train: {gpus: 4}}."""
    service_account: str | None = None
    """Kubernetes service account of the pods; none: the pipeline's default account."""
    mlflow_uri: Address | None = None
    """MLflow's address as pods reach it; none: the address from Kubeflow's MLflow plugin, and without the plugin nothing reaches MLflow until `multiview sync`."""
    mlflow_secret: str | None = None
    """Secret with the keys MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""
    hub_secret: str | None = None
    """Secret with the key HF_TOKEN, for models of the Hugging Face hub that require it."""
    bucket_secret: str | None = None
    """Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for a store on s3:// that does not accept a workload identity."""
    environment: dict[str, str] = {}
    """Further environment variables of every pod, such as a bucket's endpoint."""

    @field_validator("steps")
    @classmethod
    def _nodes_train(cls, steps: dict[str, JsonObject]) -> dict[str, JsonObject]:
        for step, changes in steps.items():
            check_nodes(step, changes.get("nodes", 1))
        return steps


class Notify(Section):
    """Notifications of failed runs on Kubeflow and of the verdicts of refreshes. *Ours.*"""

    url: Annotated[Address | None, HOW] = None
    """Address that receives JSON by POST: the failed steps and their error lines when a run on Kubeflow fails, and the verdict of every refresh."""
