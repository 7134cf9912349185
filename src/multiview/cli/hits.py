"""Hits as a person reads them, and as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from multiview.serving.retriever import Hit, ScoredView

MARK = "**"
"""Stands on both sides of what matched where there is no colour: ASCII, which survives every pipe."""

SHOWN = 600
"""Characters of a text that are shown, around the snippet."""

EXCERPT = 80
"""Characters of a snippet beside its view's score."""

MATCHED = "bold yellow"
INDENT = " " * 4


def print_hits(console: Console, question: str, hits: Sequence[Hit]) -> None:
    """One question's hits: rank, title, id and score, the text with its snippet marked, and the scores of
    all views where the hits carry them."""
    console.print(Text(_clean(question).strip(), style="bold underline"))
    for rank, hit in enumerate(hits, 1):
        console.print()
        console.print(_heading(console, rank, hit))
        for line in _passage(console, hit).wrap(console, console.width - len(INDENT)):
            _print_line(console, line)
        if own := _columns(hit):
            _print_line(console, Text(own, style="dim"))
        for view in hit.views:
            _print_line(console, _view(view, view.number == hit.best.number))
    if not hits:
        console.print("nothing found: the index is empty")


def as_json(question: str, hits: Sequence[Hit], exact: bool) -> str:
    """One line: `{"question", "exact", "hits": [{"rank", "id", "title", "text", "score", "view", "span", "snippet",
    "columns"}]}`, with every view's score under `views` where the hits carry them. Spans are in code points.
    `exact` is false where the index may have missed better passages. ASCII throughout, so that nothing in a text ends the line."""
    content = {
        "question": question,
        "exact": exact,
        "hits": [
            {
                "rank": rank,
                "id": hit.id,
                "title": hit.title,
                "text": hit.text,
                "score": hit.score,
                "view": hit.best.number,
                "span": hit.span,
                "snippet": hit.snippet,
                **_query_json(hit.best),
                "columns": {name: _finite(value) for name, value in hit.columns.items()},
            }
            | ({"views": [_view_json(view) for view in hit.views]} if hit.views else {})
            for rank, hit in enumerate(hits, 1)
        ],
    }
    return json.dumps(content, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    """JSON has no NaN, which pandas writes for a number that is missing."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _view_json(view: ScoredView) -> dict[str, Any]:
    return {
        "view": view.number,
        "score": view.score,
        "span": view.span,
        "snippet": view.snippet,
    } | _query_json(view)


def _query_json(view: ScoredView) -> dict[str, str]:
    """What the passage was read with, for architectures that read queries."""
    return {"query": view.query} if view.query is not None else {}


def _heading(console: Console, rank: int, hit: Hit) -> Text:
    """`1  Title  [id]  12.34`; the title is marked where it is what matched."""
    line = Text(f"{rank:<4}")
    if title := _clean(hit.title).strip():
        titles = hit.best.span is None and bool(hit.snippet)
        line.append_text(_matched(console, title) if titles else Text(title, style="bold"))
        line.append("  ")
    line.append(f"[{_clean(hit.id)}]", style="cyan")
    line.append(f"  {hit.score:.3f}  view {hit.best.number}", style="dim")
    if hit.best.query is not None:
        line.append(f"  {hit.best.query}", style="italic")
    return line


def _print_line(console: Console, line: Text) -> None:
    """A line that does not wrap, indented; what is too long for the console ends in `…`."""
    line.truncate(console.width - len(INDENT), overflow="ellipsis")
    line.rstrip()
    console.print(Text(INDENT).append_text(line))


def _passage(console: Console, hit: Hit) -> Text:
    """The text around the snippet, which is marked."""
    start, stop = hit.span or (0, 0)
    before, snippet, after = hit.text[:start], hit.text[start:stop], hit.text[stop:]
    # White space up to the next sentence belongs to a snippet; a mark stands closer.
    kept = snippet.rstrip()
    before, kept, after = _around(_clean(before), _clean(kept), _clean(snippet[len(kept) :] + after))
    text = Text(before)
    if kept:
        text.append_text(_matched(console, kept))
    text.append(after)
    return text


def _matched(console: Console, text: str) -> Text:
    if console.is_terminal and console.color_system:
        return Text(text, style=MATCHED)
    return Text(f"{MARK}{text}{MARK}")


def _around(before: str, snippet: str, after: str) -> tuple[str, str, str]:
    """`SHOWN` characters of a text: its snippet, and what is left for both sides; cuts are at words."""
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
    """`url: https://…  date: 2020`: the corpus's own columns that say something."""
    known = ((name, value) for name, value in hit.columns.items() if value not in (None, ""))
    return "  ".join(f"{name}: {_clean(str(value))}" for name, value in known)


def _view(view: ScoredView, best: bool) -> Text:
    """`> view 3  12.34  the beginning of its snippet`, or its query; `>` marks the best."""
    about = {None: "", "": "(empty snippet)"}.get(
        view.snippet, _cut(_clean(view.query or view.snippet or ""), EXCERPT)
    )
    line = f"{'>' if best else ' '} view {view.number:<3} {view.score:>9.3f}  {about}"
    return Text(line, style="" if best else "dim")


def _clean(text: str) -> str:
    """One line that a terminal shows as it is: runs of white space and control characters are one space."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text)
