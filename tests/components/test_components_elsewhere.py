"""Components for pipelines of other teams, as the document compiles them, and used in one that runs."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from kfp import compiler, components, dsl, local

from components.steps import step_component
from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.plans.system import training
from multiview.steps.runs import Run, read_run, read_states, write_run
from multiview.steps.table import STEPS
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert

DOCUMENT = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
WRITING, GIVING = re.findall(
    r"^```python\n(.*?)^```", DOCUMENT.partition("## Components in other pipelines")[2], re.M | re.S
)[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The components as the document writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("components"))
        exec(WRITING, {})
        folder = Path("components-yaml").absolute()
    assert {file.stem for file in folder.iterdir()} == {"open-index", *STEPS}
    return folder


def test_a_component_needs_its_run_and_its_artifacts_alone(folder):
    for name in STEPS:
        ir = yaml.safe_load((folder / f"{name}.yaml").read_text())
        parameters = ir["components"][f"comp-{name}"]["inputDefinitions"]["parameters"]
        needed = {key for key, value in parameters.items() if not value.get("isOptional")}
        assert needed == {"run", *STEPS[name].list_inputs, *(["shard"] if STEPS[name].sharded else [])}


def test_the_example_does_without_kfp_s_cache(folder, tmp_path):
    """It compares addresses alone: it would find what an earlier champion or earlier sources gave."""
    compiler.Compiler().compile(example()(folder), str(tmp_path / "example.yaml"))
    tasks = yaml.safe_load((tmp_path / "example.yaml").read_text())["root"]["dag"]["tasks"]
    assert set(tasks) == {"open-index", "split-again", "evaluate"}
    assert not any(task["cachingOptions"].get("enableCache") for task in tasks.values())


def example():
    content: dict = {"__name__": "evaluate_index"}
    exec((ROOT / "docs" / "examples" / "evaluate_index.py").read_text(), content)
    return content["pipeline"]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """The address of the index of an untrained model."""
    folder = tmp_path_factory.mktemp("index")
    passages, questions = write_corpus(folder)
    overrides = {
        "corpus": {"source": str(passages)},
        "questions": {"source": str(questions)},
        "model": {"architecture": "dpr", "base": str(tiny_bert(folder / "base"))},
        "train": {"rounds": 0},
        "evaluation": {"analyses": []},
    }
    store = LocalStore(folder / "store")
    write_run(store, Run(id="run", pipeline="training", config=overrides))
    record = run_plan(training(overrides), store)["dpr/round-0/index"][names.INDEX]
    return f"{store.url}/{record.folder}"


@pytest.fixture(autouse=True)
def through_kfp(monkeypatch, tmp_path) -> None:
    """KFP runs each step of a pipeline in a process of its own, of which MLflow hears nothing."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))


def test_another_team_measures_an_index_on_its_own_questions(folder, tmp_path, index):
    questions = tmp_path / "ours.jsonl"
    asked = [{"qid": f"ours-{n}", "question": "Who built it?", "answers": ["the"]} for n in range(3)]
    questions.write_text("\n".join(map(json.dumps, asked)))
    store = LocalStore(tmp_path / "theirs")
    example()(folder)(store=store.url, index=index, questions=str(questions))

    runs = {run.rpartition("-")[0]: run for run in store.folders(names.RUNS)}
    assert set(runs) == {"split-again", "evaluate"}, "each step is a run of its own"
    assert read_run(store, runs["evaluate"]).steps == ["evaluate"]
    (state,) = read_states(store, runs["evaluate"])
    assert state.status == "done" and state.config["evaluation"]["depth"] == 20
    assert state.inputs["index"][0].address == index
    (metrics,) = (tmp_path / "kfp").rglob("evaluate/metrics")
    assert set(json.loads(metrics.read_text())) == {"accuracy_at_1", "accuracy_at_5", "accuracy_at_20"}
    _, record = load_record(state.outputs[names.EVALUATION].address)
    table = pq.read_table(store.root / record.data / "questions.parquet")
    assert table["qid"].to_pylist() == [row["qid"] for row in asked]


def test_a_component_is_given_an_artifact_of_a_store_as_the_document_says(folder, index, monkeypatch):
    """By its address; with a digest: tests/kubeflow/test_component.py. The same vectors are in the store already: the step
    finds them by the model's digest."""
    monkeypatch.chdir(folder.parent)
    exec(GIVING, {"compiler": compiler, "step_component": step_component, "STEPS": STEPS})
    opening, encoding = (
        components.load_component_from_file(f"components-yaml/{name}.yaml")
        for name in ("open-index", "encode-by-a-model")
    )

    @dsl.pipeline
    def encode_again(store: str, index: str, model: str):
        passages = opening(address=index).outputs["passages"]
        encoding(run=store, shard="shard-00", passages=passages, model=model, config="model.architecture=dpr")

    store, record = load_record(index)
    (model,) = record.inputs[names.MODEL]
    encode_again(store=store.url, index=index, model=model.address)
    (run,) = (run for run in store.folders(names.RUNS) if run.startswith("encode-"))
    (state,) = read_states(store, run)
    assert state.status == "found" and state.outputs[names.EMBEDDINGS] == record.inputs[names.EMBEDDINGS][0]
