"""A pod's settings in Kubernetes' form, from which a KFP task is configured or a TrainJob is made."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from kfp import kubernetes
from kubernetes.utils import parse_quantity

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from multiview.config import JsonObject, Pod
from multiview.steps.backends.trainjob import CONTAINER, GROUP, NAME_LABEL, OURS, VERSION

KfpObject: TypeAlias = Any
"""A task, an output or a pipeline of KFP's SDK, whose types are mostly not declared."""

Secrets: TypeAlias = Mapping[str, Mapping[str, str]]
"""Per secret, the environment variable for each of its keys."""
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
"""Labels by which Kueue recognises a pod or a TrainJob."""
MOUNTS = {"shared-memory": "/dev/shm", "scratch": "/scratch"}
"""Where volumes are mounted, by name; the images have their scratch folder at /scratch."""
FS_GROUP = 10001
"""The group of the images' user, which owns a volume that is made for a pod."""
SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""With `SECURITY`: what the pod-security level `restricted` demands, and a read-only root file system."""


def pod_template(
    pod: Pod, variables: Mapping[str, str], secrets: Secrets, labels: Mapping[str, str] | None = None
) -> JsonObject:
    """Returns a pod's metadata and spec, with further environment variables and labels, and without empty fields."""
    image = GPU_IMAGE if pod.gpus else CPU_IMAGE
    processors = math.ceil(parse_quantity(pod.cpu))
    variables = {**variables, environment.IMAGE: image, environment.PROCESSORS: str(processors)}
    if pod.gpus:
        variables[environment.GPUS] = str(pod.visible_gpus)
    accelerators = {pod.gpu_type: str(pod.gpus)} if pod.gpus else {}
    volumes = _volumes(pod)
    container = {
        "name": CONTAINER,
        "image": image,
        "env": [{"name": name, "value": value} for name, value in variables.items()]
        + [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for secret, keys in secrets.items()
            for key, name in keys.items()
        ],
        "resources": {
            "requests": {"cpu": pod.cpu, "memory": pod.memory, **accelerators},
            "limits": {"memory": pod.memory, **accelerators},
        },
        "volumeMounts": [{"name": one["name"], "mountPath": MOUNTS[one["name"]]} for one in volumes],
    }
    spec = {
        "containers": [container],
        "nodeSelector": pod.node_selector,
        "affinity": _filled({"nodeAffinity": _node_affinity(pod)}),
        "tolerations": [_filled(toleration.model_dump()) for toleration in pod.tolerations],
        "imagePullSecrets": [{"name": name} for name in pod.image_pull_secrets],
        "volumes": volumes,
    }
    metadata = {"labels": {**pod.labels, **(labels or {})}, "annotations": pod.annotations}
    return {"metadata": _filled(metadata), "spec": _filled(spec)}


def queue_labels(pod: Pod, queue: str | None) -> dict[str, str]:
    """Returns the labels by which Kueue recognises a pod or a TrainJob; none without a queue."""
    return _filled({QUEUE_LABEL: queue, PRIORITY_LABEL: pod.priority_class}) if queue else {}


def configure_task(task: KfpObject, template: JsonObject) -> None:
    """Gives a KFP task the pod of a template."""
    metadata, spec = template["metadata"], template["spec"]
    (container,) = spec["containers"]
    _configure_container(task, container)
    for volume in spec.get("volumes", ()):
        _mount(task, volume)
    for key, value in spec.get("nodeSelector", {}).items():
        kubernetes.add_node_selector(task, key, value)
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    for term in affinity.get(REQUIRED, {}).get("nodeSelectorTerms", ()):
        kubernetes.add_node_affinity(task, term["matchExpressions"])
    for term in affinity.get(PREFERRED, ()):
        kubernetes.add_node_affinity(task, term["preference"]["matchExpressions"], weight=term["weight"])
    for toleration in spec.get("tolerations", ()):
        kubernetes.add_toleration(task, **toleration)
    for key, value in metadata.get("labels", {}).items():
        kubernetes.add_pod_label(task, key, value)
    for key, value in metadata.get("annotations", {}).items():
        kubernetes.add_pod_annotation(task, key, value)
    if secrets := spec.get("imagePullSecrets"):
        kubernetes.set_image_pull_secrets(task, [secret["name"] for secret in secrets])


