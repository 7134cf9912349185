"""A plan as a Kubeflow pipeline."""

# No `from __future__ import annotations` here: KFP reads the annotations of a pipeline's function.

from pathlib import Path
from typing import Any

from kfp import compiler, dsl
from kfp.dsl.python_component import PythonComponent

from components import data, evaluation, queries, refresh, retrieval, training
from components.runs import close_run, open_run
from multiview import names
from multiview.artifacts.record import Reference, split_address
from multiview.config import Config
from multiview.plans.plan import Node, Output, Plan, Source
from multiview.steps.path import StepPath
from pipelines.kubeflow.pods import Pods

COMPONENTS: dict[str, PythonComponent] = {
    value.name: value
    for room in (data, evaluation, queries, refresh, retrieval, training)
    for value in vars(room).values()
    if isinstance(value, PythonComponent)
}
"""The component of each step, by the step's name."""


def pipeline(plan: Plan) -> Any:
    """Returns the KFP pipeline of a plan for the local runner. Its parameter `run` is the JSON of a `runs.Context`."""

    @dsl.pipeline(name=plan.name)
    def graph(run: str):
        _Builder(plan, run).add_all()

    return graph


def cluster_pipeline(plan: Plan, config: Config) -> Any:
    """Returns the KFP pipeline of a plan for a cluster: a first step opens the run, an exit handler closes it, and every
    step has a pod of its own.

    Its parameters are the store's address and `described`, the JSON of a `runs.Run`. Raises InputError for
    settings of pods that cannot be had.
    """
    pods = Pods(config)

    @dsl.pipeline(name=plan.name)
    def graph(store: str, described: str):
        started: dict[str, Any] = {
            "store": store,
            "described": described,
            "job": dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        }
        closed = pods.dress(close_run(**started, url=config.notify.url or ""), "close-run")
        with dsl.ExitHandler(closed, name=plan.name):
            opened = pods.dress(open_run(**started), "open-run")
            _Builder(plan, opened.output, pods).add_all()

    return graph


def compile_plan(plan: Plan, target: Path, config: Config | None = None) -> Path:
    """Writes the IR of a plan's pipeline on a cluster as YAML, with the pods' settings in its second document."""
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(cluster_pipeline(plan, config or Config()), str(target))
    return target


def artifact_type(output: str) -> type[dsl.Artifact]:
    """The class of an output of a step on Kubeflow's pages."""
    return getattr(dsl, names.KFP_TYPES.get(output, "Artifact"))


class _Builder:
    """Makes KFP tasks, and importers for what comes from outside the plan, while KFP traces."""

    def __init__(self, plan: Plan, run: Any, pods: Pods | None = None):
        self.plan, self.run, self.pods = plan, run, pods
        self.tasks: dict[StepPath, Any] = {}
        self.imported: dict[str, Any] = {}

    def add_all(self) -> None:
        for node in self.plan.nodes.values():
            self.add(node)

    def add(self, node: Node) -> None:
        component = COMPONENTS[node.step.name]
        inputs = {
            name: self._addresses(value) if isinstance(value, list) else self._artifact(value)
            for name, value in node.inputs.items()
        }

        def call(**shard: Any) -> Any:
            task = component(run=self.run, path=str(node.path), config=node.config, **inputs, **shard)
            task.set_caching_options(False)
            if self.pods:
                self.pods.dress(task, node.step.name)
            return task.set_display_name(str(node.path))

        if node.shards:
            with dsl.ParallelFor(list(node.shards), name=f"{node.path.dashed}-shards") as shard:
                self.tasks[node.path] = call(shard=shard)
        else:
            self.tasks[node.path] = call()

    def _addresses(self, sources: list[Source]) -> Any:
        # Lists flow as addresses: KFP compiles no list literal of artifacts.
        first = sources[0]
        if len(sources) == 1 and isinstance(first, Output) and self.plan.nodes[first.path].shards:
            return dsl.Collected(self.tasks[first.path].outputs["Output"])
        return [
            s.address if isinstance(s, Reference) else self.tasks[s.path].outputs["Output"] for s in sources
        ]

    def _artifact(self, source: Source) -> Any:
        if isinstance(source, Output):
            return self.tasks[source.path].outputs[source.kind]
        if source.address not in self.imported:
            kind = split_address(source.address)[1]
            # The record alone, because the launcher copies all that lies under the address into every reader's pod.
            self.imported[source.address] = dsl.importer(
                artifact_uri=f"{source.address}/{names.RECORD_FILE}",
                artifact_class=artifact_type(kind),
                reimport=False,
                metadata={"address": source.address, "digest": source.digest},
            )
        return self.imported[source.address].output
