"""The steps of a run, read from the nodes of its Argo workflow, which KFP's API lists.

A step has about five nodes: `KEY-driver`, `KEY`, `executor`, and `executor(0)` for each attempt. KEY is the task's
name in the compiled pipeline, not its display name, and the node KEY has the step's final state. The drivers of loops
and of the whole pipeline have nodes too. A node has neither a message nor a reference to its parent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from multiview.config import JsonObject
from multiview.config.documents import read_compiled
from multiview.errors import counted
from pipelines.kubeflow.client import ApiObject

DRIVER = "-driver"
PRINTED_STATES = ("RUNNING", "SUCCEEDED", "FAILED", "SKIPPED")
"""States that are printed; a step that will not run has no state."""


@dataclass(frozen=True)
class Task:
    """A step of a compiled pipeline."""

    path: str
    """The step's path, without the shard."""
    count: int | None = None
    """The number of its shards, whose nodes have the same names; None for a step without shards."""


def read_tasks(text: str) -> dict[str, Task]:
    """Returns the steps of a compiled pipeline by the keys of their tasks."""
    spec = read_compiled(text)
    return dict(_read(spec, spec["root"], None))


def _read(spec: JsonObject, component: JsonObject, count: int | None) -> Iterator[tuple[str, Task]]:
    for key, task in component["dag"]["tasks"].items():
        inner = spec["components"][task["componentRef"]["name"]]
        if "dag" in inner:
            items = task.get("parameterIterator", {}).get("items", {}).get("raw")
            yield from _read(spec, inner, len(json.loads(items)) if items else count)
        else:
            yield key, Task(task["taskInfo"]["name"], count)


@dataclass(frozen=True)
class Failure:
    """A step that failed, or that Kubeflow could not start."""

    path: str
    key: str
    started: bool

    def __str__(self) -> str:
        if self.started:
            return f"{self.path}: failed without a word; its pod's log knows more"
        return f"{self.path}: never started; the log of its pod {self.key}{DRIVER} knows more"


class Tasks:
    """The steps of one run, which is polled."""

    def __init__(self, tasks: Mapping[str, Task]):
        self.tasks = tasks
        self.reported: dict[tuple[str, str], set[str]] = {}
        """The ids of the nodes that were reported in a state, by the step's key and the state."""

    def changes(self, run: ApiObject) -> Iterator[str]:
        """Yields a line for each step or shard whose state has changed since the last poll."""
        for key, node in self._nodes(run):
            reported = self.reported.setdefault((key, node.state), set())
            if node.state in PRINTED_STATES and node.task_id not in reported:
                reported.add(node.task_id)
                task = self.tasks[key]
                number = f" ({len(reported)} of {counted(task.count, 'shard')})" if task.count else ""
                yield f"{task.path} {node.state.lower()}{number}"

    def failure(self, run: ApiObject) -> Failure | None:
        """Returns the step that failed first according to KFP; None if no step has failed."""
        failed = [(node.end_time, key) for key, node in self._nodes(run) if node.state == "FAILED"]
        if failed:
            key = min(failed)[1]
            return Failure(self.tasks[key].path, key, started=True)
        drivers = [
            (node.end_time, node.display_name.removesuffix(DRIVER))
            for node in nodes_of(run)
            if node.state == "FAILED" and (node.display_name or "").endswith(DRIVER)
        ]
        if not drivers:
            return None
        key = min(drivers)[1]
        return Failure(self.tasks[key].path if key in self.tasks else key, key, started=False)

    def _nodes(self, run: ApiObject) -> list[tuple[str, ApiObject]]:
        """Returns the nodes with the final states of steps, each with its step's key, by start time."""
        found = [(node.display_name, node) for node in nodes_of(run) if node.display_name in self.tasks]
        return sorted(found, key=lambda pair: (pair[1].start_time, pair[0], pair[1].task_id))


def nodes_of(run: ApiObject) -> list[ApiObject]:
    return (run.run_details and run.run_details.task_details) or []
