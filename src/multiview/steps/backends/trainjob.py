"""A training on several nodes: a TrainJob of Kubeflow Trainer, which the step's own pod starts, follows and deletes.

The compiled pipeline brings the TrainJob without its task (`pipelines.kubeflow.pod_template`). Its pods run
`multiview.steps.backends.trainjob_node`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import signal

from pydantic import BaseModel

from multiview import environment
from multiview.artifacts.record import Record, Reference
from multiview.config import JsonObject
from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends.trainjob_api import WORKFLOW_LABEL, TrainJobs
from multiview.steps.work import StepReporter, Work


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


class TrainJob:
    """Lets the pods of a TrainJob do the work."""

    def __init__(self, template: JsonObject) -> None:
        self.template = template

    def make(self, work: Work, reporter: StepReporter) -> dict[str, Record]:
        """Starts the TrainJob and waits for it. Raises the exceptions of `run_train_job`."""
        reporter.write()  # the key; from here on the first node reports
        store = reporter.store
        task = Task(
            store=store.url,
            run=reporter.run,
            path=reporter.state.path,
            step=work.step.name,
            config=work.config,
            inputs=work.references,
            key=work.key,
        )
        run_train_job(task, self.template)
        records = work.find(store)
        for kind in work.step.outputs:
            if kind not in records:
                raise ProcessFailed(
                    f"the TrainJob of {task.path} succeeded and left no {kind} in {store.url}"
                )
        return records


def template_here() -> JsonObject | None:
    """Returns the TrainJob, without its task, that the environment describes; None where a step trains in its own pod.

    Raises InputError for anything else, as from a pipeline that an earlier release has compiled.
    """
    text = os.environ.get(environment.NODES)
    if not text:
        return None
    try:
        template: JsonObject = json.loads(text)
        if template["kind"] == "TrainJob":
            return template
    except (ValueError, KeyError):
        pass
    raise InputError(f"{environment.NODES}: not a TrainJob of this release; compile the pipeline again")


def train_job(task: Task, template: JsonObject, workflow: str) -> JsonObject:
    """Returns the TrainJob of a task in an Argo workflow, which Kubernetes deletes with this pod.

    Its name is the same for every try of the step in the workflow, so that a later try replaces what an earlier one left.
    """
    job = copy.deepcopy(template)
    metadata, trainer = job["metadata"], job["spec"]["trainer"]
    identity = "\n".join((task.store, task.key, task.path, workflow))
    metadata["name"] = f"{task.step}-{hashlib.sha256(identity.encode()).hexdigest()[:24]}"
    metadata["labels"] |= {"app.kubernetes.io/component": task.step, WORKFLOW_LABEL: workflow}
    metadata["annotations"] |= {
        f"multiview.dev/{name}": getattr(task, name) for name in ("store", "run", "path", "key")
    }
    pod = {"name": os.environ[environment.POD_NAME], "uid": os.environ[environment.POD_UID]}
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **pod, "blockOwnerDeletion": False}]
    trainer["args"] = [task.model_dump_json()]
    if processes := json.loads(task.config).get("train", {}).get("processes"):
        trainer["numProcPerNode"] = processes
    return job


def run_train_job(task: Task, template: JsonObject) -> None:
    """Starts the TrainJob of a task, in the place of one that an earlier try has left, and follows it to its end.

    The job is deleted when it has ended, when following it fails, and when this process receives SIGTERM, as in a run
    that is cancelled. Raises InputError or ProcessFailed with the line of the pod that failed first, and InputError
    where the cluster refuses the job.
    """
    jobs = TrainJobs()
    job = train_job(task, template, jobs.workflow_here())
    before = signal.signal(signal.SIGTERM, _end)
    try:
        job = jobs.start(job)
        ended = jobs.follow(job)
        if ended["type"] != "Complete":
            raise jobs.failure(job, ended)
    finally:
        jobs.delete(job)
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: object) -> None:
    raise ProcessFailed("this pod was told to end")


def check_trainer(template: JsonObject) -> None:
    """Raises InputError where the cluster would refuse a TrainJob: without Kubeflow Trainer 2.2, its runtime, or the
    right to make one."""
    task = Task(store="", run="", path="", step="train", config="{}", inputs={}, key="")
    TrainJobs().check(train_job(task, template, ""))


def delete_left() -> list[str]:
    """Deletes the TrainJobs that the steps of this workflow have left, and returns their names. Raises InputError where
    the cluster refuses.

    The exit handler does so: a cancelled run's pods may have had no time to, and Kubernetes keeps them, the TrainJobs'
    owners, until the workflow is cleared away.
    """
    jobs = TrainJobs()
    return jobs.delete_of(jobs.workflow_here())
