"""The table of a study: its baseline, its means over seeds, and the papers' figures."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from multiview.cli.app import run_app
from pipelines import __main__ as commands
from pipelines.runs import local
from tests.fixtures.project import Project
from tests.fixtures.studies import ROWS, study, write
from tests.fixtures.unshipped import unshipped

__all__ = ["unshipped"]

pytestmark = pytest.mark.usefixtures("unshipped")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("study"))


def significance_files(project: Project) -> set[Path]:
    return {*Path(project.store).glob("comparison/*/attempts/*/significance.json")}


def test_seeds_make_a_row_each_and_a_table_of_means(project, monkeypatch, capsys):
    rows = {"camvr": {}, "dpr": {"model": {"architecture": "dpr", "tied": True}}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows, seeds=[0, 1]))
    table = [line for line in output.splitlines() if line.startswith("| ")]
    named = [line.split("|")[1].strip() for line in table]
    assert named[1:3] == ["camvr", "dpr"] and "±" in table[1]
    assert named[4:] == ["camvr/seed-0", "camvr/seed-1", "dpr/seed-0", "dpr/seed-1"]
    (file,) = Path(project.store).glob("comparison/*/attempts/*/seeds.json")
    figures, metrics = json.loads(file.read_text()), json.loads((file.parent / "metrics.json").read_text())
    for system in ("camvr", "dpr"):
        for name, figure in figures[system].items():
            values = [metrics[f"{system}/seed-{seed}"][name] for seed in (0, 1)]
            assert figure["value"] == pytest.approx(np.mean(values)) and figure["seeds"] == 2
            assert figure["deviation"] == pytest.approx(np.std(values, ddof=1))
    shown = float(table[2].split("|")[2].split("±")[0])
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


def test_a_single_row_with_seeds_has_means_of_every_system(project, monkeypatch, capsys):
    file = write(project, pipeline="comparison", runs={"all": {}}, seeds=[0, 1])
    output = study(project, monkeypatch, capsys, file)
    named = [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")]
    assert named[1:3] == ["all/mvr", "all/bm25"]
    assert named[4:] == ["all/seed-0/mvr", "all/seed-0/bm25", "all/seed-1/mvr", "all/seed-1/bm25"]


def test_a_baseline_among_several_systems_is_a_row_s_system(project, monkeypatch, capsys):
    """The comparison of each row's own systems has the first one as baseline, as without the setting."""
    file = write(project, pipeline="comparison", runs={"all": {}}, seeds=[0, 1])
    before = significance_files(project)
    study(project, monkeypatch, capsys, file, "--set", "comparison.baseline=all/bm25")
    new = {json.loads(file.read_text())["baseline"] for file in significance_files(project) - before}
    assert "all/bm25" in new and "bm25" not in new


def test_a_study_s_own_baseline_holds(project, monkeypatch, capsys):
    baseline = {"comparison": {"baseline": "long"}}
    study(project, monkeypatch, capsys, write(project, runs=ROWS, settings=baseline))
    assert "long" in {json.loads(file.read_text())["baseline"] for file in significance_files(project)}


def test_a_study_s_own_baseline_that_is_no_row_is_refused(project, monkeypatch, capsys):
    file = write(project, runs=ROWS, settings={"comparison": {"baseline": "mvr"}})
    monkeypatch.setattr(sys, "argv", ["pipelines", "study", file, "--dry-run"])
    with pytest.raises(SystemExit) as ended:
        run_app(commands.app)
    assert ended.value.code == 2
    assert "comparison.baseline: mvr is no row" in capsys.readouterr().err


def test_a_study_s_tables_have_the_paper_s_figures_beside_its_own(project, monkeypatch, capsys):
    paper = {"source": "MVR Table 2", "figures": {"accuracy_at_5": 75.5, "mrr_at_10": 33.25}}
    rows = {"short": {**ROWS["short"], "paper": paper}, "long": {}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows))
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in output.splitlines()
        if line.startswith("|")
    ]
    assert cells[0][-3:] == ["paper's acc@5", "paper's MRR@10", "paper"]
    assert [row[-3:] for row in cells[2:]] == [["75.5", "33.2", "MVR Table 2"], ["", "", ""]]
    assert "paper's: what the paper reports" in output
    (file,) = Path(project.store).glob("comparison/*/attempts/*/paper.json")
    assert json.loads(file.read_text()) == {"short": paper}
    table = (file.parent / "table.md").read_text()
    assert "paper's acc@5" in table and "paper's: what the paper reports" in table
    (page,) = [
        text
        for found in Path(project.store).glob("report/*/attempts/*/report.html")
        if "paper&#39;s acc@5" in (text := found.read_text())
    ]
    assert '<td class="paper">75.5</td>' in page and '<td class="paper">MVR Table 2</td>' in page


def test_means_over_seeds_have_the_paper_s_figures_too(project, monkeypatch, capsys):
    paper = {"source": "CAMVR Table 6", "figures": {"accuracy_at_5": 69.0}}
    rows = {"camvr": {"paper": paper}, "dpr": {"model": {"architecture": "dpr", "tied": True}}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows, seeds=[0, 1]))
    cited = [line for line in output.splitlines() if "CAMVR Table 6" in line]
    assert [line.split("|")[1].strip() for line in cited] == ["camvr"] and "±" in cited[0]


def test_a_paper_s_figure_of_several_systems_is_refused(project, monkeypatch, capsys):
    paper = {"source": "MVR Table 2", "figures": {"accuracy_at_5": 75.5}}
    rows = {"short": {**ROWS["short"], "paper": paper}, "long": {}}
    file = write(project, pipeline="comparison", runs=rows)
    preset = ["--preset", str(project.folder / "tiny.yaml"), "--dry-run"]
    monkeypatch.setattr(sys, "argv", ["pipelines", "study", file, *preset])
    with pytest.raises(SystemExit) as ended:
        run_app(commands.app)
    assert ended.value.code == 2
    assert "runs.short.paper: its pipeline evaluates several systems" in capsys.readouterr().err
