"""The graph of each compiled pipeline with all defaults, as `tests/pipelines/golden/` holds it: tasks with inputs, outputs
and dependencies, loops, exit handlers, and pods. `python -m tests.pipelines.kubeflow.golden` writes them anew.

Left out are the components' sources, which tests/components has.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from multiview.plans import PIPELINES
from tests.fixtures.compiled import default_documents

FOLDER = Path(__file__).parents[1] / "golden"
CHANNEL = "pipelinechannel--"
"""Before the name of what a nested graph takes from outside, in KFP's IR."""

Json = dict[str, Any]


class Graph:
    """The graph of a compiled pipeline. `pods` are the different pods in the order of their tasks."""

    def __init__(self, ir: Json, platform: Json):
        self.ir, self.platform = ir, platform
        self.pods: list[Json] = []

    def whole(self) -> Json:
        """All that is held of the pipeline."""
        inputs = self.ir["root"]["inputDefinitions"]["parameters"]
        return {
            "name": self.ir["pipelineInfo"]["name"],
            "parameters": {name: declared["parameterType"] for name, declared in inputs.items()},
            "tasks": self.tasks(self.ir["root"]["dag"]),
            "pods": dict(enumerate(self.pods)),
        }

    def tasks(self, dag: Json) -> Json:
        return {name: self.task(task) for name, task in dag["tasks"].items()}

    def task(self, task: Json) -> Json:
        component = self.ir["components"][task["componentRef"]["name"]]
        held: Json = {"title": task["taskInfo"]["name"]}
        if "dependentTasks" in task:
            held["after"] = task["dependentTasks"]
        if "triggerPolicy" in task:
            held["trigger"] = task["triggerPolicy"]["strategy"]
        if "parameterIterator" in task:
            held["for each"] = json.loads(task["parameterIterator"]["items"]["raw"])
            held["at once"] = task.get("iteratorPolicy", {}).get("parallelismLimit")
        if "dag" in component:
            return held | {"tasks": self.tasks(component["dag"])}
        inputs = task.get("inputs", {})
        types = component.get("inputDefinitions", {}).get("artifacts", {})
        outputs = component.get("outputDefinitions", {}).get("artifacts", {})
        held |= {name: _parameter(name, given) for name, given in inputs.get("parameters", {}).items()}
        held |= {
            name: f"{_title(types[name])} {_source(given)}"
            for name, given in inputs.get("artifacts", {}).items()
        }
        return held | {
            "outputs": {name: _title(output) for name, output in outputs.items()},
            "pod": self.pod(task, component["executorLabel"]),
        }

    def pod(self, task: Json, executor: str) -> int:
        """The number of a task's pod among the different ones."""
        container = self.ir["deploymentSpec"]["executors"][executor]["container"]
        pod = {name: value for name, value in container.items() if name not in ("command", "args")}
        pod |= {name: task[name] for name in ("retryPolicy", "cachingOptions") if name in task}
        pod |= self.platform.get(executor, {})
        if pod not in self.pods:
            self.pods.append(pod)
        return self.pods.index(pod)


def _title(definition: Json) -> str:
    return definition["artifactType"]["schemaTitle"].removeprefix("system.")


def _source(given: Json) -> str:
    """Where the value of an input comes from."""
    ((_, value),) = given.items()
    if isinstance(value, str):
        return value.replace(CHANNEL, "")
    return ".".join(value[key] for key in sorted(value, reverse=True))


def _parameter(name: str, given: Json) -> Any:
    if "runtimeValue" not in given:
        return _source(given)
    constant = given["runtimeValue"]["constant"]
    if name == "compiled":
        return {key: value for key, value in json.loads(constant).items() if key != "defaults"}
    return constant


def graph(name: str) -> Json:
    """What is held of the pipeline of this name."""
    return Graph(*default_documents(name)).whole()


if __name__ == "__main__":
    for name in PIPELINES:
        text = yaml.safe_dump(graph(name), sort_keys=False, default_flow_style=None, width=110)
        (FOLDER / f"{name}.yaml").write_text(text)
