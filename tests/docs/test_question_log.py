"""docs/examples/question_log.py: drift and candidates from a log as the server writes it."""

import json

import pytest

from multiview.config import Gate
from multiview.config.overrides import gather
from tests.fixtures.inprocess import example, multiview_command


def line(
    question: str,
    *hits: tuple[str, float],
    index: str = "store/index/a",
    champion: int | None = 1,
    where: str | None = None,
):
    found = [{"id": id, "score": score} for id, score in hits]
    return {"index": index, "champion": champion, "question": question, "where": where, "hits": found}


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What the script says of a log of which the first line is in an earlier file."""
    monkeypatch.chdir(tmp_path)

    def say(lines, *words: str) -> str:
        for name, part in (("q.log.1", lines[:1]), ("q.log", lines[1:])):
            (tmp_path / name).write_text("".join(f"{json.dumps(each)}\n" for each in part))
        return example(monkeypatch, capsys, "question_log.py", "q.log", *words)

    return say


def test_drift_is_the_share_of_later_questions_below_a_quantile_of_the_earlier_ones(said):
    earlier = [line(f"{number}?", ("p", float(number))) for number in range(100)]
    lower = [line(f"{number}!", ("p", float(number) - 50)) for number in range(100)]
    counts = "store/index/a: 200 questions, 100 distinct, 0 unanswered"
    steady = "median top score 49.500, then 49.500; below the earlier 5% quantile: 5.0%"
    assert said(earlier + earlier) == f"{counts}; {steady}\n"
    assert "49.500, then -0.500; below the earlier 5% quantile: 55.0%" in said(earlier + lower)
    few = [line("a?", ("p", 1.0)), line("b?", index="other"), line("c?", ("p", 1.0), where="ok")]
    assert said(few) == (
        "store/index/a: 1 questions, 1 distinct, 0 unanswered\nother: 1 questions, 1 distinct, 1 unanswered\n"
    )


def test_candidates_are_read_as_dev_questions_and_as_a_policy(said, indexes, tmp_path, monkeypatch, capsys):
    """By the programs that read them: `inspect` finds no problem, and the policy is the preset's."""
    lines = [
        line('a "b"\t\u2028?', ("p1", 2.0)),
        line("Where?", ("p3", 1.0)),
        line(" Where? ", ("p2", 3.0), ("p1", 2.5)),
        line("When?"),
        line("Où?", ("p9", 1.0), where="url is null"),
        *[line("When?", ("p8", 1.0), index="store/index/challenger", champion=None)] * 3,
    ]
    alone = [{**each, "champion": None} for each in lines]
    assert "3 candidates in out" in said(alone, "--candidates", "out"), "of a server without a champion"
    assert "2 candidates in out" in said(lines, "--candidates", "out", "--rank", "3")
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
