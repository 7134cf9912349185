"""The TrainJob of Kubeflow Trainer for a training on several nodes, as a Kubernetes object.

The step's own pod starts and follows it (`trainjob_client`); its pods run `multiview.steps.backends.trainjob_node`.
"""

from __future__ import annotations

import hashlib
import json
import os

from pydantic import BaseModel

from multiview import environment
from multiview.artifacts.record import Reference
from multiview.config import JsonObject, Pod
from multiview.config.kubeflow import pod_labels
from multiview.errors import InputError

GROUP, VERSION, PLURAL = "trainer.kubeflow.org", "v1alpha1", "trainjobs"
MANAGER = "multiview.dev/step"
"""The manager under whose name the runtime is patched."""
SCRATCH = "/scratch"
"""Where the images have their scratch folder."""
FS_GROUP = 10001
"""The group of the images' user, which owns a volume that is made for a pod."""
NAME_LABEL = "app.kubernetes.io/name"
SELECTOR = f"{NAME_LABEL}=multiview"
"""The selector of our TrainJobs."""
STORE_ANNOTATION = "multiview.dev/store"
"""The annotation with the store that a TrainJob works in."""
RUN_ANNOTATION = "multiview.dev/run"
"""The annotation with the run that started a TrainJob."""
CONTAINER = "node"
"""Kubeflow Trainer's name for the container of a training, and for its job."""


class Nodes(BaseModel, frozen=True, extra="forbid"):
    """The pods that train together, as the pipeline describes them to the step's own pod."""

    image: str
    """Image of the pods, for GPU or CPU."""
    pod: Pod
    """Resources of each of the `pod.nodes` pods."""
    service_account: str | None = None
    """Kubernetes service account of the pods; None: the namespace's default."""
    environment: dict[str, str] = {}
    """Environment variables of the pods."""
    secrets: dict[str, dict[str, str]] = {}
    """Environment variables from secrets: per secret its keys, each with its variable."""
    queue: str | None = None
    """Kueue's LocalQueue that the TrainJob waits in; None: no queue."""
    runtime: str = "torch-distributed"
    """The ClusterTrainingRuntime from which Kubeflow Trainer makes the pods."""
    namespace: str | None = None
    """Namespace of the pods; None: the namespace of the step's own pod."""


class Task(BaseModel, frozen=True):
    """The argument of each pod of a TrainJob: one step of one run."""

    store: str
    run: str
    path: str
    step: str
    config: str
    """The step's settings as JSON, as its component received them."""
    inputs: dict[str, list[Reference]]
    key: str


def nodes_here() -> Nodes | None:
    """Returns the nodes that the environment describes; None on one node. Raises InputError for an invalid `Nodes`."""
    text = os.environ.get(environment.NODES)
    if not text:
        return None
    try:
        nodes = Nodes.model_validate_json(text)
    except ValueError as error:
        raise InputError(
            f"{environment.NODES}: not a description of nodes ({str(error).splitlines()[0]}); compile the pipeline again"
        ) from error
    return nodes if nodes.pod.nodes > 1 else None


def job_name(task: Task) -> str:
    """Returns the job's name, a DNS label: one per artifact and store, so that a retry finds the running job."""
    identity = hashlib.sha256(f"{task.store}\n{task.key}".encode()).hexdigest()
    return f"{task.step}-{identity[:24]}"


def train_job(task: Task, nodes: Nodes) -> JsonObject:
    """Returns the TrainJob in the form of `trainer.kubeflow.org/v1alpha1`."""
    pod = nodes.pod
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "TrainJob",
        "metadata": {
            "name": job_name(task),
            "labels": {
                **pod_labels(pod, nodes.queue),
                NAME_LABEL: "multiview",
                "app.kubernetes.io/component": task.step,
            },
            "annotations": {
                **pod.annotations,
                STORE_ANNOTATION: task.store,
                RUN_ANNOTATION: task.run,
                "multiview.dev/path": task.path,
                "multiview.dev/key": task.key,
            },
        },
        "spec": {
            "runtimeRef": {"apiGroup": GROUP, "kind": "ClusterTrainingRuntime", "name": nodes.runtime},
            "trainer": {
                "image": nodes.image,
                "command": ["python", "-m", "multiview.steps.backends.trainjob_node"],
                "args": [task.model_dump_json()],
                "env": _environment(nodes),
                "numNodes": pod.nodes,
                "numProcPerNode": _processes(task, pod),
                "resourcesPerNode": _resources(pod),
            },
            "runtimePatches": [
                {
                    "manager": MANAGER,
                    "trainingRuntimeSpec": {
                        "template": {
                            "spec": {
                                "replicatedJobs": [
                                    {
                                        "name": CONTAINER,
                                        "template": {"spec": {"template": _template_patch(pod, nodes)}},
                                    }
                                ]
                            }
                        }
                    },
                }
            ],
            "activeDeadlineSeconds": round(pod.timeout_hours * 3600),
        },
    }


