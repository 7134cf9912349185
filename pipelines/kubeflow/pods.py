"""Requirements of a step's pod: resources, nodes, secrets, retries, from `kubeflow.*` alone."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from kfp import kubernetes

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from multiview.config import Config, Pod
from multiview.config.kubeflow import MULTI_NODE_STEPS, pod_labels
from multiview.errors import InputError, nearest
from multiview.kubeflow.run import CLOSE_RUN, IMPORT_ARTIFACT, OPEN_RUN
from multiview.plans.pods import pod_of
from multiview.steps.backends.trainjob import SCRATCH, Nodes
from multiview.steps.table import STEPS

KfpObject: TypeAlias = Any
"""A task, an output or a pipeline of KFP's SDK, which declares too few of their types."""

MLFLOW_KEYS = {name: name for name in (environment.MLFLOW_USERNAME, environment.MLFLOW_PASSWORD)}
HUB_KEYS = {environment.HUB_TOKEN: environment.HUB_TOKEN}
NOTIFY_KEYS = {environment.NOTIFY_URL: environment.NOTIFY_URL}
QDRANT_KEYS = {environment.QDRANT_API_KEY: environment.QDRANT_API_KEY}
BUCKET_KEYS = {name: name for name in (environment.BUCKET_KEY_ID, environment.BUCKET_SECRET)}
SHARED_MEMORY = "/dev/shm"
WAIT_HOURS = 12.0
"""Hours that the pods of a training on several nodes may wait for nodes, or for a queue, before their timeout runs."""
OWN_STEPS = (OPEN_RUN, CLOSE_RUN, IMPORT_ARTIFACT)
"""Steps of every pipeline on Kubeflow, which no plan has."""


class Pods:
    """The pods of one compiled pipeline, with these steps of the table. Raises InputError for invalid settings."""

    def __init__(self, config: Config, planned: Collection[str] = tuple(STEPS)):
        self.settings = config.kubeflow
        self.planned = planned
        steps = [*STEPS, *OWN_STEPS]
        for step in self.settings.steps:
            if step not in steps:
                raise InputError(
                    f"kubeflow.steps: there is no step {step!r}{nearest(step, steps, listed=steps)}"
                )
        for step in steps:
            self.pod(step)

    def pod(self, step: str) -> Pod:
        return pod_of(self.settings, step)

    def parallelism(self, step: str) -> int | None:
        """Returns the largest number of shards that a step works on at once; None for no limit."""
        return self.pod(step).parallel_shards

    def configure(self, task: KfpObject, step: str) -> KfpObject:
        """Sets a task's resources, image, nodes, secrets, environment, timeout and retries; returns the task."""
        pod, variables = self.pod(step), self._environment()
        queue = None if step in OWN_STEPS else self.settings.queue
        if step in (OPEN_RUN, CLOSE_RUN):
            # They look for Kubeflow Trainer, and delete what a cancelled start leaves.
            several = [self.pod(name) for name in MULTI_NODE_STEPS if name in self.planned]
            several = [other for other in several if other.nodes > 1]
            nodes = self._nodes(several[0], variables, self.settings.queue) if several else None
        else:
            # The task's pod only starts and follows the nodes' pods.
            nodes = self._nodes(pod, variables, queue) if pod.nodes > 1 else None
            if nodes:
                pod, queue = self._follower(pod), None
        if nodes:
            variables = {**variables, environment.NODES: nodes.model_dump_json()}
        image = _image(pod)
        task.set_container_image(image)
        variables = {**variables, **_gpus(pod), environment.IMAGE: image}
        task.set_cpu_request(pod.cpu)
        task.set_memory_request(pod.memory).set_memory_limit(pod.memory)
        if pod.gpus:
            task.set_accelerator_type(pod.gpu_type).set_accelerator_limit(pod.gpus)
        # By default a typo, which the first step finds, takes one pod instead of three.
        if step != OPEN_RUN or "retries" in self.settings.steps.get(OPEN_RUN, {}):
            task.set_retry(
                pod.retries,
                backoff_duration=f"{pod.backoff_seconds}s",
                backoff_factor=2,
                backoff_max_duration=f"{_retry_seconds(pod)}s",
            )
        kubernetes.set_timeout(task, round(pod.timeout_hours * 3600))
        _configure_pod(task, pod, queue)
        if self.settings.run_as_non_root:
            kubernetes.set_security_context(task, run_as_non_root=True)
        for secret, keys in self._secrets().items():
            kubernetes.use_secret_as_env(task, secret, keys)
        for known in task.platform_config["kubernetes"].get("secretAsEnv", ()):
            known.pop("optional", None)  # false, as by default; KFP 2.14 refuses a pipeline that says so
        for name, value in variables.items():
            task.set_env_variable(name, value)
        return task.set_caching_options(False)

    def _nodes(self, pod: Pod, variables: Mapping[str, str], queue: str | None) -> Nodes:
        image = _image(pod)
        return Nodes(
            image=image,
            pod=pod,
            service_account=self.settings.service_account,
            environment={**variables, environment.IMAGE: image, **_gpus(pod)},
            secrets=self._secrets(),
            queue=queue,
        )

    def _follower(self, pod: Pod) -> Pod:
        """A small pod that lives as long as the pods that it follows, which start when there is room for them."""
        return self.settings.cpu.model_copy(
            update={
                "retries": pod.retries,
                "backoff_seconds": pod.backoff_seconds,
                "timeout_hours": pod.timeout_hours + WAIT_HOURS,
            }
        )

    def _secrets(self) -> dict[str, dict[str, str]]:
        """The environment variable of each key, per secret that the settings name."""
        secrets: dict[str, dict[str, str]] = {}
        for secret, keys in (
            (self.settings.mlflow_secret, MLFLOW_KEYS),
            (self.settings.hub_secret, HUB_KEYS),
            (self.settings.qdrant_secret, QDRANT_KEYS),
            (self.settings.bucket_secret, BUCKET_KEYS),
            (self.settings.notify_secret, NOTIFY_KEYS),
        ):
            if secret:
                secrets.setdefault(secret, {}).update(keys)
        return secrets

    def _environment(self) -> dict[str, str]:
        uri = self.settings.mlflow_uri
        mlflow = {environment.MLFLOW_TRACKING_URI: uri, environment.MLFLOW_URI: uri} if uri else {}
        return {**self.settings.environment, **mlflow}


