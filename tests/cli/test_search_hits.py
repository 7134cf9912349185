"""What a search prints: texts as they are, shortened around what matched, and JSON on one line."""

import io
import json
from datetime import date

import pytest

from multiview.cli.console import Console
from multiview.cli.search import SHOWN, print_hits
from multiview.serving.hits import Hit, ScoredView, answer_fields, as_json


def shown(hit: Hit, question: str = "q", **console) -> str:
    file = io.StringIO()
    print_hits(Console(file=file, width=console.pop("width", 80), **console), question, [hit])
    return file.getvalue()


def hit(text: str, span: tuple[int, int] | None, title: str = "", **more) -> Hit:
    snippet = text[slice(*span)] if span else more.pop("snippet", None)
    best = ScoredView(1, 1.0, span, snippet)
    return Hit(more.pop("id", "p"), title, text, 1.0, best, more.pop("columns", {}), **more)


def test_texts_are_shown_as_they_are():
    """Rich's markup and emoji codes, terminal codes, and white space of the corpus do nothing."""
    odd = hit(
        "A [bold]x[/bold] :smile: \x1b[31mred\x07\n\n\tend. [/]",
        (2, 16),
        "[red]T[/red]",
        id="[p]",
        columns={"u": "[b]\x1b[2J", "none": None, "day": date(2020, 1, 2)},
    )
    for console in ({}, {"force_terminal": True, "color_system": None}):
        out = shown(odd, "[i]q[/i]", **console)
        assert "A **[bold]x[/bold]** :smile: [31mred end. [/]" in out
        assert "[red]T[/red]" in out and "[[p]]" in out and "[i]q[/i]" in out
        assert "u: [b] [2J  day: 2020-01-02" in out and "none" not in out
        assert "\x1b[31m" not in out and "\x1b[2J" not in out and "\x07" not in out


def test_a_terminal_gets_colour_in_place_of_marks():
    out = shown(hit("One. Two. Three.", (5, 10)), force_terminal=True, color_system="standard")
    assert "**" not in out and "One. \x1b[1;33mTwo.\x1b[0m Three." in out


@pytest.mark.parametrize("length", [10, 300, 5000])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_long_text_is_shortened_around_its_snippet(length, place):
    words = " ".join(f"w{number}" for number in range(length))
    start = words.rindex(" ", 0, max(2, int(place * len(words)))) + 1 if place else 0
    stop = words.find(" ", start + 20)
    stop = len(words) if stop < 0 else stop
    out = shown(hit(words, (start, stop)), width=10**5).split("\n", 3)[3].strip()
    assert f"**{words[start:stop]}**" in out
    assert len(out) <= SHOWN + 10
    before, after = out.split("**")[0], out.split("**")[2]
    assert before.startswith("… ") == (len(before.removeprefix("… ")) < start)
    assert words[:start].endswith(before.removeprefix("… "))
    assert after.endswith(" …") == (len(after.removesuffix(" …")) < len(words) - stop)
    assert words[stop:].startswith(after.removesuffix(" …"))
    if len(words) > SHOWN:
        assert len(out) > SHOWN - 20


@pytest.mark.parametrize(("start", "stop"), [(0, 700), (4, 8), (300, 310), (690, 700), (0, 2)])
def test_a_text_without_spaces_is_shortened_by_letters(start, stop):
    """Chinese with a single space, which was cut there; a snippet longer than what is shown; nothing left out at an end."""
    text = "第一章 " + "塔" * 696
    out = shown(hit(text, (start, stop)), width=10**5).split("\n", 3)[3].strip()
    before, snippet, after = out.split("**")
    assert len(snippet) >= min(stop - start, SHOWN) and SHOWN - 5 <= len(out) <= SHOWN + 10
    assert before.startswith("… ") == (len(before.removeprefix("… ")) < start)
    assert (after or snippet).endswith(" …") == (start != 690), "something follows, or the snippet is cut"


def test_what_matched_may_be_the_title_or_nothing():
    assert "**Tesla**" in shown(hit("A text.", None, "Tesla", snippet="Tesla"))
    assert "**" not in shown(hit("A text.", None, "Tesla"))
    assert "**" not in shown(hit("A text.", None, "Tesla", snippet=""))


def test_json_is_one_line_whatever_the_columns_hold():
    nan = float("nan")
    columns = {
        "day": date(2020, 1, 2),
        "n": 3,
        "x": nan,
        "list": [0.5, nan],
        "struct": {"a": [nan], "b": "c"},
    }
    line = as_json(answer_fields("ä\n", [hit("a\u2028b\n", (0, 1), columns=columns)], True))
    assert len(line.splitlines()) == 1
    shown_columns = json.loads(line)["hits"][0]["columns"]
    nested = {"list": [0.5, None], "struct": {"a": [None], "b": "c"}}
    assert shown_columns == {"day": "2020-01-02", "n": 3, "x": None, **nested}
    assert json.loads(line)["question"] == "ä\n"


def test_on_a_narrow_terminal_no_piece_of_a_heading_is_split():
    columns = {"url": "https://example.org/a/long/path/to/the/page", "date": "2020"}
    text = "The tower is in Rome. It is old."
    found = hit(text, (0, 21), "The tower of Rome", id="a-long-identifier-0001", columns=columns)
    out = shown(found, "Where is it?", force_terminal=True, color_system=None, width=40)
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[2:5] == ["1   The tower of Rome", "    [a-long-identifier-0001]", "    1.000  view 1"]
    assert lines[-2].startswith("    url: https://example.org") and lines[-2].endswith("…")
    assert lines[-1] == "    date: 2020", "a long column hides no other"
    assert max(map(len, lines)) <= 40
