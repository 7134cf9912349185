"""Configures each step's pod (resources, nodes, secrets, retries) from the settings `kubeflow.*`."""

import inspect
import json
from collections.abc import Collection

from kfp import dsl, kubernetes

from multiview import environment
from multiview.config import Config, JsonObject, Pod
from multiview.config.kubeflow import MULTI_NODE_STEPS
from multiview.errors import InputError, nearest
from multiview.kubeflow.run import CLOSE_RUN, OPEN_RUN
from multiview.plans.pod_settings import pod_of
from multiview.steps.table import STEPS
from pipelines.kubeflow.pod_template import KfpObject, configure_task, pod_template, queue_labels, train_job

SECRET_KEYS = {
    "mlflow": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    "hub": ("HF_TOKEN",),
    "qdrant": (environment.QDRANT_API_KEY,),
    "llm": (environment.OPENAI_API_KEY,),
    "bucket": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "session": ("AWS_SESSION_TOKEN",),
    "notify": (environment.NOTIFY_URL,),
}
WAIT_HOURS = 12.0
"""Hours that pods of a training on several nodes may wait for nodes or a queue, in addition to their timeout."""
TAKES_POLICY = "policy" in inspect.signature(dsl.PipelineTask.set_retry).parameters
"""Whether the installed SDK can say which failures are retried, as KFP 2.18's can."""
OWN_STEPS = (OPEN_RUN, CLOSE_RUN)
"""Steps that every pipeline on Kubeflow has, but no plan."""


class Pods:
    """The pods of one compiled pipeline, with these steps of the table. Raises InputError for invalid settings."""

    def __init__(self, config: Config, planned: Collection[str] = tuple(STEPS)):
        self.settings = config.kubeflow
        self.planned = planned
        steps = [*STEPS, *OWN_STEPS]
        for step in (*self.settings.steps, *steps):
            if step not in steps:
                others = nearest(step, steps, listed=steps)
                raise InputError(f"kubeflow.steps: there is no step {step!r}{others}")
            self.pod(step)
        self.policy = {"policy": self.settings.retry_policy} if self.settings.retry_policy else {}
        if self.policy and not TAKES_POLICY:
            raise InputError(
                "kubeflow.retry_policy: the installed SDK of Kubeflow Pipelines has no such field: install kfp 2.18 or "
                "later, or leave the setting out"
            )

    def pod(self, step: str) -> Pod:
        return pod_of(self.settings, step)

    def configure(self, task: KfpObject, step: str) -> KfpObject:
        """Sets a task's resources, image, nodes, secrets, environment, timeout and retries; returns the task."""
        pod, queue, variables = self.pod(step), self.settings.queue, self._environment()
        if job := self._train_job(step):
            variables[environment.NODES] = json.dumps(job, separators=(",", ":"))
        if pod.nodes > 1:  # this small pod lives until the TrainJob's pods, which wait for room, have ended
            hours = pod.timeout_hours + WAIT_HOURS
            kept = {"retries": pod.retries, "backoff_seconds": pod.backoff_seconds, "timeout_hours": hours}
            pod = self.settings.cpu.model_copy(update=kept)
        if job or step in OWN_STEPS:
            queue = None
        template = pod_template(pod, variables, self._secrets(), queue_labels(pod, queue))
        configure_task(task, template)
        # The first step is not retried by default: it finds typos, which retries do not cure.
        if step != OPEN_RUN or "retries" in self.settings.steps.get(OPEN_RUN, {}):
            task.set_retry(
                pod.retries,
                backoff_duration=f"{pod.backoff_seconds}s",
                backoff_factor=2,
                backoff_max_duration=f"{_retry_seconds(pod)}s",
                **self.policy,
            )
        kubernetes.set_timeout(task, round(pod.timeout_hours * 3600))
        if self.settings.run_as_non_root:
            kubernetes.set_security_context(task, run_as_non_root=True)
        return task.set_caching_options(False)

    def _train_job(self, step: str) -> JsonObject | None:
        """Returns the TrainJob that a step's pod makes, if any; for a run's first step, which checks it, any step's."""
        trained = [name for name in MULTI_NODE_STEPS if name in self.planned]
        for pod in map(self.pod, trained if step == OPEN_RUN else [step]):
            if pod.nodes > 1:
                template = pod_template(pod, self._environment(), self._secrets())
                return train_job(pod, template, self.settings.service_account, self.settings.queue)
        return None

    def _secrets(self) -> dict[str, dict[str, str]]:
        """The environment variable of each key, per secret that the settings name."""
        secrets: dict[str, dict[str, str]] = {}
        for purpose, secret in sorted(self.settings.secrets.items()):
            secrets.setdefault(secret, {}).update({key: key for key in SECRET_KEYS[purpose]})
        return secrets

    def _environment(self) -> dict[str, str]:
        uri = self.settings.mlflow_uri
        mlflow = {environment.MLFLOW_TRACKING_URI: uri, environment.MLFLOW_URI: uri} if uri else {}
        return {**self.settings.environment, **mlflow}


def _retry_seconds(pod: Pod) -> int:
    """Returns the seconds from the first attempt's start within which Argo may begin another: enough for each to wait
    `WAIT_HOURS` for a node and then run until its timeout."""
    attempts = (pod.retries + 1) * (pod.timeout_hours + WAIT_HOURS) * 3600
    return round(attempts) + pod.backoff_seconds * (2**pod.retries - 1)
