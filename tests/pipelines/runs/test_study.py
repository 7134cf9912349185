"""Studies: what they share, what they compare, and what they say before they run."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from multiview import tracking
from multiview.artifacts.store import LocalStore, open_store
from multiview.cli.app import run_app
from multiview.config.overrides import gather
from multiview.errors import InputError
from multiview.model.systems import resolve
from multiview.plans import PIPELINES
from multiview.plans.training import training
from multiview.steps.runs import read_run
from pipelines import __main__ as commands
from pipelines.runs import local
from pipelines.runs.study import read_study, study_names
from pipelines.runs.study_forecast import forecast
from tests.fixtures.inprocess import command
from tests.fixtures.project import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("study"))


def write(project: Project, **content) -> str:
    file = project.folder / "lengths.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(file)


ROWS = {
    "short": {"model": {"passage_length": 32}},
    "long": {},
    "index-all": {"encode": {"index_padding_views": True}},
}
UNTRAINED = ["--set", "train.rounds=0", "--set", "evaluation.analyses=[]"]


def study(project: Project, monkeypatch, capsys, *words: str) -> str:
    preset = ["--preset", str(project.folder / "tiny.yaml"), "--store", project.store]
    return command(monkeypatch, capsys, "study", *words, *preset, *UNTRAINED)


def test_a_study_says_what_is_shared_runs_each_step_once_and_compares_the_rows(project, monkeypatch, capsys):
    file = write(project, about="Lengths.", runs=ROWS)
    before = study(project, monkeypatch, capsys, file, "--dry-run")
    assert "lengths: Lengths." in before
    assert "  short: 0 found, 0 shared, 7 new: split, bm25-negatives, camvr/initial-model" in before
    # The other length makes another model; the third row differs from the second in its index alone.
    assert "  long: 0 found, 2 shared, 5 new: camvr/initial-model" in before
    assert "  index-all: 0 found, 3 shared, 4 new: camvr/round-0/encode/shard-00" in before
    assert not Path(project.store).exists()

    output = study(project, monkeypatch, capsys, file)
    table = [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")]
    assert table == ["system", "short", "long", "index-all"] and "†" not in table
    done = [line.split(": ")[1].split(" s")[0] for line in output.splitlines() if "steps done" in line]
    assert done == ["7", "5", "4", "2"]

    after = study(project, monkeypatch, capsys, file, "--dry-run")
    assert all(f"  {row}: 7 found, 0 shared, 0 new" in after for row in ROWS)


def test_the_runs_of_a_study_are_a_group_in_mlflow(project, monkeypatch, capsys):
    study(project, monkeypatch, capsys, write(project, about="Lengths.", runs=ROWS))
    store = open_store(project.store)
    runs = [read_run(store, name) for name in store.folders("runs")]
    assert {run.study for run in runs} == {"lengths"} and len(runs) == 4
    for run in runs:
        tracking.ship(store, run.id, project.tracking)
    from mlflow import MlflowClient

    client = MlflowClient(project.tracking)
    experiment = client.get_experiment_by_name("multiview")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], "tags.study = 'lengths'")
    assert {run.data.tags["multiview.run"] for run in found} >= {run.id for run in runs}


def test_seeds_make_a_row_each_and_a_table_of_means(project, monkeypatch, capsys):
    rows = {"camvr": {}, "dpr": {"model": {"architecture": "dpr", "tied": True}}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows, seeds=[0, 1]))
    table = [line for line in output.splitlines() if line.startswith("| ")]
    named = [line.split("|")[1].strip() for line in table]
    assert named[1:5] == ["camvr/seed-0", "camvr/seed-1", "dpr/seed-0", "dpr/seed-1"]
    assert named[6:] == ["camvr", "dpr"] and "±" in table[-1]
    (file,) = Path(project.store).glob("comparison/*/attempts/*/seeds.json")
    figures, metrics = json.loads(file.read_text()), json.loads((file.parent / "metrics.json").read_text())
    for system in ("camvr", "dpr"):
        for name, figure in figures[system].items():
            values = [metrics[f"{system}/seed-{seed}"][name] for seed in (0, 1)]
            assert figure["value"] == pytest.approx(np.mean(values)) and figure["seeds"] == 2
            assert figure["deviation"] == pytest.approx(np.std(values, ddof=1))
    shown = float(table[-1].split("|")[2].split("±")[0])
    assert shown == pytest.approx(100 * figures["dpr"]["accuracy_at_1"]["value"], abs=0.051)


def test_a_study_over_comparisons_has_a_row_a_system_of_each_run(project, monkeypatch, capsys):
    rows = {"short": {"model": {"passage_length": 32}}, "long": {}}
    output = study(project, monkeypatch, capsys, write(project, pipeline="comparison", runs=rows))
    table = [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")]
    assert table == ["system", "short/mvr", "short/bm25", "long/mvr", "long/bm25"]


def test_a_baseline_that_is_no_row_is_refused_before_anything_runs(project, monkeypatch, capsys):
    monkeypatch.setattr(local, "run_here", None)
    file = write(project, runs=ROWS)
    monkeypatch.setattr(
        sys, "argv", ["pipelines", "study", file, "--dry-run", "--set", "comparison.baseline=mvr"]
    )
    with pytest.raises(SystemExit) as ended:
        run_app(commands.app)
    assert ended.value.code == 2
    assert "comparison.baseline: mvr is no row" in capsys.readouterr().err


NUMBERS = {
    "local-loss": ("train.local_weight", [0.01, 0.5, 0.05, 0.001, 0.0]),
    "mined-negatives": ("train.rounds", [2, 1, 2, 1]),
    "one-question": ("questions.one_per_passage", [False, False, True, True]),
    "tied": ("model.tied", [False, True, False, True]),
    "views": ("model.views", [1, 4, 8, 12, 1, 4, 8, 12]),
    "seeds": ("train.seed", [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_study_varies_what_the_paper_varies(name):
    setting, expected = NUMBERS[name]
    section, leaf = setting.split(".")
    configs = [resolve(overrides) for overrides in read_study(name).overrides({}).values()]
    assert [getattr(getattr(config, section), leaf) for config in configs] == expected


def test_the_study_of_temperatures_has_the_paper_s():
    found = [
        resolve(overrides).train.temperature for overrides in read_study("temperature").overrides({}).values()
    ]
    annealed = [t.alpha for t in found if t.schedule == "annealed"]
    fixed = [t.value for t in found if t.schedule == "fixed"]
    assert (annealed, fixed) == ([0.1, 0.3, 0.03], [10, 1, 0.3, 0.1]) and {t.floor for t in found} == {0.3}


def test_a_step_is_shared_only_where_all_that_decides_its_output_is_equal(project, tmp_path):
    base = gather(str(project.folder / "tiny.yaml"), [])
    plans = {
        "one": training(base),
        "same": training(base),
        "checkpoints": training(gather(str(project.folder / "tiny.yaml"), ["train.checkpoint_steps=7"])),
        "other-data": training(gather(str(project.folder / "tiny.yaml"), ["questions.limit=5"])),
    }
    status = {
        row: {str(prospect.path): prospect.status for prospect in prospects}
        for row, prospects in forecast(plans, LocalStore(tmp_path / "store")).items()
    }
    assert set(status["one"].values()) == {"new"}
    assert set(status["same"].values()) == set(status["checkpoints"].values()) == {"shared"}
    assert status["other-data"].pop("camvr/initial-model") == "shared"
    assert set(status["other-data"].values()) == {"new"}


@pytest.mark.parametrize("name", study_names())
def test_every_study_compiles_and_its_rows_differ(name):
    found = read_study(name)
    plans = [PIPELINES[found.pipeline](overrides) for overrides in found.overrides({}).values()]
    assert found.about and len({str(plan.nodes) for plan in plans}) == len(plans) > 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("runs: {a: {}}", "expected two or more rows"),
        ("[1]", "expected names with values"),
        ("about: x", "runs is missing"),
        ("runs: {a: {}, b: 1}", r"runs\.b: input should be a valid dictionary, not 1"),
        ("runs: {a: {}, b: {}}\nrow: 1", "there is no setting row"),
        ("runs: {a: {}, b: {}}\nseeds: few", "seeds: input should be a valid tuple, not 'few'"),
        ("runs: {a: {}, b: {}}\nseeds: [0, 1, 0]", "seeds: has one twice"),
        ("runs: {a: [", "is not YAML"),
    ],
)
def test_what_is_no_study_is_one_line(tmp_path, content, message):
    file = tmp_path / "s.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_study(str(file))
    with pytest.raises(InputError, match="did you mean views"):
        read_study("viewss")
    with pytest.raises(InputError, match="No such file"):
        read_study(str(tmp_path / "none.yaml"))
