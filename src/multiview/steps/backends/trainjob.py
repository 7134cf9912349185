"""A training on several nodes: a TrainJob of Kubeflow Trainer, which the step's own pod starts, follows and deletes.

The compiled pipeline brings it without its task (`pipelines.kubeflow.pod_template`); its pods run `trainjob_node`.
"""

import contextlib
import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from multiview import environment
from multiview.artifacts.record import Record
from multiview.config import JsonObject, text_sha256
from multiview.errors import InputError, ProcessFailed
from multiview.steps.background import repeated
from multiview.steps.events import LINE_SECONDS, read_progress
from multiview.steps.runs import StepState, read_state
from multiview.steps.work import StepReporter, Work

KubernetesObject: TypeAlias = Any
"""An object, a result or an error of Kubernetes' generated client, which is not typed."""

GROUP, VERSION, PLURAL = "trainer.kubeflow.org", "v1alpha1", "trainjobs"
NAME_LABEL, OURS = "app.kubernetes.io/name", "multiview"
"""The label of our TrainJobs for people, with its value."""
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
"""The label with its workflow that Argo gives a pod, and we give a TrainJob."""
CONTAINER = "node"
"""Kubeflow Trainer's name for the container of a training, and for its job."""
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
POLL_SECONDS = 5.0
BAD_INPUT = 2
"""Exit status of a pod that ended with an InputError."""
REMEDIES = {
    401: "the pod's service account is not known to the cluster",
    403: f"let the step's service account create, get and delete {PLURAL}.{GROUP} in it, and get and list pods",
    404: "install Kubeflow Trainer, or set nodes to 1",
}
TOO_OLD = "its Kubeflow Trainer knows no runtimePatches: install 2.2 or later, or set nodes to 1"


def work_on_nodes(work: Work, reporter: StepReporter, template: JsonObject) -> dict[str, Record]:
    """Lets the pods of a TrainJob do the work; returns the records of its outputs. Raises as `run_train_job` does."""
    store, run, path = reporter.store, reporter.run, reporter.state.path

    def note_progress() -> None:  # as the first pod of the training says it in its own log
        now = read_state(store, run, path)
        if now and now.attempt:
            reporter.change(attempt=now.attempt)
        progress = read_progress(store, now.attempt) if now else None
        reporter.note(progress.line if progress else "waits for its pods")

    reporter.write()  # what the nodes read; from here on the first one reports
    with repeated(note_progress, LINE_SECONDS):
        run_train_job(store.url, run, reporter.state, template)
    records = work.find(store)
    if missing := [kind for kind in work.step.outputs if kind not in records]:
        raise ProcessFailed(f"the TrainJob of {path} succeeded and left no {missing[0]} in {store.url}")
    return records


def template_here() -> JsonObject | None:
    """Returns the TrainJob, without its task, that the environment describes; None where a step trains in its own pod."""
    text = os.environ.get(environment.NODES)
    return json.loads(text) if text else None


def train_job(store: str, run: str, state: StepState, template: JsonObject, workflow: str) -> JsonObject:
    """Returns the TrainJob of a step of a run in an Argo workflow, which Kubernetes deletes with this pod. Its name is the
    same for every try of the step in the workflow, so that a later try replaces what an earlier one left."""
    job = copy.deepcopy(template)
    metadata, trainer = job["metadata"], job["spec"]["trainer"]
    identity = "\n".join((store, state.key, state.path, workflow))
    metadata["name"] = f"{state.step}-{text_sha256(identity)[:24]}"
    metadata["labels"] |= {"app.kubernetes.io/component": state.step, WORKFLOW_LABEL: workflow}
    told = {"store": store, "run": run, "path": state.path, "key": state.key}
    metadata["annotations"] |= {f"multiview.dev/{name}": value for name, value in told.items()}
    pod = {"name": os.environ[environment.POD_NAME], "uid": os.environ[environment.POD_UID]}
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **pod, "blockOwnerDeletion": False}]
    trainer["args"] = [store, run, state.path]
    if processes := state.config.get("train", {}).get("processes"):
        trainer["numProcPerNode"] = processes
    return job


def run_train_job(store: str, run: str, state: StepState, template: JsonObject) -> None:
    """Starts the TrainJob of a step, in the place of one that an earlier try has left, and follows it to its end.

    The job is deleted however this ends, as when the run is cancelled. Raises InputError or ProcessFailed with the line
    of the pod that failed first, and InputError where the cluster refuses the job.
    """
    jobs = TrainJobs()
    job = train_job(store, run, state, template, jobs.workflow_here())
    try:
        job = jobs.start(job)
        ended = jobs.follow(job)
        if ended["type"] != "Complete":
            raise jobs.failure(job, ended)
    finally:
        jobs.delete(job)


def check_trainer(template: JsonObject) -> None:
    """Raises InputError where the cluster lacks Kubeflow Trainer 2.2, its runtime, or the right to make a TrainJob."""
    step = StepState(path="", step="train", status="running")
    TrainJobs().create(train_job("", "", step, template, ""), dry_run="All")


