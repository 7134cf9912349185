"""No text of a corpus, a file name or a server steers a terminal."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from multiview.terminal import STEERING, Console, safe, unpadded
from tests.fixtures.inprocess import command, multiview_command

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"


@given(st.text())
def test_a_text_is_the_same_but_for_what_steers(text):
    shown = safe(text)
    assert len(shown) == len(text) and not STEERING.search(shown)
    assert all(a == b or (b == "?" and STEERING.match(a)) for a, b in zip(text, shown, strict=True))
    shown.encode()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_console_shows_nothing_that_steers_whatever_it_prints(terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=200, color_system=None)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE))
    for shown in (HOSTILE, Text(HOSTILE), table):
        console.print(shown, markup=False)
    written = file.getvalue()
    assert "evil" in written and not STEERING.search(written)


@given(st.lists(st.text("a \n", max_size=6)))
def test_no_line_that_ends_has_blanks_before_its_end_however_it_is_cut(texts):
    text = "".join(texts)
    shown = "".join(segment.text for segment in unpadded(map(Segment, texts)))
    assert shown == re.sub(r" +\n", "\n", text)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_is_padded_for_terminals_alone(terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=40, color_system=None)
    grid = Table.grid(padding=(0, 2))
    grid.add_row("name", "a longer value")
    grid.add_row("another", "b")
    console.print(grid)
    console.print("a question ", end="")
    console.print("and more")
    lines = ["name     a longer value", "another  b", "a question and more", ""]
    printed = file.getvalue().split("\n")
    assert [line.rstrip() for line in printed] == lines
    assert (printed == lines) is not terminal


def test_inspect_and_its_error_lines_show_a_hostile_corpus(tmp_path, monkeypatch, capsys):
    passages = tmp_path / "p.jsonl"
    rows = [{"id": f"{HOSTILE}{n}", "title": HOSTILE, "text": HOSTILE, HOSTILE: 1} for n in (1, 2)]
    passages.write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = tmp_path / "q.jsonl"
    asked = [
        {"qid": HOSTILE + i, "question": HOSTILE, "answers": ["evil"], "positive_ids": [f"{HOSTILE}{i}"]}
        for i in "12"
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in asked))
    printed = multiview_command(monkeypatch, capsys, "inspect", str(passages), str(questions))
    assert "evil" in printed and not STEERING.search(printed) and " \n" not in printed
    words = ("--set", f"corpus.source={passages}", "--set", f"questions.source={passages}")
    line = command(monkeypatch, capsys, "run", "training", *words, "--store", str(tmp_path / "s"), status=2)
    assert not STEERING.search(line)
