"""Start and observation of a TrainJob, from the pod of the step that it trains for."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from multiview import environment
from multiview.artifacts.record import Record
from multiview.errors import ProcessFailed
from multiview.steps.backends.trainjob import Nodes, Task, job_name, owned_by, train_job
from multiview.steps.backends.trainjob_api import TrainJobs, namespace_here
from multiview.steps.reporter import StepReporter
from multiview.steps.work import Work


class TrainJob:
    """Lets the pods of a TrainJob, which this pod starts and follows, do the work."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def make(self, work: Work, reporter: StepReporter) -> dict[str, Record]:
        """Starts the TrainJob, or finds the running one, and waits for it. Raises the exceptions of `run_train_job`."""
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
        run_train_job(task, self.nodes)
        records = work.find(store)
        for kind in work.step.outputs:
            if kind not in records:
                raise ProcessFailed(f"TrainJob {job_name(task)} ended well and left no {kind} in {store.url}")
        return records


def run_train_job(task: Task, nodes: Nodes) -> None:
    """Starts the TrainJob of `task`, or finds the running one, and follows it to its end.

    The job is deleted when it has ended, and when this process receives SIGTERM; a process that is killed leaves it
    running for the next try. Kubernetes deletes it when the pods of all tries are gone. Raises InputError or
    ProcessFailed with the line of the pod that failed first, and InputError where the cluster refuses the job.
    """
    jobs = TrainJobs(nodes.namespace or namespace_here())
    job = train_job(task, nodes)
    if owner := _pod_here(nodes):
        job = owned_by(job, *owner)
    name = job["metadata"]["name"]
    with _ending(lambda: jobs.delete(name)):
        jobs.start(job)
        ended = jobs.follow(name)
        if ended is None:
            raise ProcessFailed(f"TrainJob {name} was deleted before it ended")
        problem = None if ended["type"] == "Complete" else jobs.failure(name, ended)
        jobs.delete(name)
        if problem is not None:
            raise problem


def delete_abandoned(store: str, run: str, nodes: Nodes) -> list[str]:
    """Deletes the TrainJobs of a run in a store that no pod follows any more, and returns their names.

    The exit handler does so: a cancelled run's pods have no time to delete theirs, and Kubernetes keeps the pods, the
    TrainJobs' owners, until the workflow is cleared away. The pods of this pod's own workflow count as ended; those of
    another start of the run, which found the job, do not. Raises InputError where the cluster refuses.
    """
    jobs = TrainJobs(nodes.namespace or namespace_here())
    return jobs.delete_abandoned(store, run, os.environ.get(environment.POD_NAME, ""))


def _pod_here(nodes: Nodes) -> tuple[str, str] | None:
    """Returns name and uid of this pod, if it can own objects in the namespace of the nodes."""
    name, uid = os.environ.get(environment.POD_NAME), os.environ.get(environment.POD_UID)
    if not name or not uid:
        return None
    return (name, uid) if nodes.namespace in (None, namespace_here()) else None


@contextlib.contextmanager
def _ending(clean: Callable[[], object]) -> Iterator[None]:
    """Cleans up when this process receives SIGTERM, then ends the process as without the handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, before)
        with contextlib.suppress(Exception):
            clean()
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
