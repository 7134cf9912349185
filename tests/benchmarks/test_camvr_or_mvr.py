"""The trainings of MVR and CAMVR within a budget of minutes, whole, with a tiny model and few questions."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import camvr_or_mvr
from benchmarks.camvr_or_mvr import (
    FINER,
    ROWS,
    SETTINGS,
    Curves,
    Pace,
    all_steps,
    curve,
    main,
    output,
    pace,
    run,
    steps_within,
    study_rows,
)
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.plans.request import Request
from pipelines.runs.study import read_study
from tests.fixtures.forked import pool_of_forks
from tests.fixtures.tiny import tiny_bert

SMALL = ("model.passage_length=48", "train.batch_size=4", "train.validation_questions=8")


@pytest.fixture(autouse=True)
def squad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few passages and questions in the form of SQuAD's."""
    folder = tmp_path / "squad"
    folder.mkdir()
    ids = [f"p{number:03}" for number in range(60)]
    texts = [f"Tower {number} is old. King {number} built it of stone. It is tall." for number in range(60)]
    asked = {
        "qid": ids,
        "question": [f"Who built tower {number}?" for number in range(60)],
        "answers": [[f"King {number}"] for number in range(60)],
        "answer_starts": [[text.index("King")] for text in texts],
        "positive_passage_id": ids,
    }
    pq.write_table(pa.table({"id": ids, "title": ids, "text": texts}), folder / "passages.parquet")
    pq.write_table(pa.table(asked).slice(0, 45), folder / "train.parquet")
    pq.write_table(pa.table(asked).slice(45), folder / "dev.parquet")
    monkeypatch.setenv("MULTIVIEW_DATA", str(tmp_path))


def test_the_runs_are_the_rows_of_the_study(tmp_path: Path):
    store = LocalStore(tmp_path / "store")
    document = read_study("one-question").chosen(ROWS, [0])
    plans = {
        row.removesuffix("/seed-0"): Request.make("training", each).plan.nodes
        for row, each in document.overrides(gather("squad-viewers", SETTINGS)).items()
    }
    rows = study_rows(0, SETTINGS, ["model.init=cls"], store)
    assert {name: rows[name].plan.nodes for name in ROWS} == plans
    assert len({row.run.id for row in rows.values()}) == 3
    nodes = study_rows(0, [*SETTINGS, *FINER], [], store)["camvr-avq1"].plan.nodes.values()
    (train,) = [json.loads(node.config)["train"] for node in nodes if node.step.name == "train"]
    expected = {"epochs": 12, "batch_size": 64, "negatives": 1, "positive": "answer"}
    assert train.items() >= expected.items()


def test_the_slower_system_decides_how_many_steps_there_are():
    measured = {step: {"time": 100 + step * 0.5} for step in (0, 10, 20, 50)} | {60: {"time": 137.0}}
    assert pace(measured) == Pace(0.5, 7.0)
    assert steps_within(100, [Pace(0.1, 0), Pace(0.2, 0.5)]) == 440


def test_a_training_ends_in_time_and_a_whole_one_has_all_its_epochs(tmp_path: Path):
    """40 epochs are the default, which a record leaves out."""
    chosen = ("train.epochs=40", "train.validate_steps=3", "train.max_steps=9")
    settings = [*SETTINGS, *FINER, f"model.base={tiny_bert(tmp_path / 'base')}", *SMALL, *chosen]
    store = LocalStore(tmp_path / "store")
    row = study_rows(0, settings, [], store)["mvr-avq1"].until("train")
    run(row, store.root, until=0)
    validated = [step for step, metrics in curve(store, row).items() if "validation_mrr_at_10" in metrics]
    assert validated == [0, 3]
    _, record = load_record(output(store, row, "train").address)
    assert record.facts["stopped_early_at"] == record.facts["best_step"] == 3
    assert all_steps(store, row) == 40 * record.facts["steps_per_epoch"] > 0


def test_a_validation_is_shown_whole_whenever_the_training_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("loss", "validation_mrr_at_10", "validation_view_cosine", "time")
    events = [(step, name) for step in range(4) for name in names]

    def shown(looked_at: list[int]) -> str:
        found = Curves(LocalStore(tmp_path), study_rows(0, SETTINGS, [], LocalStore(tmp_path)), tmp_path)
        for number in looked_at:
            so_far: dict[int, dict[str, float]] = {}
            for step, name in events[:number]:
                so_far.setdefault(step, {"time": step})[name] = step
            monkeypatch.setattr(camvr_or_mvr, "curve", lambda store, row, so_far=so_far: so_far)
            found.show(ended=number == len(events))
        return (tmp_path / "curve.jsonl").read_text()

    assert {*shown([*range(len(events) + 1)]).splitlines()} == {*shown([len(events)]).splitlines()}


def test_what_is_found_is_written_and_the_same_command_goes_on_in_a_store_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(camvr_or_mvr, "ProcessPoolExecutor", pool_of_forks)
    out, added = tmp_path / "out", "camvr-avq1 model.init=cls"
    settings = [f"model.base={tiny_bert(tmp_path / 'base')}", *SMALL, "train.epochs=3"]

    def measured(steps: int | None) -> tuple[dict[str, str], str]:
        others = ["model.init=cls"]
        main(60, out, steps=steps, kept=tmp_path / "store", settings=settings, others=others)
        return {file.name: file.read_text() for file in out.iterdir()}, capsys.readouterr().out

    found, printed = measured(None)
    assert "a step" in printed and "| camvr-avq1 |" in printed
    points = [json.loads(line) for line in found["curve.jsonl"].splitlines()]
    last = max(point["step"] for point in points)
    for row in (*ROWS, added):
        assert [point["step"] for point in points if point["system"] == row] == [*range(last + 1)]
    figures = json.loads(found["figures.json"])
    assert last > 20 and all(figures[row].keys() >= {"accuracy_at_5", "view_cosine", "accuracy_at_5/view_8"} for row in ROWS)  # fmt: skip
    assert f"| {added} |" in found["comparison.md"]
    assert "camvr-avq1 is ahead of mvr-avq1 in MRR@10" in found["curve.md"]
    again, printed = measured(last)
    assert {*again.pop("curve.jsonl").splitlines()} == {*found.pop("curve.jsonl").splitlines()}
    assert again == found
    assert "a step" not in printed, "the pace is not measured where the steps are given"
