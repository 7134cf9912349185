"""Components against the table of steps: the one declares what the other's function must have."""

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest
from kfp.dsl.python_component import PythonComponent

import components
from components import artifacts, runs
from multiview import names
from multiview.config.overrides import gather
from multiview.kubeflow import component as library
from multiview.plans import PIPELINES
from multiview.plans.plan import Output, Plan
from multiview.steps.table import STEPS
from pipelines.kubeflow.compile import COMPONENTS
from pipelines.kubeflow.pods import OWN_STEPS
from tests.fixtures.project import ROOT

UNTYPED = {("refresh-report", "changes")}
"""Inputs that take any artifact, whatever its kind."""


def test_every_step_has_exactly_one_component():
    modules = [
        import_module(f"components.{module.name}") for module in pkgutil.iter_modules(components.__path__)
    ]
    found = [
        value.name
        for module in modules
        for value in vars(module).values()
        if isinstance(value, PythonComponent)
    ]
    assert sorted(found) == sorted([*STEPS, *OWN_STEPS, "open-index"])
    assert set(COMPONENTS) == set(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_a_component_has_the_inputs_and_outputs_that_its_step_declares(name):
    step, spec = STEPS[name], COMPONENTS[name].component_spec
    assert spec.inputs is not None and spec.outputs is not None
    shard = ["shard"] if step.sharded else []
    assert sorted(spec.inputs) == sorted(["run", "path", "config", *shard, *step.inputs])
    figures = [names.METRICS] if step.figures_path else []
    assert sorted(spec.outputs) == sorted([*step.outputs, *step.forwards, *figures, "Output"])
    assert {name for name in step.inputs if spec.inputs[name].type == "List[String]"} == set(step.list_inputs)


@pytest.mark.parametrize("name", STEPS)
def test_a_component_hands_all_that_it_is_given_to_its_own_step(name, monkeypatch):
    given = {parameter: object() for parameter in inspect.signature(COMPONENTS[name].python_func).parameters}
    calls = []
    monkeypatch.setattr(library, "execute", lambda step, **artifacts: calls.append((step, artifacts)))
    COMPONENTS[name].execute(**given)
    assert calls == [(name, given)]


def artifact_type(kind: str) -> str:
    return f"system.{names.KFP_TYPES.get(kind, 'Artifact')}@0.0.1"


@pytest.mark.parametrize("name", STEPS)
def test_an_output_has_the_type_of_its_kind(name):
    step, outputs = STEPS[name], COMPONENTS[name].component_spec.outputs
    assert outputs is not None
    for output in (*step.outputs, *step.forwards):
        assert outputs[output].type == artifact_type(output), output
    if step.figures_path:
        assert outputs[names.METRICS].type == "system.Metrics@0.0.1"


def plans() -> list[Plan]:
    """Plans that hold every step, with every kind of artifact that an input is given."""
    queries = gather("dual-cross", ["train.warm_up={max_steps: 2}", "generation.fine_tune=false"])
    tuned = gather("dual-cross", ["generation.fine_tune=true"])
    fused = gather(None, ["comparison={systems: {camvr: {}}, fusion: [camvr]}"])
    training, comparison, refresh = (PIPELINES[name] for name in ("training", "comparison", "refresh"))
    doc2query = gather("dual-cross", ["comparison={systems: {dual: {}}, bm25: true}"])
    made = [
        training({"questions": {"origin": origin}, "generation": {"fine_tune": False}})
        for origin in ("crop", "generator")
    ]
    given = training({"questions": {"hard_negatives": "given"}})
    taught = training({"mining": {"cross_encoder": "some/judge"}, "train": {"distill_weight": 1}})
    return [
        training(tuned),
        training(queries),
        given,
        taught,
        *made,
        comparison(fused),
        comparison(doc2query),
        refresh({"export": {"formats": ["views"], "qdrant_url": "http://qdrant:6333"}}),
        refresh(queries),
    ]


def test_an_input_has_the_type_of_every_artifact_that_it_is_given():
    seen: set[str] = set()
    for node in (node for plan in plans() for node in plan.nodes.values()):
        seen.add(node.step.name)
        inputs = COMPONENTS[node.step.name].component_spec.inputs
        assert inputs is not None
        for name, source in node.inputs.items():
            if (node.step.name, name) in UNTYPED:
                assert inputs[name].type == "system.Artifact@0.0.1", (
                    "it can be typed, or be taken from UNTYPED"
                )
            elif isinstance(source, Output):
                assert inputs[name].type == artifact_type(source.kind), (node.path, name)
    assert seen == set(STEPS)


@pytest.mark.parametrize("made", [runs.import_artifact, artifacts.open_index], ids=lambda made: made.name)
def test_what_the_store_lacks_ends_a_pod_with_one_line(tmp_path, made):
    given = dict.fromkeys(inspect.signature(made.python_func).parameters)
    with pytest.raises(SystemExit, match="^error: .*there is no artifact at"):
        made.execute(**{**given, "address": f"{tmp_path}/store/index/none"})


@pytest.mark.parametrize("name", STEPS)
def test_bad_input_of_a_step_ends_its_pod_with_one_line(tmp_path, name):
    given = dict.fromkeys(inspect.signature(COMPONENTS[name].python_func).parameters, "")
    given |= {"run": f"{tmp_path}/store", "config": "nothing.such=1"}
    with pytest.raises(SystemExit, match=f"^error: nothing.such is not read by {name}, which reads"):
        COMPONENTS[name].execute(**given)


POD = """
import sys
from kfp.dsl import Artifact
from components.data import split
store, config = sys.argv[1:]
made = {name: Artifact(uri=f"{store}/{name}") for name in ("passages", "train_questions", "dev_questions")}
split.python_func(run=store, path="", config=config, **made)
"""


def test_the_log_of_a_pod_without_its_gpu_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_GPUS", "99")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config = "questions.source=demo://train.json; questions.dev_source=demo://dev.json"
    command = [sys.executable, "-c", POD, str(tmp_path), config]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: this pod asked for 99 GPUs") and done.stderr.count("\n") == 1
