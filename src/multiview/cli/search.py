"""`multiview search`: which questions, which index, and printing what is found as it is found."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import islice
from pathlib import Path

from rich.console import Console

from multiview.errors import InputError

AT_ONCE = 64
"""Questions that are read, searched and printed together."""


def questions_of(question: str | None, file: Path | None) -> Iterator[list[str]]:
    """The question of the command line, or those of a file (`-`: standard input), some at a time.

    Blank lines are skipped. Raises InputError where there is no question, or a line is not UTF-8.
    """
    if (question is None) == (file is None):
        raise InputError('give one question, as in multiview search "who built it?", or --questions FILE')
    if file is None:
        if not (question or "").strip():
            raise InputError("the question is empty")
        return iter([[question or ""]])
    if str(file) != "-" and not file.is_file():
        raise InputError(f"--questions {file}: there is no such file")
    return _batches(file)


def _batches(file: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        lines = sys.stdin.buffer if str(file) == "-" else stack.enter_context(file.open("rb"))
        asked, size = _decoded(lines, file), 1 if lines.isatty() else AT_ONCE
        found = False
        while batch := list(islice(asked, size)):
            found = True
            yield batch
    if not found:
        raise InputError(f"--questions {file}: there is no question in it")


def _decoded(lines: Iterable[bytes], file: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(f"--questions {file}, line {number}: not UTF-8; convert the file") from error
        if text:
            yield text


def ask(
    questions: Iterable[list[str]],
    address: str,
    k: int,
    *,
    explain: bool = False,
    json: bool = False,
    device: str = "auto",
    verify: bool = False,
) -> None:
    """Print the hits of each question to standard output, and what answered to standard error."""
    from multiview.cli.hits import as_json, print_hits
    from multiview.serving import retriever

    console, aside = Console(highlight=False), Console(stderr=True, highlight=False, soft_wrap=True)
    started = time.perf_counter()
    with aside.status("loading PyTorch, the index and its model"):
        import_module("multiview.encoding.encode")  # what takes longest, and is loaded for any index
        imported = time.perf_counter()
        loaded = retriever.load(address, device=device, verify=verify)
    imports, ready = imported - started, time.perf_counter() - imported
    asked, spent = 0, 0.0
    for batch in questions:
        started = time.perf_counter()
        found = loaded.search(batch, k, explain=explain)
        spent += time.perf_counter() - started
        for question, hits in zip(batch, found, strict=True):
            if json:
                print(as_json(question, hits, loaded.exact), flush=True)
            else:
                if asked:
                    console.print()
                print_hits(console, question, hits)
            asked += 1
    if not json:
        kind = "" if loaded.exact else f"approximate index ({loaded.index.header['kind']}), "
        about = f"{loaded.architecture}, {kind}{len(loaded):,} passages; imports {imports:.1f} s, loaded in {ready:.1f} s"
        aside.print(f"{address}: {about}, {spent / asked:.3f} s a question", style="dim", markup=False)
