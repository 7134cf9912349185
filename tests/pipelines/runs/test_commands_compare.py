"""Earlier runs compared: whose rows there are, what is refused, what the comparison holds."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.record import load_record
from multiview.artifacts.store import open_store
from multiview.evaluation.costs import COSTS, cost_of, differing_settings
from multiview.plans.request import Request, describe
from multiview.steps.table import STEPS
from pipelines.runs.local import run_here
from tests.fixtures.documented import words
from tests.fixtures.inprocess import command
from tests.fixtures.page_tree import read
from tests.fixtures.project import Project

UNTRAINED = ["--set", "train.rounds=0", "--set", "evaluation.analyses=[]"]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("comparing"))


@pytest.fixture
def say(project, monkeypatch, capsys):
    """A command in this project's store."""

    def said(*words: str, status: int = 0) -> str:
        where = ["--store", project.store, "--tracking-uri", project.tracking]
        return command(monkeypatch, capsys, *words, *where, status=status)

    return said


@pytest.fixture
def run(project, say):
    """The id of a training run, made if it is missing."""

    def made(*settings: str) -> str:
        preset = ["--preset", str(project.folder / "tiny.yaml"), *UNTRAINED]
        words = [word for setting in settings for word in ("--set", setting)]
        (name,) = re.findall(r"^(training-\w+):", say("run", "training", *preset, *words), re.MULTILINE)
        return name

    return made


def table(output: str) -> list[list[str]]:
    """The cells of each row."""
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")] for line in lines][1:]


def rows(output: str) -> list[str]:
    return [cells[1] for cells in table(output)]


