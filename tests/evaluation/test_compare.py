"""The comparison step: one table of several evaluations, and marks where they differ."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.staging import LocalArtifact, stage
from multiview.artifacts.store import LocalStore
from multiview.config import Comparison, Config
from multiview.errors import InputError
from multiview.evaluation.compare import compare
from multiview.evaluation.evaluate import comparable_ranks
from multiview.steps.context import StepContext
from tests.fixtures.ascii_files import in_ascii
from tests.fixtures.events import RecordedEvents


def questions(qids: list[str], **columns: list) -> pa.Table:
    """An evaluation's table with a row per question."""
    ranks = {f"rank_of_first_{kind}": pa.nulls(len(qids), pa.int32()) for kind in ("answer", "gold")}
    return pa.table({"qid": qids, **ranks, **columns})


def compared(
    folder: Path,
    values: dict[str, list[float | None]],
    qids: list[str] | None = None,
    metrics: dict[str, dict[str, float]] | None = None,
    **settings: Any,
) -> Path:
    """The output of a comparison of systems by one metric, whose value per question is given, or by their `metrics`."""
    evaluations = []
    for system, column in values.items():
        (folder / system).mkdir(parents=True)
        asked = qids or [f"q{i}" for i in range(len(column))]
        if metrics is None:
            mean = np.mean([value for value in column if value is not None])
            of, table = {"mrr_at_10": mean, "views": 0.5}, questions(asked, mrr_at_10=column)
        else:
            of, table = metrics[system], questions(asked)
        (folder / system / "metrics.json").write_text(json.dumps(of))
        (folder / system / "qrels.trec").write_text("q0 0 p 1\n")
        pq.write_table(table, folder / system / "questions.parquet")
        evaluations.append(LocalArtifact(folder / system, system))
    (output := folder / "comparison").mkdir()
    step = Config.partial({"comparison": Comparison(rows=tuple(values), **settings)})
    compare(StepContext(step, {"evaluations": evaluations}, {"comparison": output}, RecordedEvents()))
    return output


def test_equal_values_in_another_order_are_no_lead(tmp_path: Path) -> None:
    values = [1 / (rank + 1) for rank in range(300)]
    orders = [np.random.default_rng(seed).permutation(values).tolist() for seed in range(5)]
    assert len({float(np.mean(order)) for order in orders}) > 1
    output = compared(tmp_path, {f"s{number}": order for number, order in enumerate(orders)})
    assert "**" not in (output / "table.md").read_text()
    assert len({json.dumps(row) for row in json.loads((output / "metrics.json").read_text()).values()}) == 1


def test_a_comparison_names_each_evaluation_rightly(tmp_path: Path) -> None:
    """The rows keep their order, which is not alphabetical."""
    figures = {"mvr": 0.25, "dpr": 0.5, "bm25": 0.125}
    given = {system: {"accuracy_at_20": 1.0, "accuracy_at_5": value} for system, value in figures.items()}
    output = compared(tmp_path, {system: [None, None] for system in figures}, metrics=given)
    assert json.loads((output / "metrics.json").read_text()) == given
    table = (output / "table.md").read_text().splitlines()
    assert [cell.strip() for cell in table[0].split("|")[2:4]] == ["acc@5", "acc@20"]
    assert [line.split("|")[1].strip() for line in table[2:5]] == list(figures)
    assert [line.split("|")[2].strip() for line in table[2:5]] == ["25.0", "**50.0**", "12.5"]

    significance = json.loads((output / "significance.json").read_text())
    assert significance["systems"] == {system: {} for system in figures}, "there is no value a question"


def test_figures_on_generated_questions_are_marked_below_the_table(tmp_path: Path) -> None:
    labelled = compared(tmp_path / "labelled", {"mvr": [0.5, 1.0], "camvr": [0.5, 0.0]})
    assert "generated" not in (labelled / "table.md").read_text()
    for qids, words in (
        (["generated:p0:0", "generated:p1:7"], "measured on generated questions: "),
        (["q0", "generated:p1:7"], "measured on 1 generated question of 2: "),
    ):
        folder = tmp_path / qids[0].replace(":", "-")
        output = compared(folder, {"mvr": [0.5, 1.0], "camvr": [0.5, 0.0]}, qids)
        assert words in (output / "table.md").read_text().splitlines()[-1]


