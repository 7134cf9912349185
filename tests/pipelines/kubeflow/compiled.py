"""What a compiled pipeline says: its documents, tasks, and what it takes from a store."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).parents[1] / "golden"


def documents(path: Path) -> tuple[dict, dict]:
    """The pipeline, and what its platform sets per executor."""
    pipeline, platform = yaml.safe_load_all(path.read_text())
    return pipeline, platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def dags(ir: dict) -> list[dict]:
    return [ir["root"]["dag"], *(c["dag"] for c in ir["components"].values() if "dag" in c)]


def all_tasks(ir: dict) -> dict[str, dict]:
    """All tasks by name, loops and exit handlers among them."""
    return {name: task for dag in dags(ir) for name, task in dag["tasks"].items()}


def tasks_of(ir: dict) -> dict[str, dict]:
    """All tasks that run a component, by name; those of loops and of the exit handler's block among them."""
    leaves = {name for name, c in ir["components"].items() if "executorLabel" in c}
    return {name: task for name, task in all_tasks(ir).items() if task["componentRef"]["name"] in leaves}


def imports(ir: dict) -> list[tuple[str, str]]:
    """Address and digest of each artifact that comes from a store."""

    def constant(task: dict[str, Any], name: str) -> str:
        return task["inputs"]["parameters"][name]["runtimeValue"]["constant"]

    tasks = [task for name, task in tasks_of(ir).items() if name.startswith("import-artifact")]
    return [(constant(task, "address"), constant(task, "digest")) for task in tasks]


def shared_inputs(ir: dict) -> list[str]:
    """The tasks that have one artifact as two inputs."""
    found = []
    for name, task in all_tasks(ir).items():
        artifacts = task.get("inputs", {}).get("artifacts", {}).values()
        if max(Counter(map(str, artifacts)).values(), default=0) > 1:
            found.append(name)
    return found
