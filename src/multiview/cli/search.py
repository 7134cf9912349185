"""`multiview search`: reads the questions, and prints the hits of each as they are found."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from multiview import names
from multiview.artifacts.record import load_record
from multiview.cli.console import Console
from multiview.data.processes import rare_collections
from multiview.data.reading.values import has_half, is_blank, shown_value
from multiview.errors import InputError, counted, safe

if TYPE_CHECKING:
    from multiview.serving.hits import Hit, ScoredView
    from multiview.serving.retriever import Retriever

BATCH_SIZE = 64
"""Questions per batch: read, searched and printed together."""
MARK = "**"
"""Surrounds the text that matched if there is no colour; ASCII, which survives every pipe."""
SHOWN = 600
"""Characters of a text that are shown, including the snippet."""
EXCERPT = 80
"""Characters of a snippet beside its view's score."""
MATCHED = "bold yellow"
INDENT = " " * 4


def read_questions(question: str | None, file: Path | None) -> Iterator[list[str]]:
    """Returns the question of the command line, or those of a file (`-`: standard input) without blank lines, in
    batches. Raises InputError if there is no question, or a line is not UTF-8."""
    if (question is None) == (file is None):
        raise InputError('give one question, as in multiview search "who built it?", or --questions FILE')
    if file is None:
        if is_blank(question or ""):
            raise InputError("the question is empty")
        if has_half(question or ""):
            raise InputError(
                "the question is not UTF-8; see LANG and LC_ALL, or write it to a file for --questions"
            )
        return iter([[question or ""]])
    if str(file) == "-" and sys.stdin is None:
        raise InputError("--questions -: standard input is closed; name a file")
    if str(file) != "-" and not file.is_file():
        said = "it is no file" if file.exists() else "there is no such file"
        raise InputError(f"--questions {file}: {said}; name one with a question per line")
    return _batches(file)


def _batches(file: Path) -> Iterator[list[str]]:
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as lines:
        questions, size = _decoded(lines, file), 1 if lines.isatty() else BATCH_SIZE
        empty = True
        while batch := list(islice(questions, size)):
            empty = False
            yield batch
    if empty:
        raise InputError(f"--questions {file}: there is no question in it")


