"""The table of all benchmarks: its cells, its goals, and what was not run."""

import importlib
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


def test_ratios_are_of_medians() -> None:
    row = Row("work", "ms", OURS, Contestant((4.0,), "faiss"), Contestant((1.0, 1.5), "torch"))
    assert row.times_peer == 2 and row.of_bound == 0.625
    assert row.cells() == [
        "work, ms",
        "1.00 / 2.00 / 3.00",
        "4.00 (faiss)",
        "1.00 / 1.25 / 1.50 (torch)",
        "2.00",
        "62%",
        "",
    ]


@pytest.mark.parametrize(
    ("goal", "peer", "cell"),
    [
        (Goal(times_peer=1.6), 4.0, "≥ 1.60 × peer: reached"),
        (Goal(times_peer=2.5), 4.0, "≥ 2.50 × peer: missed"),
        (Goal(times_peer=1.6), None, "≥ 1.60 × peer: not measured"),
        (Goal(times_peer=1.6, most=1), None, "≥ 1.60 × peer, ≤ 1.00 s: missed"),
        (Goal(most=2), None, "≤ 2.00 s: reached"),
        (Goal(), 4.0, ""),
    ],
)
def test_goals_say_whether_they_are_reached(goal: Goal, peer: float | None, cell: str) -> None:
    other = Contestant((peer,)) if peer else Contestant(not_run="not installed")
    assert Row("work", "s", OURS, other, goal=goal).cells()[-1] == cell


def test_a_contestant_that_was_not_run_says_why() -> None:
    row = of_times("work", "s", {"ours": [4.0]}, ours="ours", peer="sbert", not_run="not installed", per=2)
    assert row.cells()[1:3] == ["2.00", "not run: not installed (sbert)"]
    assert row.times_peer is None


def test_rows_are_lines_of_markdown() -> None:
    header, line, row = markdown([Row("work", "s", OURS)])
    assert header.count("|") == line.count("|") == row.count("|") == 8


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (1, "1.00"), (12.345, "12.3"), (12345, "12,345")]
)
def test_numbers_have_three_figures(value: float, text: str) -> None:
    assert number(value) == text


def test_a_benchmark_without_its_data_is_a_row(tmp_path, monkeypatch) -> None:
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
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == "StepFailed: encode: the disk is full"


def test_every_benchmark_has_rows() -> None:
    for name in program.BENCHMARKS:
        module = importlib.import_module(f"benchmarks.{name}")
        assert callable(module.rows)


@pytest.mark.parametrize(("others", "mark"), [(0.5, " \\*"), (0.05, "")])
def test_rows_measured_beside_other_programs_have_a_mark(
    others: float, mark: str, monkeypatch, capsys
) -> None:
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
