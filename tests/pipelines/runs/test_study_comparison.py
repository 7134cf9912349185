"""The table of a study: its baseline, its means over seeds, and the papers' figures."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.project import Project
from tests.fixtures.studies import ROWS, study, table, write
from tests.fixtures.unshipped import unshipped

__all__ = ["unshipped"]

pytestmark = pytest.mark.usefixtures("unshipped")
PAPER = {"source": "MVR Table 2", "figures": {"accuracy_at_5": 75.5, "mrr_at_10": 33.25}}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("study"))


def files(project: Project, name: str) -> set[Path]:
    """The files of a name of all comparisons."""
    return {*Path(project.store).glob(f"comparison/*/attempts/*/{name}")}


def test_seeds_make_a_row_each_and_a_table_of_means_with_the_paper_s_figures(project, monkeypatch, capsys):
    rows = {"camvr": {"paper": PAPER}, "dpr": {"model": {"architecture": "dpr", "tied": True}}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows, seeds=[0, 1]))
    shown = table(output)
    assert [row[0] for row in shown[1:3]] == ["camvr", "dpr"] and "±" in shown[1][1]
    assert [row[0] for row in shown[4:]] == ["camvr/seed-0", "camvr/seed-1", "dpr/seed-0", "dpr/seed-1"]
    assert [row[0] for row in shown if row[-1] == PAPER["source"]] == ["camvr"]
    (file,) = files(project, "seeds.json")
    figures, metrics = json.loads(file.read_text()), json.loads((file.parent / "metrics.json").read_text())
    for system in ("camvr", "dpr"):
        for name, figure in figures[system].items():
            values = [metrics[f"{system}/seed-{seed}"][name] for seed in (0, 1)]
            assert figure["value"] == pytest.approx(np.mean(values)) and figure["seeds"] == 2
            assert figure["deviation"] == pytest.approx(np.std(values, ddof=1))
    first = float(shown[2][1].split("±")[0])
    assert first == pytest.approx(100 * figures["dpr"]["accuracy_at_1"]["value"], abs=0.051)


def test_a_study_over_comparisons_has_a_row_a_system_of_each_run(project, monkeypatch, capsys):
    rows = {"short": {"model": {"passage_length": 32}}, "long": {}}
    output = study(project, monkeypatch, capsys, write(project, pipeline="comparison", runs=rows))
    assert [row[0] for row in table(output)] == ["system", "short/mvr", "short/bm25", "long/mvr", "long/bm25"]


def test_a_single_row_with_seeds_has_means_of_every_system_and_one_of_them_may_be_the_baseline(
    project, monkeypatch, capsys
):
    """The comparison of each row's own systems has the first one as baseline, as without the setting."""
    file = write(project, pipeline="comparison", runs={"all": {}}, seeds=[0, 1])
    before = files(project, "significance.json")
    output = study(project, monkeypatch, capsys, file, "--set", "comparison.baseline=all/bm25")
    named = [row[0] for row in table(output)]
    assert named[1:3] == ["all/mvr", "all/bm25"]
    assert named[4:] == ["all/seed-0/mvr", "all/seed-0/bm25", "all/seed-1/mvr", "all/seed-1/bm25"]
    new = {json.loads(file.read_text())["baseline"] for file in files(project, "significance.json") - before}
    assert "all/bm25" in new and "bm25" not in new


def test_a_study_s_own_baseline_and_its_paper_s_figures_are_in_its_tables(project, monkeypatch, capsys):
    rows = {"short": {**ROWS["short"], "paper": PAPER}, "long": {}}
    baseline = {"comparison": {"baseline": "long"}}
    output = study(project, monkeypatch, capsys, write(project, runs=rows, settings=baseline))
    cells = [row[-3:] for row in table(output)]
    assert cells == [
        ["paper's acc@5", "paper's MRR@10", "paper"],
        ["75.5", "33.2", "MVR Table 2"],
        ["", "", ""],
    ]
    assert "paper's: what the paper reports" in output
    (file,) = (file for file in files(project, "paper.json") if "short" in json.loads(file.read_text()))
    assert json.loads(file.read_text()) == {"short": PAPER}
    assert json.loads((file.parent / "significance.json").read_text())["baseline"] == "long"
    written = (file.parent / "table.md").read_text()
    assert "paper's acc@5" in written and "paper's: what the paper reports" in written
    reports = Path(project.store).glob("report/*/attempts/*/report.html")
    page = max(reports, key=lambda report: report.stat().st_mtime_ns).read_text()
    assert '<td class="paper">75.5</td>' in page
    assert "paper&#39;s acc@5" in page and '<td class="paper">MVR Table 2</td>' in page


@pytest.mark.parametrize(
    ("content", "words", "line"),
    [
        ({"runs": ROWS}, ["--set", "comparison.baseline=mvr"], "comparison.baseline: mvr is no row"),
        (
            {"runs": ROWS, "settings": {"comparison": {"baseline": "mvr"}}},
            [],
            "comparison.baseline: mvr is no row",
        ),
        (
            {"pipeline": "comparison", "runs": {"short": {**ROWS["short"], "paper": PAPER}, "long": {}}},
            [],
            "runs.short.paper: its pipeline evaluates several systems",
        ),
    ],
)
def test_what_no_table_can_show_is_refused_before_anything_runs(
    project, monkeypatch, capsys, content, words, line
):
    file = write(project, **content)
    assert line in study(project, monkeypatch, capsys, file, "--dry-run", *words, status=2)
