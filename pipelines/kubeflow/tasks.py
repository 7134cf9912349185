"""The steps of a run as KFP's API tells them, which lists the nodes of Argo's workflow.

About five nodes stand for a step: `KEY-driver`, `KEY`, `executor`, `executor(0)` for each attempt. KEY is the task's
name in the compiled pipeline, not its display name, and the node KEY has the step's final state. Drivers of loops and
of the whole have nodes too. No node has a message, nor says which node it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from pipelines.kubeflow.client import ApiObject

DRIVER = "-driver"
STATES = ("RUNNING", "SUCCEEDED", "FAILED", "SKIPPED")
"""States that are told; a step that will not run has none."""


@dataclass(frozen=True)
class Task:
    """A step of a compiled pipeline."""

    path: str
    """The path of the step; for a step on shards, of the whole."""
    count: int | None = None
    """The number of its shards, each of which has nodes of the same names; None for a step without."""


def read_tasks(text: str) -> dict[str, Task]:
    """Returns the step of each task of a compiled pipeline, by the task's key."""
    spec: Any = next(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return dict(_read(spec, spec["root"], None))


def _read(spec: Any, component: Any, count: int | None) -> Iterator[tuple[str, Task]]:
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
    """The steps of one run, over several looks at it."""

    def __init__(self, tasks: Mapping[str, Task]):
        self.tasks = tasks
        self.told: dict[str, set[str]] = {}
        """The nodes whose step was told to be in a state, by the step's key and the state."""

    def changes(self, run: ApiObject) -> Iterator[str]:
        """Yields a line for each step, and each shard of one, that is in another state than at the last look."""
        for key, node in self._nodes(run):
            told = self.told.setdefault(f"{key} {node.state}", set())
            if node.state in STATES and node.task_id not in told:
                told.add(node.task_id)
                task = self.tasks[key]
                number = f" ({len(told)} of {task.count} shards)" if task.count else ""
                yield f"{task.path} {node.state.lower()}{number}"

    def failure(self, run: ApiObject) -> Failure | None:
        """Returns the step that failed first, as far as KFP knows; None if none has failed."""
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
        """The nodes that stand for a step as a whole, with its key, in the order of their starts."""
        found = [(node.display_name, node) for node in nodes_of(run) if node.display_name in self.tasks]
        return sorted(found, key=lambda pair: (pair[1].start_time, pair[0], pair[1].task_id))


def nodes_of(run: ApiObject) -> list[ApiObject]:
    return (run.run_details and run.run_details.task_details) or []
