"""The trainings of MVR and CAMVR within a budget of minutes, whole, with a tiny model and few questions."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.camvr_or_mvr import (
    FINER,
    ROWS,
    SETTINGS,
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
from tests.fixtures.tiny import tiny_bert


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


def test_the_runs_are_the_rows_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    squad(tmp_path, monkeypatch)
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
    assert (train["epochs"], train["batch_size"], train["negatives"], train["positive"]) == (
        12,
        64,
        1,
        "answer",
    )


def test_the_slower_system_decides_how_many_steps_there_are():
    measured = {step: {"time": 100 + step * 0.5} for step in (0, 10, 20, 50)} | {60: {"time": 137.0}}
    assert pace(measured) == Pace(0.5, 7.0)
    assert steps_within(100, [Pace(0.1, 0), Pace(0.2, 0.5)]) == 440


def test_a_training_ends_in_time_and_a_whole_one_has_all_its_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """40 epochs are the default, which a record leaves out."""
    squad(tmp_path, monkeypatch)
    small = (f"model.base={tiny_bert(tmp_path / 'base')}", "model.passage_length=48", "train.batch_size=4")
    chosen = (
        "train.epochs=40",
        "train.validation_questions=8",
        "train.validate_steps=3",
        "train.max_steps=9",
    )
    store = LocalStore(tmp_path / "store")
    row = study_rows(0, [*SETTINGS, *FINER, *small, *chosen], [], store)["mvr-avq1"].until("train")
    run(row, store.root, until=0)
    assert [step for step, metrics in curve(store, row).items() if "validation_mrr_at_10" in metrics] == [
        0,
        3,
    ]
    _, record = load_record(output(store, row, "train").address)
    assert record.facts["stopped_early_at"] == record.facts["best_step"] == 3
    assert all_steps(store, row) == 40 * record.facts["steps_per_epoch"] > 0


def test_what_is_found_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    squad(tmp_path, monkeypatch)
    base = tiny_bert(tmp_path / "base")
    small = (f"model.base={base}", "model.passage_length=48", "train.batch_size=4", "train.epochs=3")
    settings = [*small, "train.validation_questions=8"]
    main(60, tmp_path / "out", settings=settings, others=["model.init=cls"])

    curve = [json.loads(line) for line in (tmp_path / "out" / "curve.jsonl").read_text().splitlines()]
    for row in (*ROWS, "camvr-avq1 model.init=cls"):
        steps = [point["step"] for point in curve if point["system"] == row]
        assert steps == [*range(len(steps))] and len(steps) > 20
    figures = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert all({"accuracy_at_5", "view_cosine", "accuracy_at_5/view_8"} <= set(figures[row]) for row in ROWS)
    printed = capsys.readouterr().out
    assert "a step" in printed
    assert "| camvr-avq1 |" in printed
    assert "| camvr-avq1 model.init=cls |" in (tmp_path / "out" / "comparison.md").read_text()
    assert "camvr-avq1 is ahead of mvr-avq1 in MRR@10" in (tmp_path / "out" / "curve.md").read_text()


def test_the_same_command_goes_on_in_a_store_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    squad(tmp_path, monkeypatch)
    base = tiny_bert(tmp_path / "base")
    small = (f"model.base={base}", "model.passage_length=48", "train.batch_size=4", "train.epochs=3")
    found = []
    for _ in range(2):
        main(
            60,
            tmp_path / "out",
            steps=4,
            kept=tmp_path / "store",
            settings=[*small, "encode.compute=float32"],
        )
        found.append({file.name: file.read_text() for file in (tmp_path / "out").iterdir()})
    lines = [json.loads(line) for line in found[0]["curve.jsonl"].splitlines()]
    assert {(each["system"], each["step"]) for each in lines} == {
        (row, step) for row in ROWS for step in range(5)
    }
    again = {*found[1].pop("curve.jsonl").splitlines()}
    assert again == {*found[0].pop("curve.jsonl").splitlines()} and found[1] == found[0]
    assert "a step" not in capsys.readouterr().out, "the pace is not measured where the steps are given"
