"""A run as Kubeflow's API shows it: its state, its steps, the pod that failed, and when it was last heard of.

The API lists the nodes of the run's Argo workflow. A step has about five: `KEY-driver`, `KEY`, `executor`, and
`executor(0)` for each attempt; if the controller retries every template, each has a node `NAME(0)` below it. KEY is
the task's name in the compiled pipeline, and the node KEY has the step's final state. A node has neither a message nor
its own id, only the ids of its children. The last nodes of a run that has ended may still be RUNNING.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count, takewhile

from multiview.artifacts.store import Store
from multiview.config import JsonObject
from multiview.config.documents import read_compiled
from multiview.steps.events import read_progress
from multiview.steps.runs import read_states
from multiview.steps.table import STEPS
from pipelines.kubeflow.client import ApiObject
from pipelines.kubeflow.submission import Submission

SUCCEEDED = "SUCCEEDED"
ENDED = {SUCCEEDED, "SKIPPED", "FAILED", "CANCELED"}
"""States of KFP's runs that are final; a run that Kubeflow has not picked up yet has no state."""
CANCELLED = {"CANCELING", "CANCELED"}
"""States of a run that a person ended. If its workflow ends during a step, FAILED follows CANCELING."""
SILENCE = timedelta(minutes=20)
"""Silence after which a run's workflow may be gone: Kubeflow then has it RUNNING, or CANCELING, for ever. A working
step writes its progress every half minute, but not while it waits for its nodes or for its next attempt."""
DRIVER = "-driver"


@dataclass(frozen=True)
class Task:
    """A step of a compiled pipeline."""

    path: str
    """The step's path, without the shard."""
    count: int | None = None
    """The number of its shards, whose nodes have the same names; None for a step without shards."""
    prefix: str = ""
    """What KFP puts before its template names for pods with annotations or labels: how many of each."""


def read_tasks(text: str) -> dict[str, Task]:
    """Returns the steps of a compiled pipeline by the keys of their tasks."""
    spec, pods = read_compiled(text)
    return dict(_read(spec, pods, spec["root"], None))


def _read(
    spec: JsonObject, pods: JsonObject, component: JsonObject, count: int | None
) -> Iterator[tuple[str, Task]]:
    for key, task in component["dag"]["tasks"].items():
        inner = spec["components"][task["componentRef"]["name"]]
        if "dag" in inner:
            items = task.get("parameterIterator", {}).get("items", {}).get("raw")
            yield from _read(spec, pods, inner, len(json.loads(items)) if items else count)
        else:
            given = pods.get(inner["executorLabel"], {}).get("podMetadata")
            number = {name: len(each) for name, each in (given or {}).items()}
            prefix = f"metadata-{number.get('annotations', 0)}-{number.get('labels', 0)}-" if given else ""
            yield key, Task(task["taskInfo"]["name"], count, prefix)


@dataclass(frozen=True)
class StepPod:
    """The last pod of a step, or its driver's."""

    task: Task
    node: str | None
    """The id of the pod's node; None if the API does not tell it."""
    started: bool = True
    """Whether it is the step's own pod, and not its driver's."""
    at_work: bool = False
    """Whether the API still has it RUNNING. If the run has failed, it failed last, or was cut short."""