def test_a_comparison_marks_what_differs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mvr = rng.random(40).round(3)
    values = {
        "mvr": [*mvr.tolist(), None],
        "camvr": [*np.minimum(mvr + 0.5, 1).tolist(), None],
        "alike": [*rng.permutation(mvr).tolist(), None],
    }
    output = compared(tmp_path, values)
    lines = (output / "table.md").read_text().splitlines()
    cells = [line.split("|")[2].strip() for line in lines[2:5]]
    assert [cell.endswith("†") for cell in cells] == [False, True, False]
    assert lines[6].startswith("† differs from mvr, p < 0.05: paired randomisation test")
    assert "10,000" in lines[6]
    significance = json.loads((output / "significance.json").read_text())
    assert significance["baseline"] == "mvr"
    figures = {system: of["mrr_at_10"] for system, of in significance["systems"].items()}
    assert set(significance["systems"]["camvr"]) == {"mrr_at_10"}, "a metric without values is not tested"
    for system, figure in figures.items():
        mean = np.mean(values[system][:-1])
        assert figure["value"] == pytest.approx(mean) and figure["low"] < mean < figure["high"]
        assert figure["questions"] == 40
    assert figures["mvr"]["p"] is None
    # Twice one sign pattern of the 10,001 that count, and twice that for two systems.
    assert figures["camvr"]["p"] == 2 / 10_001 and figures["camvr"]["corrected_p"] == 4 / 10_001
    assert figures["alike"]["corrected_p"] > 0.05


def test_a_comparison_against_a_named_row(tmp_path: Path) -> None:
    values: dict[str, list[float | None]] = {"mvr": [0.0, 1.0, 0.5], "bm25": [0.0, 1.0, 0.5]}
    output = compared(tmp_path, values, baseline="bm25")
    significance = json.loads((output / "significance.json").read_text())
    assert significance["baseline"] == "bm25"
    assert significance["systems"]["mvr"]["mrr_at_10"]["p"] == 1
    assert "no row differs from bm25" in (output / "table.md").read_text()
    with pytest.raises(InputError, match=r"comparison\.baseline: bm52 is no row; did you mean bm25"):
        compared(tmp_path / "other", {"mvr": [0.0], "bm25": [0.0]}, baseline="bm52")


def test_a_question_is_not_won_by_retrieving_more_passages(tmp_path: Path) -> None:
    store, evaluations = LocalStore(tmp_path), []
    for depth, ranks in ((100, [1, 100, None, None]), (1000, [1, 100, 101, 150])):
        attempt = Attempt(store, "evaluation", f"depth-{depth}")
        table = questions(["a", "b", "c", "d"])
        gold = table.schema.get_field_index("rank_of_first_gold")
        table = table.set_column(gold, "rank_of_first_gold", pa.array(ranks, pa.int32()))
        pq.write_table(table, attempt.path / "questions.parquet")
        about = {"step": "evaluate", "step_version": 1, "config": {}, "inputs": {}}
        record, _ = attempt.publish(**about, facts={"depth": depth})
        evaluations.append(stage(store, record))
    assert comparable_ranks(evaluations).tolist() == 2 * [[1, 100, np.inf, np.inf]]


@pytest.mark.parametrize("seeds", [{}, {"größer": "größer", "mvr": "mvr"}], ids=["rows", "seeds"])
def test_systems_are_called_what_they_are_called_whatever_the_locale(tmp_path, monkeypatch, seeds):
    in_ascii(monkeypatch)
    output = compared(tmp_path, {"größer": [0.0, 1.0], "mvr": [1.0, 1.0]}, seeds_of=seeds)
    for name in ("table.md", "metrics.json", *(["seeds.md", "seeds.json"] if seeds else ["won.json"])):
        assert ("größer" in (output / name).read_text(encoding="utf-8")) == (name != "won.json"), name
