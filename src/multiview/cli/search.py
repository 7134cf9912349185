"""`multiview search`: reads the questions, and prints the answers to each as they are found."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from multiview.data.processes import rare_collections
from multiview.data.reading.values import has_half, is_blank
from multiview.errors import InputError, counted
from multiview.terminal import Console

if TYPE_CHECKING:
    from multiview.serving.hits import Hit
    from multiview.serving.retriever import Retriever

BATCH_SIZE = 64
"""Questions per batch: read, searched and printed together."""


def read_questions(question: str | None, file: Path | None) -> Iterator[list[str]]:
    """Returns the question of the command line, or the questions of a file (`-`: standard input), in batches.

    Blank lines are skipped. Raises InputError where there is no question, or a line is not UTF-8.
    """
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
    if str(file) != "-" and not file.is_file():
        said = "it is no file" if file.exists() else "there is no such file"
        raise InputError(f"--questions {file}: {said}; name one with a question per line")
    return _batches(file)


def _batches(file: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        lines = sys.stdin.buffer if str(file) == "-" else stack.enter_context(file.open("rb"))
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
        if text:
            yield text


def print_answers(
    batches: Iterable[list[str]],
    address: str,
    k: int,
    *,
    explain: bool = False,
    where: str | None = None,
    json: bool = False,
    device: str = "auto",
    verify: bool = False,
) -> None:
    """Print the hits of each question to standard output.

    Unless they are JSON, a line about the index and the times goes to standard error.
    """
    console, log = Console(highlight=False), Console(stderr=True, highlight=False, soft_wrap=True)
    with rare_collections():
        retriever, loading = _load(address, device, verify, log)
    count, seconds = 0, 0.0
    for questions in batches:
        started = time.perf_counter()
        answers = retriever.search(questions, k, explain=explain, where=where)
        seconds += time.perf_counter() - started
        for question, hits in zip(questions, answers, strict=True):
            exact = retriever.exact or where is not None
            _print_answer(console, question, hits, json, exact, first=count == 0)
            count += 1
    if not json:
        line = f"{address}: {_summary(retriever)}; {loading}, {seconds / count:.3f} s per question"
        log.print(line, style="dim", markup=False)


def _load(address: str, device: str, verify: bool, log: Console) -> tuple[Retriever, str]:
    """Returns the retriever of an index, and the seconds that importing and loading took."""
    from multiview.serving import retriever

    started = time.perf_counter()
    with log.status("loading PyTorch, the index and its model"):
        retriever.check_index(address)  # before what takes seconds to import
        import_module("multiview.encoding.encode")  # what takes longest, and is loaded for any index
        imported = time.perf_counter()
        loaded = retriever.load(address, device=device, verify=verify)
    return loaded, f"imports {imported - started:.1f} s, loaded in {time.perf_counter() - imported:.1f} s"


def _print_answer(
    console: Console, question: str, hits: Sequence[Hit], json: bool, exact: bool, first: bool
) -> None:
    from multiview.cli.hits import print_hits
    from multiview.serving.hits import answer_fields, as_json

    if json:
        print(as_json(answer_fields(question, hits, exact)), flush=True)
        return
    if not first:
        console.print()
    print_hits(console, question, hits)


def _summary(retriever: Retriever) -> str:
    """`camvr, approximate index (compact), 310 passages`."""
    kind = "" if retriever.exact else f"approximate index ({retriever.index.header['kind']}), "
    return f"{retriever.architecture}, {kind}{counted(len(retriever), 'passage')}"
