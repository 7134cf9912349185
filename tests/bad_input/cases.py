"""What a case of bad input is, and what a program answered to it."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import typer

from multiview.cli import app as multiview_program
from multiview.cli.app import run_app
from pipelines import __main__ as pipelines_program

PROGRAMS: Mapping[str, typer.Typer] = {"multiview": multiview_program.app, "pipelines": pipelines_program.app}


@dataclass(frozen=True)
class Command:
    """A command line that is refused: with one line, status 2, and nothing written."""

    line: str
    """The program and its words, as a shell reads them."""
    says: tuple[str, ...]
    """Parts of the one line: the file, row or setting, and the way out."""
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    """Files of the current folder; None: a folder."""


def line(text: str, *says: str, **files: str | bytes | None) -> Command:
    """A command line beside small files, whose names are written with _ for the dot."""
    return Command(text, says, {name.replace("_", "."): content for name, content in files.items()})


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: object
    printed: str
    errors: str

    def complaints(self) -> list[str]:
        """The lines that say what is wrong: on standard error, or after the problems that `inspect` lists."""
        lines = self.errors.splitlines()
        if lines or "Problems" not in self.printed:
            return lines
        problems = self.printed.partition("\nProblems\n")[2] or self.printed.partition("Problems\n")[2]
        return [line.strip() for line in problems.partition("\n\n")[0].splitlines() if line[:4] == "    "]


def run(line: str) -> Ended:
    """Runs a command line in this process."""
    program, *words = shlex.split(line)
    printed, errors, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = [program, *words]
    try:
        with redirect_stdout(printed), redirect_stderr(errors):
            run_app(PROGRAMS[program])
    except SystemExit as ended:
        return Ended(ended.code, printed.getvalue(), errors.getvalue())
    finally:
        sys.argv = before


def write(folder: Path, files: Mapping[str, str | bytes | None]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(parents=True)
        else:
            path.write_bytes(
                content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
            )


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below a folder, with its size and the time of its last change."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() or not any(path.iterdir())
    }
