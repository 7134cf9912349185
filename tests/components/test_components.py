"""Components, made from the table of steps: their types, and the line with which a pod ends."""

import inspect
import re

import pytest

from components import runs
from components.steps import step_component
from multiview import names
from multiview.config.overrides import gather
from multiview.kubeflow import component as library
from multiview.plans import PIPELINES
from multiview.plans.plan import Output, Plan
from multiview.steps.table import STEPS
from tests.fixtures.forked import run_forked


@pytest.mark.parametrize("name", STEPS)
def test_a_component_has_the_inputs_and_outputs_that_its_step_declares(name):
    step, spec = STEPS[name], step_component(STEPS[name]).component_spec
    assert spec.inputs is not None and spec.outputs is not None
    assert spec.description == step.about
    shard = ["shard"] if step.sharded else []
    assert sorted(spec.inputs) == sorted(["run", "path", "config", *shard, *step.inputs])
    figures = [names.METRICS] if step.figures_path else []
    assert sorted(spec.outputs) == sorted([*step.outputs, *step.forwards, *figures, "Output"])
    assert {name for name in step.inputs if spec.inputs[name].type == "List[String]"} == set(step.list_inputs)


@pytest.mark.parametrize("name", STEPS)
def test_a_component_hands_all_that_it_is_given_to_its_own_step(name, monkeypatch):
    given = {
        parameter: object()
        for parameter in inspect.signature(step_component(STEPS[name]).python_func).parameters
    }
    calls = []
    monkeypatch.setattr(library, "execute", lambda step, **artifacts: calls.append((step, artifacts)))
    step_component(STEPS[name]).execute(**given)
    assert calls == [(name, given)]


def plans() -> list[Plan]:
    """Plans that hold every step, with every kind of artifact that an input is given."""
    queries = gather("dual-cross", ["train.warm_up={max_steps: 2}", "generation.fine_tune=false"])
    tuned = gather("dual-cross", ["generation.fine_tune=true"])
    fused = gather(None, ["comparison={systems: {camvr: {}}, fusion: [camvr]}"])
    training, comparison, refresh = (PIPELINES[name] for name in ("training", "comparison", "refresh"))
    doc2query = gather("dual-cross", ["comparison={systems: {dual: {}}, bm25: true}"])
    llm = {"make_questions": {"llm": {"model": "m"}}, "generation": {"fine_tune": False}}
    made = [training({"questions": {"origin": origin}, **llm}) for origin in ("crop", "generator", "llm")]
    return [
        training(tuned),
        training(queries),
        training({"questions": {"hard_negatives": "given"}}),
        training({"mining": {"cross_encoder": "some/judge"}, "train": {"distill_weight": 1}}),
        *made,
        comparison(fused),
        comparison(doc2query),
        refresh({"export": {"formats": ["views"], "qdrant_url": "http://qdrant:6333"}}),
        refresh({"search": {"mode": "hybrid"}}),
        refresh(queries),
    ]


def test_an_input_has_the_type_of_every_artifact_that_it_is_given():
    seen: set[str] = set()
    for plan, node in ((made, node) for made in plans() for node in made.nodes.values()):
        seen.add(node.step.name)
        inputs = step_component(node.step).component_spec.inputs
        assert inputs is not None
        for name, source in node.sources():
            if isinstance(source, Output) and name not in node.step.list_inputs:
                outputs = step_component(plan.nodes[source.path].step).component_spec.outputs
                assert outputs and inputs[name].type == outputs[source.kind].type, (node.path, name)
    assert seen == set(STEPS) - {"make-questions-by-index"}, "which reads an index that exists"


@pytest.mark.parametrize(
    ("made", "name"),
    [(runs.open_index, "address"), (step_component(STEPS["encode"], frozenset({"model"})), "model")],
)
def test_what_the_store_lacks_ends_a_pod_with_one_line(tmp_path, made, name):
    given = dict.fromkeys(inspect.signature(made.python_func).parameters, "")
    given |= {"run": f"{tmp_path}/store"} if "run" in given else {}
    with pytest.raises(SystemExit, match="^error: there is no artifact at"):
        made.execute(**{**given, name: f"{tmp_path}/store/index/none"})


def test_a_run_that_cannot_be_opened_ends_its_first_pod_with_one_line(tmp_path):
    with pytest.raises(SystemExit, match="^error: described is empty"):
        runs.open_run.execute(store=str(tmp_path), described="", job="j")


@pytest.mark.parametrize("name", STEPS)
def test_bad_input_of_a_step_ends_its_pod_with_one_line(tmp_path, name):
    given = dict.fromkeys(inspect.signature(step_component(STEPS[name]).python_func).parameters, "")
    given |= {"run": f"{tmp_path}/store", "config": "nothing.such=1"}
    with pytest.raises(SystemExit, match=f"^error: nothing.such is not read by {name}, which reads"):
        step_component(STEPS[name]).execute(**given)


POD = """
import sys
from kfp.dsl import Artifact
from components.steps import step_component
from multiview.steps.table import STEPS
store, config = sys.argv[1:]
made = {name: Artifact(uri=f"{store}/{name}") for name in ("passages", "train_questions", "dev_questions")}
step_component(STEPS["split"]).python_func(run=store, path="", config=config, **made)
"""


def test_the_log_of_a_pod_without_its_gpu_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_GPUS", "99")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config = "questions.source=demo://train.json; questions.dev_source=demo://dev.json"
    done = run_forked(POD, str(tmp_path), config)
    assert done.status == 1 and re.fullmatch(r"✗ split \d+\.\d s\n", done.out)
    assert done.errors.startswith("error: this pod asked for 99 GPUs") and done.errors.count("\n") == 1
