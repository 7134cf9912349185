"""Components for pipelines of other teams: typed, described, and used in one that runs."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from kfp import compiler, components, dsl, local

from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.plans.training import training
from multiview.steps.runs import Run, read_run, read_states, write_run
from multiview.steps.table import STEPS
from pipelines.kubeflow.compile import COMPONENTS
from pipelines.kubeflow.published import DESCRIPTIONS, PUBLISHED, write_components
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("components")
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CPU", "GPU"):
            patch.setenv(f"MULTIVIEW_{kind}_IMAGE", f"registry.example/multiview-{kind.lower()}:1")
        files = write_components(out)
    assert sorted(file.stem for file in files) == sorted(["open-index", "import-artifact", *STEPS])
    return out


def component_of(folder: Path, name: str) -> dict:
    ir = yaml.safe_load((folder / f"{name}.yaml").read_text())
    return ir["components"][f"comp-{name}"] | {
        "root": ir["root"],
        "image": next(iter(ir["deploymentSpec"]["executors"].values()))["container"]["image"],
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_input_and_output_is_typed_and_described(folder, name):
    declared = component_of(folder, name)
    described = {
        **declared["inputDefinitions"].get("artifacts", {}),
        **declared["inputDefinitions"].get("parameters", {}),
        **declared["outputDefinitions"].get("artifacts", {}),
        **declared["outputDefinitions"].get("parameters", {}),
    }
    for key, value in described.items():
        assert len(value.get("description", "")) > 10, key
        assert value.get("parameterType") or value["artifactType"]["schemaTitle"].startswith("system."), key
    if name in STEPS:
        config = declared["inputDefinitions"]["parameters"]["config"]
        assert config["isOptional"] and all(
            setting in config["description"] for setting in STEPS[name].settings
        )
        assert not declared["inputDefinitions"]["parameters"]["run"].get("isOptional")


def test_no_description_is_of_something_that_is_gone():
    used = {key for made in PUBLISHED.values() for key in made.component_spec.inputs or {}}
    used |= {key for made in PUBLISHED.values() for key in made.component_spec.outputs or {}}
    assert set(DESCRIPTIONS) == used - {"config", "Output"}


def test_pipelines_are_compiled_from_components_as_they_were(folder):
    inputs = COMPONENTS["evaluate"].component_spec.inputs
    assert inputs is not None and inputs["config"].description is None and not inputs["config"].optional


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("training", "PIPELINE beside --components: "),
        ("--preset demo --set train.epochs=3", "--preset, --set beside --components: "),
        ("--store gs://bucket/store", "--store beside --components: "),
        ("--manifests", "--manifests beside --components: "),
    ],
)
def test_what_says_nothing_about_components_is_refused(command, tmp_path, options, line):
    assert line in command(f"compile --components --out {tmp_path / 'out'} {options}", status=2)
    assert not (tmp_path / "out").exists()


def test_components_have_images_that_are_named(command, tmp_path, monkeypatch):
    monkeypatch.delenv("MULTIVIEW_GPU_IMAGE")
    told = command(f"compile --components --out {tmp_path / 'out'}", status=2)
    assert "is not named: set MULTIVIEW_GPU_IMAGE" in told and not (tmp_path / "out").exists()


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


@pytest.fixture
def index(tmp_path) -> str:
    """The address of the index of an untrained model."""
    passages, questions = write_corpus(tmp_path)
    overrides = {
        "corpus": {"source": str(passages)},
        "questions": {"source": str(questions)},
        "model": {"architecture": "dpr", "base": str(tiny_bert(tmp_path / "base"))},
        "train": {"rounds": 0},
        "evaluation": {"analyses": []},
    }
    store = LocalStore(tmp_path / "store")
    plan = training(overrides)
    write_run(store, Run(id="run", pipeline="training", config=overrides))
    record = run_plan(plan, store)["dpr/round-0/index"][names.INDEX]
    return f"{store.url}/{record.folder}"


def test_another_team_measures_an_index_on_its_own_questions(folder, tmp_path, monkeypatch, index):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))
    questions = tmp_path / "ours.jsonl"
    asked = [
        {"qid": f"ours-{number}", "question": "Who built it?", "answers": ["the"]} for number in range(3)
    ]
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


def test_an_artifact_is_imported_as_the_document_says(folder, tmp_path, index):
    """KFP's own importer would look for it where the pipeline root is."""
    document = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(import_artifact = .*?)^```", document, re.M | re.S)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "kfp"))
    Path("components-yaml").symlink_to(folder)

    @dsl.pipeline
    def importing(address: str) -> dsl.Artifact:
        names = {"components": components, "address": address}
        exec(example, names)
        return names["index"]

    _, record = load_record(index)
    assert importing(address=index).output.metadata == {"address": index, "digest": record.digest}