def comparison(project: Project) -> Path:
    """The files of the newest comparison."""
    return max(Path(project.store).glob("comparison/*/attempts/*/"), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.documented("python -m pipelines compare RUN RUN")
def test_runs_are_compared_by_their_systems(documented, project, run, say):
    camvr, dpr = run(), run("model.architecture=dpr")
    output = say(*words(documented.replace("RUN", camvr, 1).replace("RUN", dpr)), "--baseline", "dpr")
    assert rows(output) == ["camvr", "dpr"]
    folder = comparison(project)
    assert json.loads((folder / "significance.json").read_text())["baseline"] == "dpr"
    settings = json.loads((folder / "settings.json").read_text())
    assert {system: of["model.architecture"] for system, of in settings.items()} == {
        "camvr": "camvr",
        "dpr": "dpr",
    }
    assert "model.views" not in settings["camvr"], "what is the same is left out"

    # Won and lost, by the plain definition.
    ranks = {}
    for system in ("camvr", "dpr"):
        (state,) = (
            s
            for r in (camvr, dpr)
            for s in project.states(r).values()
            if s.path == f"{system}/round-0/evaluate"
        )
        store, record = load_record(state.outputs["evaluation"].address)
        table = pq.read_table(Path(store.url) / record.data / "questions.parquet").to_pylist()
        ranks[system] = [row["rank_of_first_answer"] or 10**9 for row in table]
    won = json.loads((folder / "won.json").read_text())
    pairs = list(zip(ranks["camvr"], ranks["dpr"], strict=True))
    assert won == {
        "camvr": {
            "won": sum(a < b for a, b in pairs),
            "lost": sum(a > b for a, b in pairs),
            "tied": sum(a == b for a, b in pairs),
        }
    }
    assert won["camvr"]["won"] + won["camvr"]["lost"] > 0

    events = [
        json.loads(line) for line in next(folder.parent.glob("*.events.jsonl")).read_text().splitlines()
    ]
    metrics = {event["name"]: event["value"] for event in events if event["event"] == "metric"}
    assert {f"{name}/camvr" for name in ("compute_seconds", "wall_seconds", "index_bytes")} <= set(metrics)
    assert metrics["index_bytes/camvr"] > metrics["index_bytes/dpr"] > 0, "four views are more than one"

    client = MlflowClient(project.tracking)
    (experiment,) = client.search_experiments(filter_string="name = 'multiview'")
    (theirs,) = client.search_runs([experiment.experiment_id], f"tags.compares = '{camvr} {dpr}'")
    assert theirs.data.tags["architecture"] == "camvr; dpr" and theirs.data.tags["corpus"]
    assert theirs.inputs is not None
    names = {entry.dataset.name.partition("-")[0] for entry in theirs.inputs.dataset_inputs}
    assert names == {"passages", "dev_questions", "train_questions"}
    (step,) = client.search_runs([experiment.experiment_id], "tags.`multiview.path` = 'compare'")
    assert theirs.data.metrics == step.data.metrics
    assert step.data.metrics["index_bytes/camvr"] == metrics["index_bytes/camvr"]

    (file,) = (line.split()[1] for line in output.splitlines() if line.startswith("Report:"))
    page = read(Path(file).read_text(encoding="utf-8"))
    metrics = json.loads((folder / "metrics.json").read_text())
    shown = [data.attributes for data in page.one("section", id="metrics").all("data")]
    assert {(of["data-system"], of["data-metric"]): float(of["value"]) for of in shown} == {
        (str(rank), name): value for rank, of in enumerate(metrics.values()) for name, value in of.items()
    }
    assert {section.attributes.get("id") for section in page.one("main").all("section")} >= {
        *("won", "settings", "cost", "questions")
    }
    # The first mark says what a mark is.
    assert page.all("mark")[1:] and page.all("ol", class_="views"), (
        "what matched, with the score of each view"
    )


def test_systems_of_one_name_are_told_apart_and_what_is_shared_is_one_row(project, run, say):
    first, second = run(), run("model.views=2")
    output = say("compare", first, second, first)
    assert rows(output) == [f"camvr:{name.rpartition('-')[2]}" for name in (first, second)]
    (compared,) = re.findall(r"^(compare-\w+):", output, re.MULTILINE)
    assert set(tracking.find_run(project.tracking, compared).steps) == {"compare", "report"}
    assert "a comparison needs two systems" in say("compare", first, first, status=2)
    third = run("bm25.k1=2")  # which none of its steps reads
    assert f"run {third} has no evaluation that the runs before it lack: leave it out" in say(
        "compare", first, second, third, status=2
    )
    assert "comparison.baseline: dpr is no row" in say(
        "compare", first, second, "--baseline", "dpr", status=2
    )


def test_runs_on_other_questions_or_another_corpus_are_refused(run, say):
    name = run()
    other = run("questions.dev_limit=5", "model.architecture=dpr")
    line = say("compare", name, other, status=2)
    assert line.startswith("error: dpr was not evaluated on the questions of camvr (digests: questions "), (
        line
    )
    assert len(line.splitlines()) == 1
    other = run("corpus.keep=gold", "questions.limit=5", "model.architecture=dpr")
    assert "was not evaluated on the corpus of camvr" in say("compare", name, other, status=2)


def test_a_system_that_mlflow_has_no_evaluation_of_is_named(project, run, say):
    """It may not have finished, or its steps were not sent."""
    name, other = run(), run("model.views=2")
    given = [
        word
        for setting in (*UNTRAINED[1::2], "comparison.systems={camvr: {}}")
        for word in ("--set", setting)
    ]
    said = say("run", "comparison", "--preset", str(project.folder / "tiny.yaml"), *given)
    (whole,) = re.findall(r"^(comparison-\w+):", said, re.MULTILINE)
    client = MlflowClient(project.tracking)
    (experiment,) = client.search_experiments(filter_string="name = 'multiview'")
    steps = f"tags.`multiview.run` = '{whole}' and tags.`multiview.path` = 'bm25/evaluate'"
    (evaluated,) = client.search_runs([experiment.experiment_id], steps)
    client.delete_run(evaluated.info.run_id)
    try:
        warning = f"warning: run {whole}: left out bm25, which MLflow has no evaluation of"
        assert warning in say("compare", whole, other) and "bm25" not in rows(say("compare", whole, other))
        assert "warning" not in say("compare", name, other)
        again = say("rerun", "camvr/round-0/index", "--from", name, "--set", "index.kind=hnsw")
        (rerun,) = re.findall(r"^(training-\w+):", again, re.MULTILINE)
        line = say("compare", rerun, whole, status=2)
        assert f"run {rerun} has no finished evaluation" in line
        again = say("rerun", "camvr/round-0/index", "--from", whole, "--set", "index.kind=hnsw")
        (rerun,) = re.findall(r"^(comparison-\w+):", again, re.MULTILINE)
        assert f"warning: run {rerun}: left out camvr," in say("compare", rerun, other)
    finally:
        client.restore_run(evaluated.info.run_id)


def test_costs_are_sums_and_longest_chains_of_the_records_seconds(project, run, monkeypatch):
    name = run("evaluation.analyses=[speed]")
    states = project.states(name)
    address = states["camvr/round-0/evaluate"].outputs["evaluation"].address
    seconds = {
        path: max(load_record(reference.address)[1].seconds for reference in state.outputs.values())
        for path, state in states.items()
    }
    cost = cost_of(address)
    assert cost["compute_seconds"] == pytest.approx(sum(seconds.values()))
    shards = [value for path, value in seconds.items() if "/encode/" in path]
    first = max(seconds["split"], seconds["camvr/initial-model"])
    rest = seconds["camvr/round-0/index"] + seconds["camvr/round-0/evaluate"]
    assert cost["wall_seconds"] == pytest.approx(first + max(shards) + rest)
    assert cost["questions_per_second"] > 0 and cost["single_question_milliseconds"] > 0
    assert set(cost) == set(COSTS)
    assert differing_settings({"one": address, "other": address}) == {"one": {}, "other": {}}
    monkeypatch.delitem(STEPS, "split")  # as if another version had made the records
    assert differing_settings({"one": address, "other": address}) == {"one": {}, "other": {}}


def test_parts_of_a_comparison_are_joined_to_the_table_of_the_whole(project, say):
    preset, settings = (
        str(project.folder / "tiny.yaml"),
        [*UNTRAINED[1::2], "comparison.fusion=[camvr]", "comparison.systems={camvr: {}}"],
    )
    given = [word for setting in settings for word in ("--set", setting)]
    whole = say("run", "comparison", "--preset", preset, *given)
    store, joined = open_store(project.store), []
    for part in Request.from_settings("comparison", preset, settings).parts(2):
        run = describe(part, store)
        run_here(part.plan, run, store, project.tracking)
        joined.append(run.id)
    output = say("compare", *joined, "--baseline", "mvr")
    assert rows(output) == ["mvr", "bm25", "camvr", "camvr-bm25"]
    assert sorted(table(output)) == sorted(table(whole))