@dataclass(frozen=True)
class RunView:
    """A run as the API shows it. Without `tasks`, a step's path is the key of its task."""

    run: ApiObject
    tasks: Mapping[str, Task] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.run.state in ENDED

    @property
    def unsuccessful(self) -> bool:
        return self.ended and self.run.state != SUCCEEDED

    @property
    def word(self) -> str:
        """The run's state for people."""
        if self.cancelled:
            return "cancelled" if self.ended else "being cancelled"
        return (self.run.state or "PENDING").lower()

    @property
    def cancelled(self) -> bool:
        """Whether a person ended the run, or is about to."""
        states = {self.run.state, *(past.state for past in self.run.state_history or ())}
        return self.run.state != SUCCEEDED and bool(states & CANCELLED)

    @property
    def nodes(self) -> list[ApiObject]:
        return (self.run.run_details and self.run.run_details.task_details) or []

    @property
    def steps(self) -> list[tuple[Task, ApiObject]]:
        """The steps that have begun, each with the node that has its state, in order of their start."""
        tasks = self.tasks
        found = [(tasks[node.display_name], node) for node in self.nodes if node.display_name in tasks]
        return sorted(found, key=lambda pair: (pair[1].start_time, pair[1].display_name, pair[1].task_id))

    @property
    def heard(self) -> datetime:
        """The latest time in the API's history of the run and its nodes."""
        times = [self.run.created_at]
        for each in (self.run, *self.nodes):
            times += [past.update_time for past in each.state_history or ()]
        return max(times)

    @property
    def workflow(self) -> str | None:
        """The name of the run's workflow; None before it has one."""
        ids = [child for node in self.nodes for child in _children(node)]
        return ids[0].rpartition("-")[0] if ids else None

    @property
    def waits(self) -> bool:
        """Whether a pod waits for a node, for its turn in a queue or for its image."""
        return any(node.state == "PENDING" for node in self.nodes)

    @property
    def failure(self) -> StepPod | None:
        """The step that failed first, else the first failed driver, else a step that is still RUNNING, else None."""
        for started, state in ((True, "FAILED"), (False, "FAILED"), (True, "RUNNING")):
            failed = [each for each in self._pods if each[0].state == state and each[1].started == started]
            if failed:
                _, first = min(failed, key=lambda each: each[0].end_time)
                return replace(first, at_work=state == "RUNNING")
        return None

    @property
    def at_work(self) -> list[StepPod]:
        """The steps, and drivers of steps, that have begun and not ended."""
        at_work = (pod for node, pod in self._pods if node.state in ("PENDING", "RUNNING") and pod.node)
        return list(dict.fromkeys(at_work))

    @cached_property
    def _pods(self) -> list[tuple[ApiObject, StepPod]]:
        """The pods of steps and their drivers, each with a node above it; a node's last pod comes first."""
        found = []
        for node in self.nodes:
            key = re.sub(rf"({DRIVER})?(\(\d+\))?$", "", node.display_name or "")
            driver = (node.display_name or "").endswith(DRIVER)
            executors = [self._executors[child] for child in _children(node) if child in self._executors]
            pods = (_children(node) or [None]) if driver else executors
            task = self.tasks.get(key, Task(key))
            found += [(node, StepPod(task, pod, started=not driver)) for pod in reversed(pods)]
        return found

    @cached_property
    def _executors(self) -> dict[str, str]:
        """The id of each executor's last pod, by the executor's id and by that of the node around it."""
        ids = {child for node in self.nodes for child in _children(node)}
        pods = {}
        for outer in ids:
            if (executor := _id_below(outer, ".executor")) in ids:
                attempts = takewhile(ids.__contains__, (_id_below(executor, f"({n})") for n in count()))
                pods[outer] = pods[executor] = [executor, *attempts][-1]
        return pods


def silence_of(view: RunView, find: Callable[[], Store | None], submission: Submission) -> tuple[str, bool]:
    """Returns a line about a submission's run if it has been silent for a while, else an empty one; and whether it is
    certainly gone. `find` is called if Kubeflow has heard nothing, and returns the run's store if it can be read."""
    from pipelines.kubeflow.pods import WAIT_HOURS, Pods

    heard, now, run = view.heard, datetime.now(UTC), submission.run.id
    pods, hours = Pods(submission.config), [0.0]
    store = find() if now - heard > SILENCE else None
    for state in read_states(store, run) if store else ():
        progress = read_progress(store, state.attempt) if store and state.status == "running" else None
        last = max(state.started, state.ended or 0.0, progress.time if progress else 0.0)
        heard = max(heard, datetime.fromtimestamp(last, UTC))
        # It is silent until its next attempt, and while its nodes wait for each other.
        if not state.finished:
            pod = pods.pod(state.step)
            hours.append(pod.backoff_seconds * 2 ** (pod.retries - 1) / 3600 + WAIT_HOURS * (pod.nodes > 1))
    if now - heard <= SILENCE:
        return "", False
    # A pod waits for a node, or with several nodes also for the others, and then runs.
    if view.waits or not store:
        hours = [WAIT_HOURS * min(pod.nodes, 2) + pod.timeout_hours for pod in map(pods.pod, STEPS)]
    gone = now - heard > SILENCE + timedelta(hours=max(hours))
    going = "a pod of it waits for a node or its image" if view.waits else "a step of it is long or waits"
    why = "its workflow is gone" if gone else f"{going}, or its workflow is gone"
    since = f"nothing has been heard of it since {heard:%Y-%m-%d %H:%M} UTC"
    return f"{since}: {why}; --again starts another run beside it", gone


def store_of(run: ApiObject) -> str:
    """Returns the URL of the store that a run writes into; empty for a run that is not ours."""
    parameters = run.runtime_config and run.runtime_config.parameters
    return (parameters or {}).get("store") or ""


def _children(node: ApiObject) -> list[str]:
    return [child.pod_name for child in node.child_tasks or ()]


def _id_below(node: str, suffix: str) -> str:
    """Returns the id of the node named like `node` plus a suffix: Argo's ids end with the FNV-1a hash of the name."""
    workflow, _, digest = node.rpartition("-")
    value = int(digest)
    for byte in suffix.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return f"{workflow}-{value}"
