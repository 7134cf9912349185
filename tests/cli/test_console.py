"""No text of a corpus, a file name or a server steers a terminal."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from multiview.cli.console import Console
from multiview.errors import STEERING, safe
from tests.fixtures.inprocess import command, multiview_command

LITERAL = "[bold]a[/] :bug: [link=x] 1.5"
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
        console.print(shown)
    console.print(LITERAL)
    written = file.getvalue()
    assert LITERAL in written
    assert "evil" in written and not STEERING.search(written)


def test_inspect_and_its_error_lines_show_a_hostile_corpus(tmp_path, monkeypatch, capsys):
    passages = tmp_path / "p.jsonl"
    rows = [{"id": f"{HOSTILE}{n}", "title": HOSTILE, "text": HOSTILE, HOSTILE: 1} for n in (1, 2)]
    passages.write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = tmp_path / "q.jsonl"
    asked = [
        {"qid": HOSTILE + i, "question": HOSTILE + i, "answers": ["evil"], "positive_ids": [HOSTILE + i]}
        for i in "12"
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in asked))
    printed = multiview_command(monkeypatch, capsys, "inspect", str(passages), str(questions))
    assert "evil" in printed and not STEERING.search(printed)
    words = ("--set", f"corpus.source={passages}", "--set", f"questions.source={passages}")
    line = command(monkeypatch, capsys, "run", "training", *words, "--store", str(tmp_path / "s"), status=2)
    assert not STEERING.search(line)
