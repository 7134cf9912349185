"""Settings of Kubeflow (each step's pod) and of notifications. They change no step's output."""

import os
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from multiview import environment
from multiview.config.section import DERIVED, UNKEYED, Address, JsonObject, Section, matching

LabelKey = Annotated[
    str,
    Field(pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"),
]
"""The key of a Kubernetes label or annotation: [PREFIX/]NAME."""

LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]
"""The value of a Kubernetes label."""

ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
"""The name of a Kubernetes object."""

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[KMGTP]i?)?$", coerce_numbers_to_str=True)]
"""An amount as Kubernetes writes it: 500m, 2, 16Gi."""

Processors = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)?|[0-9]+m)$", coerce_numbers_to_str=True)]
Memory = Annotated[
    str,
    Field(coerce_numbers_to_str=True),
    matching(r"[1-9][0-9]*[MGTP]i?", "expected a whole number of a unit from M on, as in 16Gi"),
]
"""Amounts as KFP takes them: 0.5 or 500m for processors, 16Gi for memory, but neither 1.5Gi nor bytes."""


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


class NodeAffinity(Section):
    """A condition on a label of the nodes to run on."""

    key: str
    """The label's key, such as topology.kubernetes.io/zone."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    """How the label is compared with `values`; `Exists` and `DoesNotExist` take none, `Gt` and `Lt` one number."""
    values: tuple[str, ...] = ()
    """Values of the label, as in [europe-west4-a, europe-west4-b]."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Weight of a preference among others, from 1 to 100; none: the nodes must fulfil the condition."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        count, without = len(self.values), self.operator in ("Exists", "DoesNotExist")
        one = self.operator in ("Gt", "Lt")
        if (without and count) or (one and count != 1) or (not (without or one) and not count):
            expected = "no values" if without else "one value" if one else "values"
            raise PydanticCustomError("affinity", f"operator {self.operator} takes {expected}")
        return self


class Pod(Section):
    """Resources of a pod. Memory is both request and limit; processor time has no limit."""

    cpu: Processors = "2"
    """Processors requested."""
    memory: Memory = "8Gi"
    """Memory requested, which is also the limit."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """Number of accelerators; with 0 the step runs in the CPU image. Only `train` and `warm-up` use several; other steps get one. Refused for a step that would leave them idle."""
    gpu_type: str = "nvidia.com/gpu"
    """The accelerators' resource name."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """Number of pods of this size that train together, only for the steps `train` and `warm-up`. Several pods run as a TrainJob of Kubeflow Trainer, which the step's own pod starts and follows (docs/kubeflow.md)."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which processes that train together need; none: the node's default of 64 MB."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes to run on, as in {cloud.google.com/gke-nodepool: gpu-spot}."""
    node_affinity: tuple[NodeAffinity, ...] = ()
    """Conditions that the nodes must all fulfil, or with a `weight` should, as in [{key: topology.kubernetes.io/zone, values: [europe-west4-a]}]."""
    tolerations: tuple[Toleration, ...] = ()
    """Node taints that the pod tolerates, as in [{key: nvidia.com/gpu}]."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels of the pod, as in {cost-centre: search}."""
    annotations: dict[LabelKey, str] = {}
    """Annotations of the pod."""
    priority_class: LabelValue | None = None
    """Kueue's WorkloadPriorityClass; needs `kubeflow.queue`. Kubernetes' own PriorityClass comes from the cluster (docs/cluster.md): neither KFP nor Kubeflow Trainer hands one to a pod."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets with which the node fetches the image, as in [registry]."""
    scratch: Quantity | None = None
    """Size of a volume at /scratch that is made for the pod and deleted with it, as in 1Ti; none: the node's own disk (docs/kubeflow.md)."""
    scratch_class: ObjectName | None = None
    """Storage class of that volume; none: the cluster's default."""
    parallel_shards: Annotated[int, Field(ge=1)] | None = None
    """Shards that are worked on at once, for steps that run per shard; none: all."""
    timeout_hours: Annotated[float, Field(ge=0.02)] = 24.0
    """Longest running time of a pod in hours; Kubeflow ends a pod that runs longer."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Retries of a failed step. Each retry continues where the last attempt stopped."""
    backoff_seconds: Annotated[int, Field(ge=0)] = 60
    """Seconds before the first retry; the wait doubles with each further retry."""

    @property
    def visible_gpus(self) -> int:
        """Least number of GPUs that torch must see in the pod: CUDA shows a process at most one slice of a GPU."""
        return self.gpus if self.gpu_type in WHOLE_GPUS else min(self.gpus, 1)


WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
"""Resource names of whole accelerators: torch sees every one that a pod has."""


class GpuPod(Pod):
    """A pod that has a GPU by default."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: object) -> object:
        defaults = {"cpu": "4", "memory": "32Gi", "gpus": 1, "shared_memory": "8Gi"}
        defaults |= {"tolerations": ({"key": "nvidia.com/gpu"},)}
        return {**defaults, **values} if isinstance(values, dict) else values


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
    """Pods of steps that use a GPU: training, encoding, generation, mining and evaluation. The same settings as `kubeflow.cpu` has, with these defaults."""
    steps: dict[str, JsonObject] = {}
    """Changed settings per step name, as in {split: {memory: 64Gi}, train: {gpus: 4}}."""
    queue: LabelValue | None = None
    """Kueue's LocalQueue that the pods of steps and TrainJobs wait in; none: no queue. A run's first and last step do not wait."""
    run_as_non_root: bool | None = None
    """Whether pods declare that they do not run as root, as the pod-security level `restricted` demands; needs KFP 2.16 or later. None: they do if `submit` or `schedule apply` finds such a version. The images run as user 10001 in any case."""
    retry_policy: Literal["Always", "OnError", "OnFailure"] | None = None
    """Which failures of a step are tried again: those of its process (OnFailure), those of its pod (OnError), or both; needs KFP 2.18 or later, and its SDK. None: Always if `submit` or `schedule apply` finds both, else Argo's own setting."""
    service_account: str | None = None
    """Kubernetes service account of the pods, which KFP 2.18 and later must allow (docs/cluster.md); none: the pipeline's default account."""
    mlflow_uri: Address | None = None
    """MLflow's address as pods reach it; none: the address from Kubeflow's MLflow plugin, and without the plugin nothing reaches MLflow until `multiview sync`."""
    secrets: dict[Literal["mlflow", "hub", "bucket", "session", "qdrant", "llm", "notify"], ObjectName] = {}
    """Kubernetes Secrets by purpose, as in {hub: huggingface}, with these keys: `mlflow` MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; `hub` HF_TOKEN; `bucket` AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for a store on s3:// without a workload identity, and if they are temporary `session` AWS_SESSION_TOKEN; `qdrant` MULTIVIEW_QDRANT_API_KEY; `llm` OPENAI_API_KEY; `notify` MULTIVIEW_NOTIFY_URL, an address for `notify.url` that no setting shows."""
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

    url: Annotated[Address | None, UNKEYED] = None
    """Address, such as a chat's incoming webhook, that receives JSON by POST when a run on Kubeflow fails and with the verdict of every refresh, once for each corpus and champion. MLflow shows settings, so a secret address belongs in MULTIVIEW_NOTIFY_URL (`kubeflow.secrets`), which is read if this is none."""
    kubeflow: Annotated[Address | None, UNKEYED, DERIVED] = None
    """Address of the Kubeflow pages that a notification links to: those that `submit` or `schedule apply` used."""


def notified(notify: Notify) -> str | None:
    """Returns the address that is notified: `notify.url`, else the one in MULTIVIEW_NOTIFY_URL."""
    return notify.url or os.environ.get(environment.NOTIFY_URL) or None


def reached_by_people(address: str | None) -> str | None:
    """Returns an address if a browser may reach its pages; None for a service in a cluster, and for all but HTTP."""
    address = address or ""
    labels = (urlsplit(address).hostname or "").split(".")
    return address if address.startswith("http") and len(labels) > 1 and "svc" not in labels else None
