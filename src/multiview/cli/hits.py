"""The hits of a search as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from multiview.serving.retriever import Hit, ScoredView
from multiview.terminal import Console, safe

MARK = "**"
"""Surrounds the text that matched where there is no colour: ASCII, which survives every pipe."""

SHOWN = 600
"""Characters of a text that are shown, the snippet among them."""

EXCERPT = 80
"""Characters of a snippet beside its view's score."""

MATCHED = "bold yellow"
INDENT = " " * 4


def print_hits(console: Console, question: str, hits: Sequence[Hit]) -> None:
    """Print the hits of one question: rank, title, id and score, the text with its snippet marked, and the scores of
    all views where the hits have them."""
    console.print(Text(_clean(question).strip(), style="bold underline"))
    for rank, hit in enumerate(hits, 1):
        console.print()
        console.print(_heading(console, rank, hit))
        for line in _passage(console, hit).wrap(console, console.width - len(INDENT)):
            _print_line(console, line)
        if columns := _columns(hit):
            _print_line(console, Text(columns, style="dim"))
        for view in hit.views:
            _print_line(console, _view(view, view.number == hit.best.number))
    if not hits:
        console.print("nothing found: the index has no such passage")


def _heading(console: Console, rank: int, hit: Hit) -> Text:
    """`1  Title  [id]  12.34`; the title is marked if it matched."""
    line = Text(f"{rank:<4}")
    if title := _clean(hit.title).strip():
        title_matched = hit.best.span is None and bool(hit.snippet)
        line.append_text(_matched(console, title) if title_matched else Text(title, style="bold"))
        line.append("  ")
    line.append(f"[{_clean(hit.id)}]", style="cyan")
    line.append(f"  {hit.score:.3f}  view {hit.best.number}", style="dim")
    if hit.best.query is not None:
        line.append(f"  {hit.best.query}", style="italic")
    return line


def _print_line(console: Console, line: Text) -> None:
    """Print a line indented and without wrapping; where it is too long for the console, it ends in `…`."""
    line.truncate(console.width - len(INDENT), overflow="ellipsis")
    line.rstrip()
    console.print(Text(INDENT).append_text(line))


def _passage(console: Console, hit: Hit) -> Text:
    """The snippet, marked, with the text around it."""
    start, stop = hit.span or (0, 0)
    # White space up to the next sentence belongs to a snippet; the mark stands before it.
    stop = start + len(hit.text[start:stop].rstrip())
    parts = hit.text[:start], hit.text[start:stop], hit.text[stop:]
    before, snippet, after = _shortened(*map(_clean, parts))
    text = Text(before)
    if snippet:
        text.append_text(_matched(console, snippet))
    text.append(after)
    return text


def _matched(console: Console, text: str) -> Text:
    if console.is_terminal and console.color_system:
        return Text(text, style=MATCHED)
    return Text(f"{MARK}{text}{MARK}")


def _shortened(before: str, snippet: str, after: str) -> tuple[str, str, str]:
    """The three parts of a text cut at words to `SHOWN` characters: the snippet, and the rest on both sides."""
    snippet = _cut(snippet, SHOWN)
    room = SHOWN - len(snippet)
    left = min(len(before), max(room // 2, room - len(after)))
    if left < len(before):
        tail = before[len(before) - left :]
        before = "… " + (tail[tail.index(" ") + 1 :] if " " in tail[:-1] else tail)
    return before, snippet, _cut(after, room - left)


def _cut(text: str, length: int) -> str:
    """At most `length` characters, up to the last whole word, and `…` for the rest."""
    if len(text) <= length:
        return text
    head = text[:length]
    return (head[: head.rindex(" ")] if " " in head[1:] else head) + " …"


def _columns(hit: Hit) -> str:
    """`url: https://…  date: 2020`: those of the corpus's further columns that have a value."""
    filled = ((name, value) for name, value in hit.columns.items() if value not in (None, ""))
    return "  ".join(f"{name}: {_clean(str(value))}" for name, value in filled)


def _view(view: ScoredView, best: bool) -> Text:
    """`> view 3  12.34  the beginning of its snippet`, or its query; `>` marks the best."""
    about = {None: "", "": "(empty snippet)"}.get(
        view.snippet, _cut(_clean(view.query or view.snippet or ""), EXCERPT)
    )
    line = f"{'>' if best else ' '} view {view.number:<3} {view.score:>9.3f}  {about}"
    return Text(line, style="" if best else "dim")


def _clean(text: str) -> str:
    """The text as a line that a terminal shows as it is: each run of white space and control characters is a space."""
    return safe(re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text))
