"""A log of questions as candidates for the gate, and as figures of drift."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from multiview.cli.app import app, run_app
from multiview.config import Gate
from multiview.config.overrides import gather
from multiview.serving.logged import FEWEST, asked_most, question_drift, write_candidates
from multiview.serving.question_log import LoggedQuestion
from tests.fixtures.inprocess import multiview_command

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


def logged(
    question: str, *hits: tuple[str, float], index: str = "store/index/a", number: int = 0, where=None
):
    return LoggedQuestion.model_validate(
        {
            "time": BEGIN + timedelta(seconds=number),
            "index": index,
            "question": question,
            "where": where,
            "hits": [{"id": id, "score": score} for id, score in hits],
        }
    )


def test_candidates_are_the_questions_asked_most_often_with_their_latest_best_passage():
    lines = [
        logged("Who?", ("p1", 2.0)),
        logged("Where?", ("p3", 1.0)),
        logged(" Who? ", ("p2", 3.0), ("p1", 2.5)),
        logged("When?"),
        logged("When?"),
        logged("Where?", ("p9", 1.0), where="url is null"),
        logged("How?", ("p4", 1.0)),
    ]
    found = asked_most(lines, most=2)
    assert [(each.question, each.passage, each.asked) for each in found] == [
        ("Who?", "p2", 2),
        ("Where?", "p3", 1),
    ]
    assert len({each.qid for each in asked_most(lines, most=9)}) == 3


def test_candidates_are_read_as_dev_questions_and_as_a_policy(indexes, tmp_path, monkeypatch, capsys):
    """By the programs that read them: `inspect` finds no problem, and the policy is the preset's."""
    lines = [logged(question, ("p1", 2.0)) for question in ("Who?", "Où?", 'a "b"\t\u2028?')]
    questions, gate = write_candidates(tmp_path / "out", asked_most(lines, 10), rank=3)
    passages = indexes.store.root.parent / "passages.parquet"
    settings = ("--set", f"corpus.source={passages}", "--set", f"questions.dev_source={questions}")
    shown = multiview_command(monkeypatch, capsys, "inspect", *settings)
    assert "Problems\n  none" in shown
    rows = [json.loads(line) for line in questions.read_text().split("\n") if line]
    policy = Gate.model_validate(gather(str(gate), [])["gate"])
    assert policy.must_find == {row["qid"]: 3 for row in rows}
    assert [row["question"] for row in rows] == ["Who?", "Où?", 'a "b"\t\u2028?']


def test_drift_is_the_share_of_later_questions_below_a_quantile_of_the_earlier_ones():
    earlier = [logged(f"{i}?", ("p", float(i)), number=i) for i in range(100)]
    same = [logged(f"{i}?", ("p", float(i)), number=100 + i) for i in range(100)]
    lower = [logged(f"{i}!", ("p", float(i) - 50), number=100 + i) for i in range(100)]
    (steady,), (drifted,) = question_drift([*earlier, *same]), question_drift([*earlier, *lower])
    assert (steady.earlier, steady.later, steady.below) == (49.5, 49.5, 0.05)
    assert (drifted.earlier, drifted.later, drifted.below) == (49.5, -0.5, 0.55)
    assert (steady.questions, steady.distinct, drifted.distinct) == (200, 100, 200)


def test_indexes_are_told_apart_and_few_questions_give_no_figure():
    lines = [logged("a?", ("p", 1.0))] * (2 * FEWEST - 1) + [
        logged("b?", index="other"),
        logged("c?", where="ok"),
    ]
    first, second = question_drift(lines)
    assert (first.questions, first.distinct, first.below) == (
        2 * FEWEST - 1,
        1,
        None,
    ) or first.below is not None
    assert (second.index, second.questions, second.unanswered, second.below) == ("other", 1, 1, None)


@pytest.mark.parametrize("count", [2 * FEWEST - 2, 2 * FEWEST])
def test_figures_need_questions_on_both_sides(count):
    (found,) = question_drift([logged("a?", ("p", 1.0))] * count)
    assert (found.below is None) == (count < 2 * FEWEST)


def test_a_log_without_questions_says_so(tmp_path, monkeypatch, capsys):
    log, out = tmp_path / "questions.log", tmp_path / "out"
    log.write_text("")
    shown = multiview_command(monkeypatch, capsys, "question-log", str(log))
    assert shown == f"{log}: no question was logged yet\n"
    log.write_text(logged("Who?", ("p1", 1.0), where="url is null").model_dump_json() + "\n")
    shown = multiview_command(monkeypatch, capsys, "question-log", str(log))
    assert shown == f"{log}: every question has a condition (where)\n"
    monkeypatch.setattr("sys.argv", ["multiview", "question-log", str(log), "--candidates", str(out)])
    with pytest.raises(SystemExit) as ended:
        run_app(app)
    assert ended.value.code == 2 and not out.exists()
    assert f"--candidates: no question of {log} has a hit and no condition" in capsys.readouterr().err
    log.write_text(logged("Who?", ("p1", 1.0)).model_dump_json() + "\n")
    shown = multiview_command(monkeypatch, capsys, "question-log", str(log), "--candidates", str(out))
    assert "1 question, 1 distinct, 0 unanswered" in shown and "1 candidate: check" in shown