def owned_by(job: JsonObject, name: str, uid: str) -> JsonObject:
    """Returns a job, or its patch, with a pod among its owners: Kubernetes deletes it when none of them is left."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "blockOwnerDeletion": False}
    metadata = job["metadata"]
    owners = [known for known in metadata.get("ownerReferences", ()) if known["uid"] != uid]
    return {**job, "metadata": {**metadata, "ownerReferences": [*owners, owner]}}


def _processes(task: Task, pod: Pod) -> int:
    """Returns the number of processes that the pods will choose: as set, else one per GPU, else one."""
    return json.loads(task.config)["train"].get("processes") or max(pod.gpus, 1)


def _environment(nodes: Nodes) -> list[JsonObject]:
    plain = [{"name": name, "value": value} for name, value in nodes.environment.items()]
    return plain + [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for secret, variables in nodes.secrets.items()
        for key, variable in variables.items()
    ]


def _resources(pod: Pod) -> dict[str, dict[str, str]]:
    accelerators = {pod.gpu_type: str(pod.gpus)} if pod.gpus else {}
    return {
        "requests": {"cpu": pod.cpu, "memory": pod.memory, **accelerators},
        "limits": {"memory": pod.memory, **accelerators},
    }


def _template_patch(pod: Pod, nodes: Nodes) -> JsonObject:
    # A sidecar of Istio's, which a namespace of Kubeflow's gives pods, does not pass torchrun's connections on,
    # and outlives the training.
    metadata: JsonObject = {"labels": {**pod.labels, "sidecar.istio.io/inject": "false"}}
    if pod.annotations:
        metadata["annotations"] = dict(pod.annotations)
    return {"metadata": metadata, "spec": _pod_patch(pod, nodes)}


def _pod_patch(pod: Pod, nodes: Nodes) -> JsonObject:
    patch: JsonObject = {"securityContext": _pod_security(pod)}
    if nodes.service_account:
        patch["serviceAccountName"] = nodes.service_account
    if pod.node_selector:
        patch["nodeSelector"] = dict(pod.node_selector)
    if pod.node_affinity:
        patch["affinity"] = {"nodeAffinity": _node_affinity(pod)}
    if pod.tolerations:
        given = [toleration.model_dump() for toleration in pod.tolerations]
        patch["tolerations"] = [{name: value for name, value in t.items() if value} for t in given]
    if pod.image_pull_secrets:
        patch["imagePullSecrets"] = [{"name": name} for name in pod.image_pull_secrets]
    patch["volumes"], mounts = _volumes(pod)
    patch["containers"] = [{"name": CONTAINER, "securityContext": CONTAINER_SECURITY, "volumeMounts": mounts}]
    return patch


def _node_affinity(pod: Pod) -> JsonObject:
    required: list[JsonObject] = []
    preferred: list[JsonObject] = []
    for one in pod.node_affinity:
        condition = one.model_dump(mode="json", exclude={"weight"})
        if one.weight is None:
            required.append(condition)
        else:
            preferred.append({"weight": one.weight, "preference": {"matchExpressions": [condition]}})
    affinity: JsonObject = {}
    if required:
        terms = [{"matchExpressions": required}]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def _pod_security(pod: Pod) -> JsonObject:
    """Returns a pod's security context for the level `restricted`, with the group that may write to its volume."""
    security: JsonObject = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**security, "fsGroup": FS_GROUP} if pod.scratch else security


def _volumes(pod: Pod) -> tuple[list[JsonObject], list[dict[str, str]]]:
    """Returns a pod's volumes and where they are mounted: all that it can write to."""
    scratch: JsonObject = {"name": "scratch", "emptyDir": {}}
    mounts = [{"name": "scratch", "mountPath": SCRATCH}]
    if pod.scratch:
        claim: JsonObject = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": pod.scratch}},
        }
        if pod.scratch_class:
            claim["storageClassName"] = pod.scratch_class
        scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    volumes = [scratch]
    if pod.shared_memory:
        memory = {"medium": "Memory", "sizeLimit": pod.shared_memory}
        volumes.append({"name": "shared-memory", "emptyDir": memory})
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    return volumes, mounts
