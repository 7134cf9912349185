"""Settings of Kubeflow: what each step's pod asks for, and whom to tell. None changes what a step writes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from multiview.config.section import HOW, Section

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[KMGTP]i?)?$", coerce_numbers_to_str=True)]
"""An amount as Kubernetes writes it: 500m, 2, 16Gi."""


def _check_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+\S*", value):
        raise PydanticCustomError("address", "expected an address as in http://HOST:PORT or https://HOST")
    return value


Address = Annotated[str, AfterValidator(_check_address)]
"""Where something answers over HTTP."""


class Toleration(Section):
    """A taint of nodes that a pod may run on in spite of it."""

    key: str
    """The taint's key, such as nvidia.com/gpu."""
    operator: Literal["Equal", "Exists"] = "Exists"
    """Whether the taint's value counts."""
    value: str = ""
    """The taint's value, with operator Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """The taint's effect; none: any."""


class Pod(Section):
    """What a pod asks for. Memory is its request and its limit; processor time has no limit."""

    cpu: Quantity = "2"
    """Processors asked for."""
    memory: Quantity = "8Gi"
    """Memory asked for, and its limit."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """Accelerators; with none the step runs in the CPU image."""
    gpu_type: str = "nvidia.com/gpu"
    """The accelerators' resource name."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """Pods of this size that train together, for the steps `train` and `warm-up` alone: more than one run as a TrainJob of Kubeflow Trainer, which the step's own pod starts and follows (docs/kubeflow.md)."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which processes that train together need; none: the node's default of 64 MB."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes to run on, as in {cloud.google.com/gke-nodepool: gpu-spot}."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints to run in spite of, as in [{key: nvidia.com/gpu}]."""
    timeout_hours: Annotated[float, Field(gt=0)] = 24.0
    """A pod that runs longer is ended."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Times that a failed step is tried again. Each goes on where the last one was."""
    backoff_seconds: Annotated[int, Field(ge=0)] = 60
    """Wait before the first retry; it doubles with each."""


class GpuPod(Pod):
    """A pod with a GPU, unless told otherwise."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, given: Any) -> Any:
        return {**GPU_DEFAULTS, **given} if isinstance(given, dict) else given


GPU_DEFAULTS = {
    "cpu": "4",
    "memory": "32Gi",
    "gpus": 1,
    "shared_memory": "8Gi",
    "tolerations": ({"key": "nvidia.com/gpu"},),
}


TOGETHER = ("train", "warm-up")
"""Steps that several pods can do together; `steps` says the same, and a test compares them."""


def check_nodes(step: str, nodes: int) -> None:
    """ValueError for more than one node where a step cannot use them."""
    if nodes != 1 and step not in TOGETHER:
        raise ValueError(f"nodes={nodes} is for {' and '.join(TOGETHER)} alone, not for {step}")


class Kubeflow(Section):
    """Where steps run on Kubeflow. Nothing of it changes what a step writes, or is used elsewhere. *Ours.*"""

    cpu: Pod = Pod()
    """Pods of steps that need no GPU."""
    gpu: GpuPod = GpuPod()
    """Pods of steps that use a GPU: training, encoding, generation, mining and evaluation."""
    steps: dict[str, dict[str, Any]] = {}
    """What differs for single steps, by their names, as in {split: {memory: 64Gi}, train: {gpus: 4}}."""
    service_account: str | None = None
    """Kubernetes service account of the pods; none: the pipeline's own."""
    mlflow_uri: Address | None = None
    """MLflow's address as pods reach it; none: what Kubeflow's MLflow plugin gives, else nothing is told to MLflow until `multiview sync`."""
    mlflow_secret: str | None = None
    """Secret with the keys MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""
    hub_secret: str | None = None
    """Secret with the key HF_TOKEN, for models of the Hugging Face hub that ask for it."""
    bucket_secret: str | None = None
    """Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for a store on s3:// that takes no workload's identity."""
    environment: dict[str, str] = {}
    """Further environment variables of every pod, such as a bucket's endpoint."""

    @field_validator("steps")
    @classmethod
    def _nodes_train(cls, steps: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for step, changes in steps.items():
            check_nodes(step, changes.get("nodes", 1))
        return steps


class Notify(Section):
    """Whom to tell when a run on Kubeflow fails, and how a refresh ends. *Ours.*"""

    url: Annotated[Address | None, HOW] = None
    """An address that takes JSON by POST: of a run that failed on Kubeflow its steps with their lines, of every refresh the verdict."""
