"""Compiles a plan into a Kubeflow pipeline."""

# No `from __future__ import annotations` here: KFP reads the annotations of a pipeline's function.

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kfp import compiler, dsl

from components.runs import close_run, open_run
from components.steps import step_component
from multiview.artifacts.record import Reference
from multiview.kubeflow.run import CLOSE_RUN, OPEN_RUN
from multiview.plans import PIPELINES
from multiview.plans.parameters import FURTHER, CompiledRequest, Parameter, parameters_of
from multiview.plans.plan import Output, Plan, Source
from multiview.plans.pod_settings import check_gpus
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from pipelines.kubeflow.pod_template import KfpObject
from pipelines.kubeflow.pods import Pods

STORE_HELP = "Address of the store, as in gs://BUCKET/PREFIX or s3://BUCKET/PREFIX."
DESCRIBED_HELP = (
    "The run as `python -m pipelines` has described it. Leave it as it is: with other parameters another run is "
    "started, whatever stands here."
)


def cluster_pipeline(request: Request, store: str | None = None) -> KfpObject:
    """Returns the KFP pipeline of a request: a first step opens the run, an exit handler closes it, and every step has
    its own pod. Its parameters are the store's address (by default `store`), `described`, and those of
    `multiview.plans.parameters`. Raises InputError for invalid pod settings."""
    plan, config = request.plan, request.config
    pods = Pods(config, {node.step.name for node in plan.nodes.values()})
    compiled = CompiledRequest.of(request)
    check_gpus(request.plan, config)
    parameters = parameters_of(request) if compiled else ()

    def graph(store: KfpObject, described: KfpObject, *given: KfpObject) -> None:
        started = {"store": store, "described": described, "job": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
        changes: dict[str, object] = {}
        if compiled:
            names = [*(parameter.name for parameter in parameters), "settings"]
            changes = {"compiled": compiled.model_dump_json(), **dict(zip(names, given, strict=True))}
        closing = close_run(
            **started,
            pipeline=plan.name,
            notify=config.notify.model_dump_json(exclude_none=True),
            **({"there": list(request.there)} if request.there else {}),
        )
        closed = pods.configure(closing, CLOSE_RUN)
        with dsl.ExitHandler(closed, name=plan.name):
            opened = pods.configure(open_run(**started, **changes), OPEN_RUN)
            add_tasks(plan, opened.output, pods)

    _declare(graph, plan.name, parameters, store, whole=compiled is not None)
    return dsl.pipeline(name=plan.name)(graph)


def _declare(
    graph: Callable[..., None], pipeline: str, parameters: Iterable[Parameter], store: str | None, whole: bool
) -> None:
    """Gives a pipeline's function the signature and the docstring from which KFP reads its parameters."""
    declared = [
        Parameter("store", store, str, STORE_HELP),
        Parameter("described", "" if whole else None, str, DESCRIBED_HELP),
        *parameters,
        *([Parameter("settings", "", str, FURTHER)] if whole else ()),
    ]
    signature = []
    for each in declared:
        default = inspect.Parameter.empty if each.default is None else each.default
        keyword = inspect.Parameter.KEYWORD_ONLY
        signature.append(inspect.Parameter(each.name, keyword, default=default, annotation=each.type))
    about = inspect.getdoc(PIPELINES[pipeline]) if pipeline in PIPELINES else None
    arguments = [f"    {parameter.name}: {parameter.description}" for parameter in declared]
    graph.__doc__ = "\n".join([about or pipeline, "", "Args:", *arguments])
    vars(graph)["__signature__"] = inspect.Signature(signature)


def compile_request(request: Request, target: Path, store: str | None = None) -> Path:
    """Writes the IR of a request's pipeline as YAML, with the pods' settings in a second document. `store` is the runs'
    default store; without it, every run has to name one."""
    pipeline = cluster_pipeline(request, store)
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(pipeline, str(target))
    return target


def add_tasks(plan: Plan, run: KfpObject, pods: Pods) -> None:
    """Makes the KFP tasks of a plan while KFP traces it; `run` is the JSON of a `runs.RunReference`. Artifacts from
    outside are given as references: a task to import one would take two pods, and KFP's metadata store refuses one
    artifact as two inputs of a task."""
    tasks: dict[StepPath, KfpObject] = {}
    for node in plan.nodes.values():
        inputs: dict[str, KfpObject] = {"run": run, "path": str(node.path)}
        for name, sources in node.inputs.items():
            if name in node.step.list_inputs:
                inputs[name] = _addresses(plan, tasks, sources)
            elif isinstance(source := sources[0], Output):
                inputs[name] = tasks[source.path].outputs[source.kind]
            else:
                inputs[name] = source.model_dump_json(exclude_defaults=True)
        there = frozenset(name for name, source in node.sources() if isinstance(source, Reference))
        outputs = [(name, source) for name, source in node.sources() if isinstance(source, Output)]
        read = {name: plan.nodes[source.path].there for name, source in outputs}
        if shards := {name: addresses for name, addresses in read.items() if addresses}:
            inputs["there"] = json.dumps(shards)
        component = step_component(node.step, there, by_shard=bool(shards))
        if node.shards:
            # The loop has no name: before 2.16, KFP does not find the outputs of a named one.
            parallel = pods.pod(node.step.name).parallel_shards
            with dsl.ParallelFor(list(node.shards), parallelism=parallel) as shard:
                task = pods.configure(component(**inputs, shard=shard), node.step.name)
        else:
            task = pods.configure(component(**inputs), node.step.name)
        tasks[node.path] = task.set_display_name(str(node.path))


def _addresses(plan: Plan, tasks: Mapping[StepPath, KfpObject], sources: list[Source]) -> KfpObject:
    """Returns the addresses of the artifacts of a list: KFP compiles no list literal of artifacts."""
    first = sources[0]
    if len(sources) == 1 and isinstance(first, Output) and plan.nodes[first.path].shards:
        return dsl.Collected(tasks[first.path].outputs["Output"])
    return [s.address if isinstance(s, Reference) else tasks[s.path].outputs["Output"] for s in sources]
