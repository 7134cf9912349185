"""The table of all benchmarks: its cells, its goals, and what was not run."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from benchmarks import __main__ as program
from benchmarks import bm25, search
from benchmarks.table import Contestant, Goal, Row, markdown, number, of_times, rows_of
from multiview.errors import StepFailed

OURS = Contestant((3.0, 1.0, 2.0))


def test_a_row_has_medians_and_ratios_of_them_in_three_figures() -> None:
    row = Row("work", "ms", OURS, Contestant((4.0,), "faiss"), Contestant((1.0, 1.5), "torch"))
    cells = [
        "work, ms",
        "1.00 / 2.00 / 3.00",
        "4.00 (faiss)",
        "1.00 / 1.25 / 1.50 (torch)",
        "2.00",
        "62%",
        "",
    ]
    assert row.cells() == cells
    header, line, shown = markdown([row])
    assert header.count("|") == line.count("|") == shown.count("|") == len(cells) + 1
    assert [*map(number, (0.01234, 12.345, 12345))] == ["0.0123", "12.3", "12,345"]


@pytest.mark.parametrize(
    ("goal", "peer", "cell"),
    [
        (Goal(times_peer=1.6), 4.0, "≥ 1.60 × peer: reached"),
        (Goal(times_peer=2.5), 4.0, "≥ 2.50 × peer: missed"),
        (Goal(times_peer=1.6), None, "≥ 1.60 × peer: not measured"),
        (Goal(times_peer=1.6, most=1), None, "≥ 1.60 × peer, ≤ 1.00 s: missed"),
        (Goal(most=2), None, "≤ 2.00 s: reached"),
    ],
)
def test_goals_say_whether_they_are_reached(goal: Goal, peer: float | None, cell: str) -> None:
    other = Contestant((peer,)) if peer else Contestant(not_run="not installed")
    assert Row("work", "s", OURS, other, goal=goal).cells()[-1] == cell


def test_what_was_not_run_says_why(tmp_path, monkeypatch) -> None:
    row = of_times("work", "s", {"ours": [4.0]}, ours="ours", peer="sbert", not_run="not installed", per=2)
    assert row.cells()[1:3] == ["2.00", "not run: not installed (sbert)"] and row.times_peer is None
    monkeypatch.setenv("MULTIVIEW_DATA", str(tmp_path))
    (row,) = rows_of("training", "quick")
    assert "not run: no SQuAD in" in row.cells()[1]


def test_an_error_of_any_kind_comes_back_from_another_process(monkeypatch) -> None:
    """StepFailed cannot be pickled, and would break the pool without a word."""

    def fails(size: str) -> NoReturn:
        raise StepFailed("encode: the disk is full", bad_input=False)

    monkeypatch.setattr(bm25, "rows", fails)
    with pytest.raises(RuntimeError) as caught:
        rows_of("bm25", "quick")
    assert str(pickle.loads(pickle.dumps(caught.value))) == "StepFailed: encode: the disk is full"


@pytest.mark.parametrize(("others", "mark"), [(0.5, " \\*"), (0.05, "")])
def test_rows_measured_beside_other_programs_have_a_mark(others, mark, monkeypatch, capsys) -> None:
    monkeypatch.setattr(program, "wait_until_quiet", lambda limit: others)
    monkeypatch.setattr(program.Others, "share", lambda self: others)
    monkeypatch.setattr(program, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    monkeypatch.setattr(program, "rows_of", lambda name, size: [Row(name, "s", OURS)])
    program.main("quick", ["bm25"], 0)
    printed = capsys.readouterr().out
    assert f"| bm25{mark}, s | 1.00 / 2.00 / 3.00 |" in printed
    assert ("bm25 50%" in printed) == bool(mark)


def test_no_search_wants_more_passages_than_there_are() -> None:
    given = search.Searched.random(2_000, 8, search.SPREAD, 0)
    made = search.searching(given, 1, time.process_time, (1,))
    assert [row.work.rpartition(" = ")[2] for row in made] == ["1", "10", "100"]
