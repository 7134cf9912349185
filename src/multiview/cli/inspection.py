"""An inspection as a person reads it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from multiview.data.inspection import FIRST, SAMPLE, SETTING, Inspection
from multiview.data.questions import Question
from multiview.data.reading.formats import FORMATS
from multiview.data.reading.judged import Use
from multiview.data.reading.problems import Problems

TITLES: dict[Use, str] = {"corpus": "Passages", "train": "Training questions", "dev": "Dev questions"}
ID_WIDTH = 24
FILES = 3
"""Files that are named; the others are counted."""


def print_inspection(console: Console, found: Inspection, options: Sequence[str]) -> None:
    """All of it, ending with the run that would use these data; `options` are that command's."""
    if found.formats.get("corpus"):
        _heading(console, TITLES["corpus"], found, "corpus")
        _print(console, _passages(found))
    for use, asked in found.questions.items():
        if found.formats[use]:
            _heading(console, TITLES[use], found, use)
            _print(console, _questions(found, use, asked))
    console.print(Text("Problems", "bold"))
    if not found.problems.counts:
        console.print("  none")
    _counted(console, found.problems)
    console.print()
    if found.remarks.counts:
        console.print(Text("Left out", "bold"))
        _counted(console, found.remarks)
        console.print()
    if found.questions["train"]:
        line = shlex.join(["python", "-m", "pipelines", "run", "comparison", *options])
        console.print(Text.assemble(("Run it:  ", "bold"), line), soft_wrap=True)
    else:
        console.print(f"To run it, name training questions: --set {SETTING['train']}=…", markup=False)


def _counted(console: Console, told: Problems) -> None:
    for kind, number in told.counts.items():
        console.print(f"  {number:,} {kind}, the first:", markup=False)
        console.print(f"    {told.first[kind]}", markup=False, soft_wrap=True)


def _heading(console: Console, title: str, found: Inspection, use: Use) -> None:
    console.print(Text(title, "bold"))
    files = found.formats[use]
    for file, name in list(files.items())[:FILES]:
        about = FORMATS[name].about if name in FORMATS else "judgements (qrels)"
        console.print(f"  {file}: {about}", markup=False, soft_wrap=True)
    if len(files) > FILES:
        console.print(f"  and {len(files) - FILES:,} more files")


def _print(console: Console, rows: list[tuple[str, str]]) -> None:
    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(Text(f"  {name}", "dim"), Text(value, overflow="ellipsis", no_wrap=True))
    console.print(grid)
    console.print()


def _passages(found: Inspection) -> list[tuple[str, str]]:
    words, sentences = found.words, found.sentences
    rows = [
        ("passages", f"{found.passages:,}" + (f", {found.titled:,} with a title" if found.titled else "")),
        ("words", f"mean {words.mean:.1f}, median {words.median:,}, longest {words.longest:,}"),
        (
            "sentences",
            f"mean {sentences.mean:.1f}, {100 * sentences.above(8):.1f} % have more than 8"
            + (f" (of the first {SAMPLE:,})" if found.passages > SAMPLE else ""),
        ),
    ]
    if found.columns:
        rows.append(("more columns", ", ".join(found.columns)))
    for number, passage in enumerate(found.first_passages):
        title = f"{passage['title']}: " if passage["title"] else ""
        shown = f"{_short(passage['id'])}  {title}{' '.join(passage['text'].split())}"
        rows.append(("" if number else "first", shown))
    return rows


def _questions(found: Inspection, use: Use, asked: list[Question]) -> list[tuple[str, str]]:
    answered = [q for q in asked if q.answers]
    named = [q for q in asked if q.positive_ids]
    answers = sum(len(q.answers) for q in answered) / max(1, len(answered))
    positives = sum(len(q.positive_ids) for q in named) / max(1, len(named))
    missing = found.missing_gold.get(use, 0)
    offsets = sum(q.answer_starts is not None for q in asked)
    rows = [
        ("questions", f"{len(asked):,}"),
        (
            "answers",
            f"{answers:.1f} a question"
            + (f" of the {len(answered):,} that have any" if len(answered) < len(asked) else "")
            + (f", {offsets:,} with offsets" if offsets else "")
            if answered
            else "none: ranked by gold passages alone",
        ),
        (
            "gold passages",
            f"{positives:.1f} a question"
            + (f", not in the corpus for {missing:,} questions" if missing else "")
            if named
            else "none: ranked by answers alone",
        ),
    ]
    if use == "train":
        rows.append(("AVQ", f"{found.avq:.2f} questions a passage that has one"))
    for number, question in enumerate(asked[:FIRST]):
        answer = f"  → {'; '.join(question.answers)}" if question.answers else ""
        shown = f"{_short(question.qid)}  {question.question}{answer}"
        rows.append(("" if number else "first", shown))
    return rows


def _short(id_: str) -> str:
    """An id that leaves room for what it is of."""
    return id_ if len(id_) <= ID_WIDTH else f"{id_[: ID_WIDTH - 1]}…"
