"""`multiview inspect`: a summary of the data that a run would read."""

import shlex
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from multiview.cli.console import Console
from multiview.cli.settings import written
from multiview.config.overrides import Presets, gather, validate
from multiview.data import inspection as data
from multiview.data.inspection import SENTENCE_SAMPLE, SHOWN_PASSAGES, Inspection
from multiview.data.questions import Question
from multiview.data.reading.formats import FORMATS
from multiview.data.reading.qrels import SETTING, Use
from multiview.data.reading.tables import Row
from multiview.errors import Problems, counted, safe, without_secrets

TITLES: dict[Use, str] = {"corpus": "Passages", "train": "Training questions", "dev": "Dev questions"}
ID_SHARE = 0.3
"""Largest share of a line that an id takes; the text after it needs the rest."""
SHOWN_CHARACTERS = 5000
"""Characters of a text that are considered for display: Rich takes minutes for a text of 50 MB."""
FILES = 3
"""Number of files that are named; the others are counted."""


def show_inspection(sources: Sequence[str], presets: Sequence[str], settings: Sequence[str]) -> Inspection:
    """Inspect and print the data that a run would read. Raises InputError for unreadable data, and without a source."""
    settings = [*settings, *source_settings(sources, presets, settings)]
    config = validate(gather(presets, settings))
    with Console(stderr=True).status("reading") as status:
        inspection = data.inspect(config, lambda number: status.update(f"{counted(number, 'passage')} read"))
    options = [word for preset in presets for word in ("--preset", preset)]
    options += [word for setting in settings for word in ("--set", setting)]
    print_inspection(Console(), inspection, options, config.questions.origin)
    return inspection


def source_settings(sources: Sequence[str], presets: Presets, settings: Sequence[str]) -> list[str]:
    """Returns settings that assign each source to its use, such as `corpus.source=passages.parquet`."""
    uses = data.sort_by_use(sources, validate(gather(presets, settings)))
    return [
        f"{SETTING[use]}={written(files[0] if len(files) == 1 else files)}"
        for use, files in uses.items()
        if files
    ]


def print_inspection(console: Console, inspection: Inspection, options: Sequence[str], origin: str) -> None:
    """Print all of an inspection, ending with the command that would run on these data, with its `options`; `origin` is
    where its questions come from."""
    if inspection.formats.get("corpus"):
        _print_heading(console, inspection, "corpus")
        _print_rows(console, _passages(inspection), [*map(_first_passage, inspection.first_passages)])
    for use, questions in inspection.questions.items():
        if inspection.formats[use]:
            _print_heading(console, inspection, use)
            first = [*map(_first_question, questions[:SHOWN_PASSAGES])]
            _print_rows(console, _questions(inspection, use, questions), first)
    _print_problems(console, "Problems", inspection.problems)
    if inspection.remarks.counts:
        _print_problems(console, "Remarks", inspection.remarks)
    if inspection.questions["train"] or (origin != "labelled" and inspection.passages):
        preset = [] if "--preset" in options else ["--preset", "snippet-means"]
        line = shlex.join(["python", "-m", "pipelines", "run", "comparison", *preset, *options])
        console.print(Text.assemble(("Run it:  ", "bold"), line), soft_wrap=True)
    else:
        line = f"To run it, name training questions: --set {SETTING['train']}=…, or have some made: --set questions.origin=crop"
        console.print(line, soft_wrap=True)


def _print_problems(console: Console, title: str, problems: Problems) -> None:
    console.print(Text(title, "bold"))
    if not problems.counts:
        console.print("  none")
    for kind, number in problems.counts.items():
        console.print(f"  {kind}: {number:,}{', the first:' if number > 1 else ''}")
        console.print(f"    {problems.first[kind]}", soft_wrap=True)
    console.print()


def _print_heading(console: Console, inspection: Inspection, use: Use) -> None:
    console.print(Text(TITLES[use], "bold"))
    files = inspection.formats[use]
    for file, name in list(files.items())[:FILES]:
        console.print(f"  {without_secrets(file)}: {FORMATS[name].about}", soft_wrap=True)
    if len(files) > FILES:
        console.print(f"  and {counted(len(files) - FILES, 'more file')}")


def _print_rows(console: Console, rows: list[tuple[str, str]], first: list[tuple[str, str]]) -> None:
    """Print rows of a name and a value, and the ids and texts of the `first` rows of data, a line each. They are made
    safe here: Rich counts no column for a control character, and would cut off what is shown in its place."""
    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(Text(f"  {name}", "dim"), Text(safe(value)))
    most = max(2, int(ID_SHARE * min(console.width, 80)))
    for number, (id_, text) in enumerate(first):
        id_ = id_ if len(id_) <= most else f"{id_[: most - 1]}…"
        shown = Text(safe(f"{id_}  {text}"), overflow="ellipsis", no_wrap=True)
        grid.add_row(Text("" if number else "  first", "dim"), shown)
    console.print(grid)
    console.print()


def _passages(inspection: Inspection) -> list[tuple[str, str]]:
    """Names and values of the rows about the passages."""
    number, words, sentences = inspection.passages, inspection.words, inspection.sentences
    titled = f", {inspection.titled:,} with a title" if inspection.titled else ""
    sampled = f" (of the first {SENTENCE_SAMPLE:,})" if number > SENTENCE_SAMPLE else ""
    long = f"{100 * sentences.above(8):.1f} % have more than 8{sampled}"
    rows = [
        ("passages", f"{number:,}{titled}"),
        ("words", f"mean {words.mean:.1f}, median {words.median:,}, longest {words.longest:,}"),
        ("sentences", f"mean {sentences.mean:.1f}, {long}"),
    ]
    if inspection.columns:
        rows.append(("more columns", ", ".join(inspection.columns)))
    return rows


def _first_passage(passage: Row) -> tuple[str, str]:
    """The id and the text of a passage."""
    title = f"{passage['title']}: " if passage["title"] else ""
    return passage["id"], f"{title}{' '.join(passage['text'][:SHOWN_CHARACTERS].split())}"


def _questions(inspection: Inspection, use: Use, questions: Sequence[Question]) -> list[tuple[str, str]]:
    """Names and values of the rows about the questions of a use."""
    answers = _mean([len(question.answers) for question in questions], "gold passages")
    if offsets := sum(question.answer_starts is not None for question in questions):
        answers += f", {offsets:,} with offsets"
    gold = _mean(inspection.gold_passages[use], "answers")
    if missing := inspection.missing_gold.get(use, 0):
        gold += f", not in the corpus for {counted(missing, 'question')}"
    rows = [("questions", f"{len(questions):,}"), ("answers", answers), ("gold passages", gold)]
    if use == "train" and inspection.trained:
        trained = len(inspection.trained)
        of = "" if trained == len(questions) else f", of the {trained:,} that a run trains on"
        rows.append(("AVQ", f"{inspection.avq:.2f} questions per passage that has one{of}"))
    if unread := inspection.unread.get(use):
        rows.append(("not read", ", ".join(unread)))
    return rows


def _first_question(question: Question) -> tuple[str, str]:
    """The id of a question, and its text with the answers."""
    answers = f"  → {'; '.join(question.answers)}" if question.answers else ""
    return question.qid, f"{question.question}{answers}"


def _mean(counts: list[int], instead: str) -> str:
    """Returns the mean count over the questions that have any; if none has, says that `instead` alone ranks them."""
    some = [count for count in counts if count]
    if not some:
        return f"none: ranked by {instead} alone"
    of = f" of the {len(some):,} that have any" if len(some) < len(counts) else ""
    return f"{sum(some) / len(some):.1f} per question{of}"
