"""docs/examples/trained_elsewhere.py: what it writes evaluates the models that were trained, and trains none."""

import re
import runpy

import pytest
import yaml

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore, open_store
from multiview.steps.runs import Run, StepState, read_states, write_run, write_state
from tests.fixtures.corpus import squad_corpus
from tests.fixtures.inprocess import command, example
from tests.fixtures.project import ROOT, Project
from tests.fixtures.unshipped import unshipped

__all__ = ["unshipped"]

pytestmark = pytest.mark.usefixtures("unshipped")

ONE_ROUND = {
    "train": {"max_steps": 1},
    "evaluation": {"analyses": []},
    "comparison": {"systems": {"mvr": {"train": {"rounds": 1}}}},
}
"""Of a system of its own, which the preset's rounds do not reach."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def runs(project: Project, unshipped, monkeypatch, capsys) -> list[str]:
    """Two comparisons of one trained system, with the seeds 3 and 5."""
    study = {"pipeline": "comparison", "seeds": [3, 5], "settings": ONE_ROUND, "runs": {"all": {}}}
    (project.folder / "seeds.yaml").write_text(yaml.safe_dump(study))
    preset = ["--preset", str(project.folder / "tiny.yaml"), "--store", project.store]
    preset += ["--tracking-uri", project.tracking]
    output = command(monkeypatch, capsys, "study", str(project.folder / "seeds.yaml"), *preset)
    return re.findall(r"^(comparison-\w+):", output, re.MULTILINE)


def test_the_last_of_eleven_rounds_is_taken_and_a_training_must_be_done(tmp_path):
    trained = runpy.run_path(str(ROOT / "docs" / "examples" / "trained_elsewhere.py"))["trained"]
    write_run(store := LocalStore(tmp_path), Run(id="run", pipeline="comparison", config={}))
    for number in range(1, 12):
        made = {"model": Reference(address=f"store/model/{number}", digest="d")}
        state = StepState(path=f"mvr/round-{number}/train", step="train", status="done", outputs=made)
        write_state(store, "run", state)
    assert trained(store, "run")["mvr"]["train"]["model"] == "store/model/11"
    write_state(store, "run", StepState(path="mvr/round-12/train", step="train", status="failed"))
    with pytest.raises(SystemExit, match="mvr/round-12/train is not done; finish the run first"):
        trained(store, "run")


def models(project: Project, run: str) -> list[str]:
    """The models that a run encoded passages with."""
    states = read_states(open_store(project.store), run)
    return sorted({state.inputs["model"][0].address for state in states if state.step == "encode"})


def test_models_are_evaluated_as_they_are_one_by_one_and_over_seeds(project, runs, monkeypatch, capsys):
    data, _ = squad_corpus(project.folder / "other")
    sources = ("corpus.source", "questions.source", "questions.dev_source")
    other = [word for name in sources for word in ("--set", f"{name}={data}")]
    given = ["--store", project.store, "--tracking-uri", project.tracking, *other]

    def written(*runs: str) -> str:
        printed = example(monkeypatch, capsys, "trained_elsewhere.py", *runs, "--store", project.store)
        (file := project.folder / "elsewhere.yaml").write_text(printed)
        return str(file)

    output = command(monkeypatch, capsys, "run", "comparison", "--preset", written(runs[0]), *given)
    (alone,) = re.findall(r"^(comparison-\w+):", output, re.MULTILINE)
    assert models(project, alone) == models(project, runs[0])

    output = command(monkeypatch, capsys, "study", written(*runs), *given)
    both = re.findall(r"^(comparison-\w+):", output, re.MULTILINE)
    assert [models(project, run) for run in both] == [models(project, run) for run in runs]
    for run in (alone, *both):
        assert "train" not in {state.step for state in read_states(open_store(project.store), run)}
    table = [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")]
    assert {"systems/mvr", "systems/bm25"} < {*table} and "±" in output
