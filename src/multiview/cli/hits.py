"""The hits of a search as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from multiview.serving.hits import Hit, ScoredView
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
        for line in _packed(console, f"{rank:<{len(INDENT)}}", _heading(console, hit)):
            console.print(line)
        for line in _passage(console, hit).wrap(console, console.width - len(INDENT)):
            _print_line(console, line)
        for line in _packed(console, INDENT, _columns(console, hit)):
            _print_line(console, line[len(INDENT) :])
        for view in hit.views:
            _print_line(console, _view(view, view.number == hit.best.number))
    if not hits:
        console.print("nothing found: the index has no such passage")


def _heading(console: Console, hit: Hit) -> Iterator[Text]:
    """`Title`, `[id]`, `12.34  view 1` and the view's query, each in one piece; the title is marked if it matched."""
    if title := _clean(hit.title).strip():
        title_matched = hit.best.span is None and bool(hit.snippet)
        yield _matched(console, title) if title_matched else Text(title, style="bold")
    yield Text(f"[{_clean(hit.id)}]", style="cyan")
    yield Text(f"{hit.score:.3f}  view {hit.best.number}", style="dim")
    if hit.best.query is not None:
        yield Text(_clean(hit.best.query), style="italic")


def _packed(console: Console, begin: str, pieces: Iterable[Text]) -> Iterator[Text]:
    """Yields lines of as many pieces as fit side by side, the first after `begin`, the others indented; a piece too
    long for a line is wrapped between words."""
    line, room = Text(begin), console.width - len(INDENT)
    for piece in pieces:
        first, *more = piece.wrap(console, room) or [Text()]
        if line.cell_len > len(INDENT):
            if line.cell_len + 2 + piece.cell_len <= console.width:
                line.append("  ").append_text(piece)
                continue
            yield line
            line = Text(INDENT)
        line.append_text(first)
        for part in more:
            yield line
            line = Text(INDENT).append_text(part)
    if line.cell_len > len(INDENT):
        yield line


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


def _columns(console: Console, hit: Hit) -> Iterator[Text]:
    """`url: https://…`, `date: 2020`: those of the corpus's further columns that have a value, on a line at most."""
    for name, value in hit.columns.items():
        if value not in (None, ""):
            piece = Text(f"{name}: {_clean(str(value))}", style="dim")
            piece.truncate(console.width - len(INDENT), overflow="ellipsis")
            yield piece


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