def _decoded(lines: Iterable[bytes], file: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(f"--questions {file}, line {number}: not UTF-8; convert the file") from error
        if not is_blank(text):
            yield text


def print_answers(
    batches: Iterable[list[str]],
    address: str,
    k: int,
    *,
    explain: bool = False,
    where: str | None = None,
    json: bool = False,
    **how: Any,
) -> None:
    """Print the hits of each question to standard output; `how` are options of `retriever.load`. Unless the output is
    JSON, also print a line about the index and the times to standard error."""
    console, log = Console(), Console(stderr=True, soft_wrap=True)
    with rare_collections():
        retriever, loading = _load(address, log, **how)
    from multiview.serving.hits import answer_fields, as_json

    count, seconds = 0, 0.0
    for questions in batches:
        started = time.perf_counter()
        answers = retriever.search(questions, k, explain=explain, where=where)
        seconds += time.perf_counter() - started
        for question, hits in zip(questions, answers, strict=True):
            if json:
                exact = retriever.exact or where is not None
                print(as_json(answer_fields(question, hits, exact)), flush=True)
            else:
                if count:
                    console.print()
                print_hits(console, question, hits)
            count += 1
    if not json:
        kind = "" if retriever.exact else f"approximate index ({retriever.index.header['kind']}), "
        ranking = f"{retriever.ranking}, " if retriever.ranking else ""
        about = f"{retriever.architecture}, {ranking}{kind}{counted(len(retriever), 'passage')}"
        line = f"{address}: {about}; {loading}, {seconds / count:.3f} s per question"
        log.print(line, style="dim")


def _load(address: str, log: Console, **how: Any) -> tuple[Retriever, str]:
    """Returns the retriever of an index, and the seconds that importing and loading took."""
    from multiview.serving import retriever

    started = time.perf_counter()
    with log.status("loading PyTorch, the index and its model"):
        load_record(address, kind=names.INDEX)  # before the imports, which take seconds
        import_module("multiview.encoding.encode")  # the slowest import, which every index needs
        imported = time.perf_counter()
        loaded = retriever.load(address, **how)
    return loaded, f"imports {imported - started:.1f} s, loaded in {time.perf_counter() - imported:.1f} s"


def print_hits(console: Console, question: str, hits: Sequence[Hit]) -> None:
    """Print the hits of a question: rank, title, id, score, text with the snippet marked, and views' scores, if any."""
    console.print(Text(_clean(question).strip(), style="bold underline"))
    room = max(1, console.width - len(INDENT))
    for rank, hit in enumerate(hits, 1):
        console.print()
        lines = [
            *_joined(console, room, list(_heading(console, hit))),
            *_passage(console, hit).wrap(console, room),
            *_joined(console, room, list(_columns(hit, room))),
            *(_view(view, view.number == hit.best.number) for view in hit.views),
            *_ranks(hit),
        ]
        for number, line in enumerate(lines):
            line.rstrip()
            line.truncate(room, overflow="ellipsis")
            console.print(Text(INDENT if number else f"{rank:<{len(INDENT)}}").append_text(line))
    if not hits:
        console.print(
            "nothing found: no passage satisfies the condition, or none shares a word with the question"
        )


def _heading(console: Console, hit: Hit) -> Iterator[Text]:
    """`Title`, `[id]`, `12.34  view 1` and the view's query; the title is marked if it matched."""
    if title := _clean(hit.title).strip():
        title_matched = hit.best.span is None and bool(hit.snippet)
        yield _matched(console, title) if title_matched else Text(title, style="bold")
    yield Text(f"[{_clean(hit.id)}]", style="cyan")
    yield Text(f"{_figure(hit.score)}  view {hit.best.number}", style="dim")
    if hit.best.query is not None:
        yield Text(_clean(hit.best.query), style="italic")


def _joined(console: Console, room: int, pieces: list[Text]) -> list[Text]:
    """The pieces on one line if they fit, else each on lines of its own."""
    line = Text("  ").join(pieces)
    if line.cell_len <= room:
        return [line] if pieces else []
    return [part for piece in pieces for part in piece.wrap(console, room)]


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
    room = max(0, SHOWN - len(snippet))
    left = min(len(before), max(room // 2, room - len(after)))
    if left < len(before):
        tail = before[len(before) - left :]
        before = "… " + tail[tail.find(" ", 0, left // 2) + 1 :]
    return before, snippet, _cut(after, room - left)


def _cut(text: str, length: int) -> str:
    """At most `length` characters, up to the last whole word unless it is very long, and `…` for the rest."""
    if len(text) <= length:
        return text
    space = text.rfind(" ", length // 2, length)
    return text[: space if space > 0 else length] + " …"


def _columns(hit: Hit, room: int) -> Iterator[Text]:
    """`url: https://…`, `date: 2020`: the corpus's further columns that have a value, each on one line."""
    for name, value in hit.columns.items():
        if value not in (None, ""):
            piece = Text(f"{name}: {_clean(shown_value(value))}", style="dim")
            piece.truncate(room, overflow="ellipsis")
            yield piece


def _view(view: ScoredView, best: bool) -> Text:
    """`> view 3  12.34  the beginning of its snippet`, or its query; `>` marks the best."""
    text = _cut(_clean(view.query or view.snippet or ""), EXCERPT)
    about = {None: "", "": "(empty snippet)"}.get(view.snippet, text)
    line = f"{'>' if best else ' '} view {view.number:<3} {view.score:>9.3f}  {about}"
    return Text(line, style="" if best else "dim")


def _ranks(hit: Hit) -> Iterator[Text]:
    """`  hybrid 1 (0.033)  dense 2 (12.346)  bm25 1 (9.877)`: the rankings that were fused or reranked."""
    if hit.ranks:
        each = (f"{name} {found.rank} ({_figure(found.score)})" for name, found in hit.ranks.items())
        yield Text(f"  {'  '.join(each)}", style="dim")


def _figure(score: float) -> str:
    return f"{score:.3f}" if abs(score) >= 1 else f"{score:.5f}"  # sums of reciprocal ranks


def _clean(text: str) -> str:
    """The text as one safe line: each run of white space and control characters becomes a space."""
    return safe(re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text))
