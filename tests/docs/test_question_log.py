"""docs/examples/question_log.py: drift and candidates from a log as the server writes it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from multiview.config import Gate
from multiview.config.overrides import gather
from tests.fixtures.inprocess import multiview_command
from tests.fixtures.project import ROOT

SCRIPT = ROOT / "docs" / "examples" / "question_log.py"


def line(question: str, *hits: tuple[str, float], index: str = "store/index/a", where: str | None = None):
    found = [{"id": id, "score": score} for id, score in hits]
    return {"index": index, "question": question, "where": where, "hits": found}


def said(folder: Path, lines: list[dict[str, Any]], *words: str) -> str:
    """What the script says of a log of which the first line is in an earlier file."""
    for name, part in (("q.log.1", lines[:1]), ("q.log", lines[1:])):
        (folder / name).write_text("".join(f"{json.dumps(each)}\n" for each in part))
    command = [sys.executable, SCRIPT, "q.log", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_drift_is_the_share_of_later_questions_below_a_quantile_of_the_earlier_ones(tmp_path):
    earlier = [line(f"{number}?", ("p", float(number))) for number in range(100)]
    lower = [line(f"{number}!", ("p", float(number) - 50)) for number in range(100)]
    counts = "store/index/a: 200 questions, 100 distinct, 0 unanswered"
    steady = "median top score 49.500, then 49.500; below the earlier 5% quantile: 5.0%"
    assert said(tmp_path, earlier + earlier) == f"{counts}; {steady}\n"
    assert "49.500, then -0.500; below the earlier 5% quantile: 55.0%" in said(tmp_path, earlier + lower)
    few = [line("a?", ("p", 1.0)), line("b?", index="other"), line("c?", ("p", 1.0), where="ok")]
    assert said(tmp_path, few) == (
        "store/index/a: 1 questions, 1 distinct, 0 unanswered\nother: 1 questions, 1 distinct, 1 unanswered\n"
    )


def test_candidates_are_read_as_dev_questions_and_as_a_policy(indexes, tmp_path, monkeypatch, capsys):
    """By the programs that read them: `inspect` finds no problem, and the policy is the preset's."""
    lines = [
        line('a "b"\t\u2028?', ("p1", 2.0)),
        line("Where?", ("p3", 1.0)),
        line(" Where? ", ("p2", 3.0), ("p1", 2.5)),
        line("When?"),
        line("Où?", ("p9", 1.0), where="url is null"),
    ]
    assert "2 candidates in out" in said(tmp_path, lines, "--candidates", "out", "--rank", "3")
    questions, gate = tmp_path / "out" / "questions.jsonl", tmp_path / "out" / "gate.yaml"
    passages = indexes.store.root.parent / "passages.parquet"
    settings = ("--set", f"corpus.source={passages}", "--set", f"questions.dev_source={questions}")
    assert "Problems\n  none" in multiview_command(monkeypatch, capsys, "inspect", *settings)
    rows = [json.loads(each) for each in questions.read_text().split("\n") if each]
    assert [(row["question"], row["positive_ids"]) for row in rows] == [
        ("Where?", ["p2"]),
        ('a "b"\t\u2028?', ["p1"]),
    ]
    assert Gate.model_validate(gather(str(gate), [])["gate"]).must_find == {row["qid"]: 3 for row in rows}
