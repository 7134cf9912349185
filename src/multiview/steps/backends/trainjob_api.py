"""The TrainJobs of a namespace, through the Kubernetes API: start, observation, deletion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from multiview.config import JsonObject
from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends.kubeflow_trainer import NOT_INSTALLED, TOO_OLD, KubernetesObject, api_client
from multiview.steps.backends.trainjob import (
    CONTAINER,
    GROUP,
    PLURAL,
    RUN_ANNOTATION,
    SELECTOR,
    STORE_ANNOTATION,
    VERSION,
    owned_by,
)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
WATCH_SECONDS = 300
"""Duration of one watch; then the job is read again, so that no event is missed for longer."""
WORKFLOW = "workflows.argoproj.io/workflow"
"""Argo's label of the pods of a workflow."""

BAD_INPUT = 2
"""Exit status of a pod that ended with an InputError."""


class TrainJobs:
    """The TrainJobs of a namespace."""

    def __init__(self, namespace: str) -> None:
        api = api_client()
        from kubernetes import client, watch

        self._objects, self._core, self._watch = client.CustomObjectsApi(api), client.CoreV1Api(api), watch
        self._refused = client.ApiException
        self._options, self._preconditions = client.V1DeleteOptions, client.V1Preconditions
        self._where = (GROUP, VERSION, namespace, PLURAL)
        self.namespace = namespace

    def start(self, job: JsonObject) -> None:
        """Creates a job, unless a job of its name runs; a failed or terminating job is removed first."""
        name = job["metadata"]["name"]
        existing = self._read(name)
        if existing is not None:
            ended = _end_of(existing)
            if not _terminating(existing) and (ended is None or ended["type"] == "Complete"):
                if not self._adopt(existing, job):  # it has changed, or is being deleted
                    self.start(job)
                return
            if self.delete(name, existing):
                self._await_gone(existing)
            self.start(job)
            return
        try:
            made: KubernetesObject = self._objects.create_namespaced_custom_object(*self._where, body=job)
        except self._refused as error:
            # Another try of the step was faster: the job is there.
            if error.status != 409:
                raise _refusal(error, self.namespace) from error
            self.start(job)
            return
        if not made["spec"].get("runtimePatches"):  # an API server drops fields that a kind does not have
            self.delete(name)
            raise InputError(f"TrainJob in namespace {self.namespace}: {TOO_OLD}")

    def _adopt(self, existing: JsonObject, job: JsonObject) -> bool:
        """Adds the owner of `job` to the owners of a job that another try has started.

        Returns False, having changed nothing, if the existing job is no longer as it was read.
        """
        adopted = existing
        for owner in job["metadata"].get("ownerReferences", ()):
            adopted = owned_by(adopted, owner["name"], owner["uid"])
        if adopted is existing:
            return True
        read = existing["metadata"]
        owners = adopted["metadata"]["ownerReferences"]
        try:
            # Not by CustomObjectsApi: which kind of patch it sends differs between its versions.
            self._objects.api_client.call_api(
                f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{PLURAL}/{read['name']}",
                "PATCH",
                header_params={"Content-Type": "application/merge-patch+json"},
                body={"metadata": {"resourceVersion": read["resourceVersion"], "ownerReferences": owners}},
                auth_settings=["BearerToken"],
            )
        except self._refused as error:
            # Without the right to patch it has its first owner alone.
            return error.status not in (404, 409)
        return True

    def follow(self, name: str) -> JsonObject | None:
        """Returns the condition with which a job ended; None if it was deleted."""
        while True:
            job = self._read(name)
            if job is None:
                return None
            if ended := _end_of(job):
                return ended
            for event in self._events(name, job):
                if event["type"] == "DELETED":
                    return None
                if ended := _end_of(event["object"]):
                    return ended

    def failure(self, name: str, ended: JsonObject) -> Exception:
        """Returns the exception for a failed job: bad input, else the line of the pod that failed first."""
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        pods = self._core.list_namespaced_pod(self.namespace, label_selector=selector).items
        ends = sorted(
            ((end.finished_at, pod.metadata.name, end) for pod in pods for end in _failed_ends(pod)),
            key=lambda item: item[:2],
        )
        for _, _, end in ends:
            if end.exit_code == BAD_INPUT and end.message:
                return InputError(end.message.strip())
        if not ends:
            return ProcessFailed(f"TrainJob {name} failed: {ended.get('message') or ended.get('reason')}")
        _, pod, end = ends[0]
        line = (end.message or "").strip() or f"{end.reason} (exit status {end.exit_code})"
        return ProcessFailed(f"pod {pod}: {line}")

    def delete(self, name: str, seen: JsonObject | None = None) -> bool:
        """Deletes a job with its pods; nothing happens if it is gone.

        Returns False, having deleted nothing, if the job is no longer as it was `seen`.
        """
        options = self._options(propagation_policy="Foreground")
        if seen is not None:
            read = seen["metadata"]
            options.preconditions = self._preconditions(
                uid=read["uid"], resource_version=read["resourceVersion"]
            )
        try:
            self._objects.delete_namespaced_custom_object(*self._where, name, body=options)
        except self._refused as error:
            if seen is not None and error.status == 409:
                return False
            if error.status != 404:
                raise
        return True

    def delete_abandoned(self, store: str, run: str, here: str) -> list[str]:
        """Deletes the jobs of a run in a store none of whose owners goes on, as seen by the pod `here`; returns their names.

        They are those that the run has started, and those that it found and followed.
        """
        try:
            found: KubernetesObject = self._objects.list_namespaced_custom_object(
                *self._where, label_selector=SELECTOR
            )
        except self._refused as error:
            raise _refusal(error, self.namespace) from error
        workflow = _workflow_of(self._pod(here))
        deleted = []
        for job in found["items"]:
            name, now = job["metadata"]["name"], job
            while now is not None and self._abandoned(now, store, run, workflow):
                if self.delete(name, now):
                    deleted.append(name)
                    break
                now = self._read(name)  # somebody has changed it, perhaps to follow it
        return deleted

    def _abandoned(self, job: JsonObject, store: str, run: str, workflow: str | None) -> bool:
        """Whether a job is of a run in a store, or followed by its workflow, and nothing else follows it still."""
        metadata = job["metadata"]
        annotations = metadata.get("annotations", {})
        if _terminating(job) or annotations.get(STORE_ANNOTATION) != store:
            return False
        pods = [self._pod(owner["name"]) for owner in metadata.get("ownerReferences", ())]
        followed = workflow is not None and any(_workflow_of(pod) == workflow for pod in pods)
        if not followed and annotations.get(RUN_ANNOTATION) != run:
            return False
        return bool(pods) and not any(_follows(pod, workflow) for pod in pods)

    def _pod(self, name: str) -> KubernetesObject | None:
        """Returns a pod; None if there is none."""
        try:
            return self._core.read_namespaced_pod(name, self.namespace) if name else None
        except self._refused as error:
            if error.status == 404:
                return None
            raise _refusal(error, self.namespace) from error

    def _await_gone(self, deleted: JsonObject) -> None:
        name, uid = deleted["metadata"]["name"], deleted["metadata"]["uid"]
        while (job := self._read(name)) is not None and job["metadata"]["uid"] == uid:
            if any(event["type"] == "DELETED" for event in self._events(name, job)):
                return

    def _read(self, name: str) -> JsonObject | None:
        try:
            job: KubernetesObject = self._objects.get_namespaced_custom_object(*self._where, name)
        except self._refused as error:
            if error.status == 404 and _names_object(error):
                return None
            raise _refusal(error, self.namespace) from error
        return job

    def _events(self, name: str, since: JsonObject) -> Iterator[JsonObject]:
        """Yields the events of a job, for a few minutes at most."""
        watched = self._watch.Watch().stream(
            self._objects.list_namespaced_custom_object,
            *self._where,
            field_selector=f"metadata.name={name}",
            resource_version=since["metadata"]["resourceVersion"],
            timeout_seconds=WATCH_SECONDS,
            # A connection that died silently would be waited on for ever.
            _request_timeout=(30, WATCH_SECONDS + 30),
        )
        try:
            yield from watched
        except self._refused as error:
            if error.status != 410:  # the version is forgotten: the job is read afresh
                raise


