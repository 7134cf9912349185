"""Studies: what they share, what they compare, and what they say before they run."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.store import open_store
from multiview.errors import InputError
from multiview.steps.runs import read_run, write_run
from pipelines.runs.study import read_study
from tests.fixtures.inprocess import command
from tests.fixtures.project import Project
from tests.fixtures.studies import ROWS, UNTRAINED, study, table, write
from tests.fixtures.unshipped import unshipped

__all__ = ["unshipped"]

pytestmark = pytest.mark.usefixtures("unshipped")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("study"))


def test_some_rows_of_a_study(project, monkeypatch, capsys):
    file = write(project, runs=ROWS)
    before = study(project, monkeypatch, capsys, file, "--row", "index-all", "--row", "short", "--dry-run")
    assert "short\n  new    split" in before and "index-all\n  new    split" in before
    assert "long" not in before
    assert list(read_study("views").chosen(["mvr-8", "mvr-4"], []).paper) == ["mvr-4", "mvr-8"]


@pytest.mark.parametrize(
    ("rows", "seeds", "line"),
    [
        (["short", "shrot"], [], "no such row; its rows: short, long, index-all"),
        (["long"], [], "two rows or more"),
        (["long", "long"], [], "two rows or more"),
        (["long"], [1], "one is left: long; name another one with --row or --seed"),
        ([], [0, 2, 2], "--seed 2: given twice"),
    ],
)
def test_rows_and_seeds_that_make_no_study(project, rows, seeds, line):
    with pytest.raises(InputError, match=line):
        read_study(write(project, runs=ROWS)).chosen(rows, seeds)


def test_a_row_that_cannot_run_or_stand_in_a_table_is_named(project, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"expected a row's name, without \| and line ends"):
        read_study(write(project, runs={"a": {}, "b|c": {}}))
    file = write(project, runs={"a": {}, "b": {"train": {"epochs": -1}}})
    words = ["study", file, "--preset", str(project.folder / "tiny.yaml"), "--dry-run"]
    said = command(monkeypatch, capsys, *words, status=2)
    assert said.startswith("error: row b: train.epochs: ")


def test_a_row_that_cannot_be_compared_ends_a_study_before_the_next(tmp_path, monkeypatch, capsys):
    project = Project.make(tmp_path)
    file = write(
        project, runs={"a": {}, "b": {"questions": {"dev_limit": 3}}, "c": {"encode": {"question_length": 9}}}
    )
    said = study(project, monkeypatch, capsys, file, status=2)
    assert said.splitlines()[-1].startswith("error: b was not evaluated on the questions of a ")
    after = study(project, monkeypatch, capsys, file, "--dry-run")
    assert "  new  " in after.partition("\nc\n")[2] and "  new  " not in after.partition("\nc\n")[0]


def test_a_study_runs_with_the_seeds_that_are_named(project, monkeypatch, capsys):
    file = write(project, runs=ROWS)
    words = ["--row", "long", "--seed", "3", "--seed", "5", "--dry-run"]
    before = study(project, monkeypatch, capsys, file, *words)
    assert "long/seed-3\n  new  " in before and "long/seed-5\n  new  " in before and "short" not in before
    rows = read_study(file).chosen([], [3, 5]).overrides({"train": {"epochs": 2}})
    expected = 3 * [{"epochs": 2, "seed": 3}, {"epochs": 2, "seed": 5}]
    assert [changes["train"] for changes in rows.values()] == expected
    assert read_study(file).chosen([], []) == read_study(file)


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("train.seed=9", "sets train.seed=1 or 2"),
        ("train.local_weight=0.2", "sets train.local_weight=0.0 or 0.1"),
        ("train.local_weight=0.1", ""),
        ("train.rounds=2", "sets train.rounds=1"),
        ("train={rounds: 2}", "sets train="),
        ("train.rounds=1", ""),
        ("train={epochs: 2}", ""),
        ("comparison.baseline=b", ""),
        ("kubeflow.train.node_selector={cloud.google.com/gke: l4}", ""),
        ("train.warm_up={epochs: 5}", "sets train.warm_up={}"),
    ],
)
def test_a_setting_that_no_row_would_keep_is_refused(project, setting, line):
    rows = {"a": {"train": {"local_weight": 0.0}}, "b": {"train": {"local_weight": 0.1}}}
    settings = {"train": {"rounds": 1, "warm_up": {}}}
    read = read_study(write(project, runs=rows, seeds=[1, 2], settings=settings, by_seed={1: {}}))
    assert read.chosen([], [2, 1]).seeds == (2, 1)
    with pytest.raises(InputError, match=line) if line else nullcontext():
        read.check_given([setting])


def test_settings_by_seed_are_those_of_all_rows_with_it(project):
    models = {1: {"train": {"model": "one"}}, 2: {"train": {"model": "two"}}}
    rows = {"a": {}, "b": {"train": {"epochs": 2}}}
    found = read_study(write(project, runs=rows, seeds=[1, 2], by_seed=models)).overrides({})
    assert {row: (of["train"]["seed"], of["train"]["model"]) for row, of in found.items()} == {
        f"{row}/seed-{seed}": (seed, model) for row in "ab" for seed, model in ((1, "one"), (2, "two"))
    }
    with pytest.raises(InputError, match=r"--seed 3: .* its seeds are \[1, 2\]"):
        read_study(write(project, runs=rows, seeds=[1, 2], by_seed=models)).chosen([], [1, 3])
    with pytest.raises(InputError, match=r"by_seed.3: none of the seeds \[1, 2\]"):
        read_study(write(project, runs=rows, seeds=[1, 2], by_seed={3: {}}))
    with pytest.raises(InputError, match=r"by_seed.2.train.seed: would train the same model"):
        read_study(write(project, runs=rows, seeds=[1, 2], by_seed={2: {"train": {"seed": 5}}}))
    for stage in ("warm_up", "round_two"):  # wherever it was given
        pinned = {"train": {stage: {"seed": 5}}}
        study = read_study(write(project, runs={"a": {}, "b": pinned}, seeds=[1, 2]))
        with pytest.raises(InputError, match=rf"b: train.{stage}.seed would be one for several of the seeds"):
            study.overrides({})
        with pytest.raises(InputError, match=rf"a: train.{stage}.seed would be one"):
            study.overrides(pinned)
        each = {seed: {"train": {stage: {"seed": seed}}} for seed in (1, 2)}
        read_study(write(project, runs=rows, seeds=[1, 2], by_seed=each)).overrides({})
    for train in (None, 5):  # is refused with the row's settings
        read_study(write(project, runs={"a": {"train": train}, "b": {}}, seeds=[1, 2]))


def test_a_row_that_sets_a_seed_keeps_it_if_seeds_would_not_train_one_model_again(project):
    with pytest.raises(InputError, match=r"runs.base.train.seed: .* seeds \[1, 2\]"):
        read_study(write(project, runs={"base": {"train": {"seed": 0}}}, seeds=[1, 2]))
    file = write(project, runs={"base": {"model": {"seed": 0}, "train": {"rounds": 0}}}, seeds=[1, 2])
    rows = read_study(file).overrides({"model": {"seed": 7}})
    assert [(changes["model"]["seed"], changes["train"]["seed"]) for changes in rows.values()] == [
        (0, 1),
        (0, 2),
    ]


def test_a_study_says_what_is_found_runs_each_step_once_and_compares_the_rows(project, monkeypatch, capsys):
    file = write(project, about="Lengths.", runs=ROWS)
    before = study(project, monkeypatch, capsys, file, "--dry-run")
    assert "lengths: Lengths." in before
    assert all(f"{row}\n  new    split\n  new    camvr/initial-model\n" in before for row in ROWS)
    assert not Path(project.store).exists()

    output = study(project, monkeypatch, capsys, file)
    assert [row[0] for row in table(output)] == ["system", "short", "long", "index-all"]
    done = [line.split(": ")[1].split(" s")[0] for line in output.splitlines() if "steps done" in line]
    # The other length makes another model; the third row differs from the second in its index alone.
    assert done == ["6", "5", "4", "2"]

    after = study(project, monkeypatch, capsys, file, "--dry-run")
    assert after.count("  found  ") == 6 * len(ROWS) and "  new  " not in after


def test_the_runs_of_a_study_are_a_group_in_mlflow(project, monkeypatch, capsys):
    study(project, monkeypatch, capsys, write(project, about="Lengths.", runs=ROWS))
    store = open_store(project.store)
    runs = [read_run(store, name) for name in store.folders("runs")]
    assert {run.study for run in runs} == {"lengths"} and len(runs) == 4
    for run in runs:
        tracking.ship(store, run.id, project.tracking)
    client = MlflowClient(project.tracking)
    experiment = client.get_experiment_by_name("multiview")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], "tags.study LIKE '%|lengths|%'")
    assert {run.data.tags["multiview.run"] for run in found} >= {run.id for run in runs}
    # Another study with the same row finds its run, which is then of both.
    shared = runs[-1]
    write_run(store, shared.model_copy(update={"study": "others"}))
    tracking.ship(store, shared.id, project.tracking)
    found = client.search_runs([experiment.experiment_id], "tags.study = '|lengths|others|'")
    assert {each.data.tags["multiview.run"] for each in found} == {shared.id}
    levels = {each.data.tags["multiview.level"] for each in found}
    assert levels == ({"pipeline", "system"} if shared.pipeline == "training" else {"pipeline"})


def test_systems_of_a_preset_are_the_first_rows(tmp_path):
    preset, file = tmp_path / "p.yaml", tmp_path / "s.yaml"
    preset.write_text(
        "comparison: {systems: {mvr: {train: {positive: max, epochs: 2}}, dpr: {model: {tied: true}}}}"
    )
    file.write_text(f"systems_of: {preset}\nruns: {{camvr: {{}}, mvr: {{train: {{epochs: 3}}}}}}")
    runs = read_study(str(file)).runs
    assert list(runs) == ["mvr", "dpr", "camvr"]
    assert runs == {
        "mvr": {"train": {"positive": "max", "epochs": 3}},
        "dpr": {"model": {"tied": True}},
        "camvr": {},
    }
    file.write_text(f"systems_of: {preset}")
    assert list(read_study(str(file)).runs) == ["mvr", "dpr"]


def test_the_preset_of_the_systems_is_that_of_all_rows(project, monkeypatch, capsys):
    """Without it a row named after a recipe would be the defaults."""
    preset = str(project.folder / "tiny.yaml")
    (file := project.folder / "of.yaml").write_text(
        yaml.safe_dump({"systems_of": preset, "runs": {"other": {"model": {"views": 2}}}})
    )
    words = ["study", str(file), "--store", project.store, *UNTRAINED, "--dry-run"]
    alone = command(monkeypatch, capsys, *words)
    assert alone == command(monkeypatch, capsys, *words, "--preset", preset) and "\nmvr\n" in alone


def test_settings_of_a_study_are_those_of_all_rows_and_below_a_row_s(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("settings: {train: {rounds: 1, epochs: 2}}\nruns: {a: {train: {epochs: 3}}, b: {}}")
    found = read_study(str(file)).overrides({"train": {"rounds": 2, "negatives": 4}})
    assert found == {
        "a": {"train": {"rounds": 1, "epochs": 3, "negatives": 4}},
        "b": {"train": {"rounds": 1, "epochs": 2, "negatives": 4}},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("runs: {a: {}}", "study .*: runs: expected two or more rows"),
        ("runs: {a: {}}\nseeds: [1]", "expected two or more rows"),
        ("[1]", "expected names with values"),
        ("about: x", "runs is missing"),
        ("runs: {a: {}, b: 1}", r"runs\.b: expected names with values, not 1"),
        ("runs: {a: {}, b: {}}\nrow: 1", "there is no setting row"),
        ("runs: {a: {paper: {figures: {}}}, b: {}}", r"paper\.a\.source is missing"),
        ("runs: {a: {paper: {source: x, figures: {mrr: much}}}, b: {}}", r"paper\.a\.figures\.mrr: input should"),
        ("systems_of: nobody", "there is no preset 'nobody'"),
        ("systems_of: [demo]", "runs is missing|systems_of: "),
        ("runs: {a: {}, b: {}}\nseeds: few", "seeds: expected a list, not 'few'"),
        ("runs: {a: {}, b: {}}\nseeds: [0, 1, 0]", "seeds: has one twice"),
        ("runs: {a: [", "is not YAML"),
    ],
)  # fmt: skip
def test_what_is_no_study_is_one_line(tmp_path, content, message):
    file = tmp_path / "s.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_study(str(file))


@pytest.mark.parametrize(
    ("name", "message"), [("viewss", "did you mean views"), ("none.yaml", "No such file")]
)
def test_a_study_that_is_not_there_is_named(name, message):
    with pytest.raises(InputError, match=message):
        read_study(name)


def test_a_seed_makes_another_initial_model_too_and_a_row_s_settings_stand_over_a_seed_s(project):
    rows = {"a": {}, "b": {"train": {"model": "own"}}}
    read = read_study(write(project, runs=rows, seeds=[1, 2], by_seed={1: {"train": {"model": "one"}}}))
    found = read.overrides({"comparison": {"baseline": "a", "resamples": 100}})
    assert [of["model"]["seed"] for of in found.values()] == [1, 2, 1, 2]
    assert [of["train"].get("model") for of in found.values()] == ["one", None, "own", "own"]
    assert all(of["comparison"] == {"resamples": 100} for of in found.values()), "none of them is a row a"