def _image(pod: Pod) -> str:
    return GPU_IMAGE if pod.gpus else CPU_IMAGE


def _gpus(pod: Pod) -> dict[str, str]:
    """Returns the variable by which a pod knows its GPUs."""
    return {environment.GPUS: str(pod.visible_gpus)} if pod.gpus else {}


def _retry_seconds(pod: Pod) -> int:
    """Returns the seconds from the first attempt's start within which Argo may begin a further one.

    Argo includes the wait for a node, and ends a later attempt at this limit. Each attempt may run as long as its
    timeout, after as long a wait as `WAIT_HOURS`.
    """
    attempts = (pod.retries + 1) * (pod.timeout_hours + WAIT_HOURS) * 3600
    return round(attempts) + pod.backoff_seconds * (2**pod.retries - 1)


def _configure_pod(task: KfpObject, pod: Pod, queue: str | None) -> None:
    """Sets a task's node selection, volumes, labels and pull secrets."""
    if pod.shared_memory:
        kubernetes.empty_dir_mount(
            task, "shared-memory", SHARED_MEMORY, medium="Memory", size_limit=pod.shared_memory
        )
    if pod.scratch:
        kubernetes.add_ephemeral_volume(
            task, "scratch", SCRATCH, ["ReadWriteOnce"], pod.scratch, storage_class_name=pod.scratch_class
        )
    for key, value in pod.node_selector.items():
        kubernetes.add_node_selector(task, key, value)
    conditions = [(one.weight, one.model_dump(mode="json", exclude={"weight"})) for one in pod.node_affinity]
    if required := [condition for weight, condition in conditions if weight is None]:
        kubernetes.add_node_affinity(task, required)  # in one term, of which a node must fulfil all
    for weight, condition in conditions:
        if weight is not None:
            kubernetes.add_node_affinity(task, [condition], weight=weight)
    for toleration in pod.tolerations:
        fields = toleration.model_dump().items()
        kubernetes.add_toleration(task, **{name: value or None for name, value in fields})
    for key, value in pod_labels(pod, queue).items():
        kubernetes.add_pod_label(task, key, value)
    for key, value in pod.annotations.items():
        kubernetes.add_pod_annotation(task, key, value)
    if pod.image_pull_secrets:
        kubernetes.set_image_pull_secrets(task, list(pod.image_pull_secrets))