def _end_of(job: JsonObject) -> JsonObject | None:
    """Returns the condition with which a job has ended; None if it has not ended."""
    for condition in job.get("status", {}).get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition
    return None


def _terminating(job: JsonObject) -> bool:
    return "deletionTimestamp" in job["metadata"]


def _follows(pod: KubernetesObject | None, workflow: str | None) -> bool:
    """Whether a job's owner follows it still, as seen when a workflow closes, whose own pods have ended or are about to."""
    if pod is None or pod.status.phase in ("Succeeded", "Failed"):
        return False
    return workflow is None or _workflow_of(pod) != workflow


def _workflow_of(pod: KubernetesObject | None) -> str | None:
    """Returns the name of a pod's workflow; None where it is unknown."""
    return (pod.metadata.labels or {}).get(WORKFLOW) if pod else None


def _failed_ends(pod: KubernetesObject) -> list[KubernetesObject]:
    """Returns how the failed containers of a pod ended, the last time or the time before."""
    states = [
        state.terminated
        for container in pod.status.container_statuses or ()
        if container.name == CONTAINER
        for state in (container.state, container.last_state)
        if state is not None and state.terminated is not None
    ]
    return [end for end in states if end.exit_code != 0]


def _names_object(error: KubernetesObject) -> bool:
    """Whether a 404 means a missing object, and not a kind that the cluster does not know."""
    return '"details"' in (error.body or "")


def _refusal(error: KubernetesObject, namespace: str) -> InputError:
    """Returns the error for a job that the cluster refuses, with the way out."""
    remedies = {
        401: "the pod's service account is not known to the cluster",
        403: f"let the step's service account get, list, watch, create, patch and delete {PLURAL}.{GROUP} in it",
        404: NOT_INSTALLED,
    }
    remedy = remedies.get(error.status, str(error.body or error.reason).strip())
    return InputError(f"TrainJob in namespace {namespace}: {error.status} {error.reason}: {remedy}")


def namespace_here() -> str:
    """Returns the namespace of this pod. Raises InputError outside of pods with a service account."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(
            "training on several nodes needs a pod with a service account, or a namespace"
        ) from error