class TrainJobs:
    """The TrainJobs of this pod's namespace. Every method raises InputError where the cluster refuses."""

    def __init__(self) -> None:
        api = _api_client()
        from kubernetes import client

        self._objects, self._core = client.CustomObjectsApi(api), client.CoreV1Api(api)
        self._refusal = client.ApiException
        self.namespace = NAMESPACE_FILE.read_text(encoding="utf-8").strip()
        self._where = (GROUP, VERSION, self.namespace, PLURAL)

    def start(self, job: JsonObject) -> JsonObject:
        """Creates a job, in the place of one of its name, and returns it as the cluster has it."""
        if left := self._read(job):
            self.delete(left)
            while self._read(left):
                time.sleep(POLL_SECONDS)
        return self.create(job)

    def create(self, job: JsonObject, **options: str) -> JsonObject:
        """Creates a job, and returns it as the cluster has it."""
        create = self._objects.create_namespaced_custom_object
        # Strict: otherwise fields that its Kubeflow Trainer does not know are dropped.
        options = {"field_validation": "Strict", **options}
        with self._refusals():
            made: KubernetesObject = create(*self._where, body=job, **options)
        return made

    def follow(self, job: JsonObject) -> JsonObject:
        """Returns the condition with which a job ended. Raises ProcessFailed if it was deleted before."""
        while now := self._read(job):
            for condition in now.get("status", {}).get("conditions", ()):
                if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                    return condition
            time.sleep(POLL_SECONDS)
        raise ProcessFailed(f"TrainJob {job['metadata']['name']} was deleted before it ended")

    def failure(self, job: JsonObject, ended: JsonObject) -> Exception:
        """Returns the exception for a failed job: bad input, else the line of the pod that failed first."""
        name = job["metadata"]["name"]
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        with self._refusals():
            pods = self._core.list_namespaced_pod(self.namespace, label_selector=selector).items
        ends = [(pod.metadata.name, end) for pod in pods for end in _failed_ends(pod)]
        ends.sort(key=lambda pair: (pair[1].finished_at, pair[0]))
        for _, end in ends:
            if end.exit_code == BAD_INPUT and end.message:
                return InputError(end.message.strip())
        if not ends:
            return ProcessFailed(f"TrainJob {name} failed: {ended.get('message') or ended.get('reason')}")
        pod, end = ends[0]
        line = (end.message or "").strip() or f"{end.reason} (exit status {end.exit_code})"
        return ProcessFailed(f"pod {pod}: {line}")

    def delete(self, job: JsonObject) -> None:
        """Deletes a job and its pods; nothing happens if it is gone, or another has taken its name."""
        metadata = job["metadata"]
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": metadata.get("uid")}}
        with self._refusals(but=(404, 409)):
            self._objects.delete_namespaced_custom_object(*self._where, metadata["name"], body=options)

    def workflow_here(self) -> str:
        """Returns the name of the workflow that this pod belongs to."""
        name = os.environ[environment.POD_NAME]
        with self._refusals():
            pod: KubernetesObject = self._core.read_namespaced_pod(name, self.namespace)
        return str(pod.metadata.labels[WORKFLOW_LABEL])

    def _read(self, job: JsonObject) -> JsonObject | None:
        """Returns a job as it is now; None if it is gone. One without a uid stands for any of its name."""
        now: KubernetesObject = None
        with self._refusals(but=(404,)):
            now = self._objects.get_namespaced_custom_object(*self._where, job["metadata"]["name"])
        return now if now and job["metadata"].get("uid") in (None, now["metadata"]["uid"]) else None

    @contextlib.contextmanager
    def _refusals(self, but: tuple[int, ...] = ()) -> Iterator[None]:
        """Raises the cluster's refusals as errors with the way out; the statuses `but` end the block in silence."""
        try:
            yield
        except self._refusal as error:
            if error.status in but:
                return
            said = _message(error)
            remedy = REMEDIES.get(error.status or 0) or said or error.reason
            if "runtimePatches" in said:
                remedy = TOO_OLD
            elif error.status == 403 and said and " cannot " not in said:
                remedy = said  # of admission, as by a quota or Kubeflow Trainer, which refuse with 403 too
            place = f"training on several nodes: in namespace {self.namespace}"
            raise InputError(f"{place}: {error.status} {error.reason}: {remedy}") from error


def _message(error: KubernetesObject) -> str:
    """Returns what the API server says of an error."""
    try:
        return str(json.loads(error.body)["message"]).strip()
    except (ValueError, TypeError, KeyError):
        return str(error.body or "").strip()


def _failed_ends(pod: KubernetesObject) -> list[KubernetesObject]:
    """Returns how the failed containers of a pod ended, the last time or the time before."""
    containers = [one for one in pod.status.container_statuses or () if one.name == CONTAINER]
    states = [state for one in containers for state in (one.state, one.last_state) if state]
    return [state.terminated for state in states if state.terminated and state.terminated.exit_code]


def _api_client() -> KubernetesObject:
    """Returns a client of the cluster that this process is in, or that its kubeconfig names. Raises InputError where there
    is none, and for a token that no header can hold: the client's error would repeat it."""
    from kubernetes import client, config
    from urllib3.util import Retry

    configuration = client.Configuration()
    in_cluster = environment.KUBERNETES_HOST in os.environ
    load = config.load_incluster_config if in_cluster else config.load_kube_config
    try:
        load(client_configuration=configuration)
    except config.ConfigException as error:
        raise InputError(f"training on several nodes needs a pod with a service account: {error}") from error
    if not str(configuration.api_key.get("authorization", "")).isprintable():
        raise InputError(
            "the token for Kubernetes has a line end or another character that no header can hold"
        )
    retries = Retry(total=10, backoff_factor=1, backoff_max=60, status_forcelist=(429, 500, 502, 503, 504))
    configuration.retries = retries  # pyright: ignore[reportAttributeAccessIssue]
    return client.ApiClient(configuration)
