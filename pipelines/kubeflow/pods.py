"""What a step's pod asks for: resources, nodes, secrets, retries, from `kubeflow.*` alone."""

from typing import Any

from kfp import kubernetes

from components import CPU_IMAGE, GPU_IMAGE
from multiview import environment
from multiview.config import Config, Pod
from multiview.config.kubeflow import check_nodes
from multiview.config.overrides import validate
from multiview.errors import InputError, nearest
from multiview.steps.backends.trainjob import Nodes
from multiview.steps.table import GPU_STEPS, STEPS

MLFLOW_KEYS = {name: name for name in (environment.MLFLOW_USERNAME, environment.MLFLOW_PASSWORD)}
HUB_KEYS = {environment.HUB_TOKEN: environment.HUB_TOKEN}
BUCKET_KEYS = {name: name for name in (environment.BUCKET_KEY_ID, environment.BUCKET_SECRET)}
SHARED_MEMORY = "/dev/shm"
WAIT_HOURS = 12.0
"""That the pods of a training on several nodes may wait for nodes, or for a queue, before their own time runs."""
OWN_STEPS = ("open-run", "close-run")
"""Steps of Kubeflow's alone, which no plan has."""


class Pods:
    """The pods of one compiled pipeline. Raises InputError for settings that cannot be had."""

    def __init__(self, config: Config):
        self.settings = config.kubeflow
        known = [*STEPS, *OWN_STEPS]
        for step in self.settings.steps:
            if step not in known:
                raise InputError(
                    f"kubeflow.steps: there is no step {step!r}{nearest(step, known, listed=known)}"
                )
            self.of(step)

    def of(self, step: str) -> Pod:
        """The pod of a step: that of its kind, with what differs for it."""
        kind = "gpu" if step in GPU_STEPS else "cpu"
        pod: Pod = getattr(self.settings, kind)
        try:
            changed = validate(
                {"kubeflow": {kind: {**pod.model_dump(), **self.settings.steps.get(step, {})}}}
            )
        except InputError as error:
            raise InputError(f"kubeflow.steps.{step}: {error}") from error
        found: Pod = getattr(changed.kubeflow, kind)
        try:
            check_nodes(step, found.nodes)
        except ValueError as error:
            raise InputError(f"kubeflow.{kind}.nodes: {error}") from error
        return found

    def dress(self, task: Any, step: str) -> Any:
        """Give a task its resources, image, nodes, secrets, environment, timeout and retries."""
        pod, variables = self.of(step), self._environment()
        if pod.nodes > 1:  # its own pod only starts and follows the others
            image = GPU_IMAGE if pod.gpus else CPU_IMAGE
            nodes = Nodes(
                image=image,
                pod=pod,
                service_account=self.settings.service_account,
                environment={**variables, environment.IMAGE: image},
                secrets=self._secrets(),
            )
            variables = {**variables, environment.NODES: nodes.model_dump_json()}
            pod = self._follower(pod)
        if step in GPU_STEPS and not pod.gpus:
            task.set_container_image(CPU_IMAGE)
        variables[environment.IMAGE] = GPU_IMAGE if step in GPU_STEPS and pod.gpus else CPU_IMAGE
        task.set_cpu_request(pod.cpu)
        task.set_memory_request(pod.memory).set_memory_limit(pod.memory)
        if pod.gpus:
            task.set_accelerator_type(pod.gpu_type).set_accelerator_limit(pod.gpus)
        task.set_retry(pod.retries, backoff_duration=f"{pod.backoff_seconds}s", backoff_factor=2)
        kubernetes.set_timeout(task, round(pod.timeout_hours * 3600))
        if pod.shared_memory:
            kubernetes.empty_dir_mount(
                task, "shared-memory", SHARED_MEMORY, medium="Memory", size_limit=pod.shared_memory
            )
        for key, value in pod.node_selector.items():
            kubernetes.add_node_selector(task, key, value)
        for toleration in pod.tolerations:
            given = toleration.model_dump()
            kubernetes.add_toleration(task, **{name: value or None for name, value in given.items()})
        for secret, keys in self._secrets().items():
            kubernetes.use_secret_as_env(task, secret, keys)
        for name, value in variables.items():
            task.set_env_variable(name, value)
        return task.set_caching_options(False)

    def _follower(self, pod: Pod) -> Pod:
        """A small pod that lives as long as those that it follows, which are started when there is room for them."""
        own = {"retries": pod.retries, "backoff_seconds": pod.backoff_seconds}
        return self.settings.cpu.model_copy(update=own | {"timeout_hours": pod.timeout_hours + WAIT_HOURS})

    def _secrets(self) -> dict[str, dict[str, str]]:
        """Of each secret that the settings name, its keys and the environment variable of each."""
        found: dict[str, dict[str, str]] = {}
        for secret, keys in (
            (self.settings.mlflow_secret, MLFLOW_KEYS),
            (self.settings.hub_secret, HUB_KEYS),
            (self.settings.bucket_secret, BUCKET_KEYS),
        ):
            if secret:
                found.setdefault(secret, {}).update(keys)
        return found

    def _environment(self) -> dict[str, str]:
        uri = self.settings.mlflow_uri
        return {**self.settings.environment, **({environment.MLFLOW_TRACKING_URI: uri} if uri else {})}