def train_job(pod: Pod, template: JsonObject, service_account: str | None, queue: str | None) -> JsonObject:
    """Returns a TrainJob of `pod.nodes` pods made from a template; the step's own pod adds the task to it."""
    (container,) = template["spec"]["containers"]
    scratch = [] if pod.scratch else [{"name": "scratch", "emptyDir": {}}]
    mounts = [{"name": one["name"], "mountPath": MOUNTS[one["name"]]} for one in scratch]
    spec = template["spec"] | {
        "securityContext": SECURITY | ({"fsGroup": FS_GROUP} if pod.scratch else {}),
        "volumes": [*template["spec"].get("volumes", ()), *scratch],
        "containers": [
            {
                "name": CONTAINER,
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [*container["volumeMounts"], *mounts],
            }
        ],
    }
    if service_account:
        spec["serviceAccountName"] = service_account
    # The Istio sidecar that pods get in Kubeflow's namespaces does not forward torchrun's connections,
    # and outlives the training.
    metadata = template["metadata"] | {"labels": {**pod.labels, "sidecar.istio.io/inject": "false"}}
    job = {"name": CONTAINER, "template": {"spec": {"template": {"metadata": metadata, "spec": spec}}}}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "TrainJob",
        "metadata": {
            "labels": {**pod.labels, **queue_labels(pod, queue), NAME_LABEL: OURS},
            "annotations": dict(pod.annotations),
        },
        "spec": {
            "runtimeRef": {"apiGroup": GROUP, "kind": "ClusterTrainingRuntime", "name": "torch-distributed"},
            "trainer": {
                "image": container["image"],
                "command": ["python", "-m", "multiview.steps.backends.trainjob_node"],
                "env": container["env"],
                "numNodes": pod.nodes,
                "numProcPerNode": max(pod.gpus, 1),
                "resourcesPerNode": container["resources"],
            },
            "runtimePatches": [
                {
                    "manager": "multiview.dev/step",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
                }
            ],
            "activeDeadlineSeconds": round(pod.timeout_hours * 3600),
        },
    }


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _node_affinity(pod: Pod) -> JsonObject:
    required, preferred = [], []
    for one in pod.node_affinity:
        condition = one.model_dump(mode="json", exclude={"weight"})
        if one.weight is None:
            required.append(condition)
        else:
            preferred.append({"weight": one.weight, "preference": {"matchExpressions": [condition]}})
    # A node must fulfil all expressions of one term.
    terms = {"nodeSelectorTerms": [{"matchExpressions": required}]} if required else None
    return _filled({REQUIRED: terms, PREFERRED: preferred})


def _volumes(pod: Pod) -> list[JsonObject]:
    volumes: list[JsonObject] = []
    if pod.shared_memory:
        memory = {"medium": "Memory", "sizeLimit": pod.shared_memory}
        volumes.append({"name": "shared-memory", "emptyDir": memory})
    if pod.scratch:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": pod.scratch}},
            "storageClassName": pod.scratch_class,
        }
        template = {"spec": _filled(claim)}
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}})
    return volumes


def _mount(task: KfpObject, volume: JsonObject) -> None:
    name, path = volume["name"], MOUNTS[volume["name"]]
    if memory := volume.get("emptyDir"):
        kubernetes.empty_dir_mount(task, name, path, memory["medium"], memory["sizeLimit"])
        return
    claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
    modes, size = claim["accessModes"], claim["resources"]["requests"]["storage"]
    storage_class = claim.get("storageClassName")
    kubernetes.add_ephemeral_volume(task, name, path, modes, size, storage_class_name=storage_class)


def _configure_container(task: KfpObject, container: JsonObject) -> None:
    """Sets a task's image, resources and environment."""
    task.set_container_image(container["image"])
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    task.set_cpu_request(requests["cpu"])
    task.set_memory_request(requests["memory"]).set_memory_limit(limits["memory"])
    for kind in limits.keys() - {"memory"}:
        task.set_accelerator_type(kind).set_accelerator_limit(limits[kind])
    secrets: dict[str, dict[str, str]] = {}
    for variable in container["env"]:
        if "value" in variable:
            task.set_env_variable(variable["name"], variable["value"])
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            secrets.setdefault(reference["name"], {})[reference["key"]] = variable["name"]
    for secret, keys in secrets.items():
        kubernetes.use_secret_as_env(task, secret, keys)
    for known in task.platform_config["kubernetes"].get("secretAsEnv", ()) if secrets else ():
        known.pop("optional", None)  # false, the default; KFP 2.14 refuses a pipeline that states it


def _filled(values: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in values.items() if value}
