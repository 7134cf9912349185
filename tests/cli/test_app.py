"""The command lines: their options, and what they do with standard output: its width, and where nobody takes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from multiview import environment
from multiview.cli import app as multiview
from pipelines import __main__ as pipelines

PROGRAMS = {"multiview": multiview.app, "python -m pipelines": pipelines.app}


def commands(app: typer.Typer, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every command of a program, with the help of its options by their flags."""
    waiting = [(name, typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", {})
        waiting += [(f"{path} {name}", command) for name, command in inner.items()]
        if not inner:
            yield (
                path,
                {parameter.opts[0]: getattr(parameter, "help", None) or "" for parameter in command.params},
            )


ALL = dict(entry for name, app in PROGRAMS.items() for entry in commands(app, name))


@pytest.mark.parametrize("command", ALL)
def test_every_command_takes_the_flag_that_its_error_line_names(command: str) -> None:
    """An unforeseen error ends in `--debug shows more`."""
    assert "--debug" in ALL[command]


@pytest.mark.parametrize("command", ALL)
def test_every_option_and_argument_says_what_it_is(command: str) -> None:
    assert all(about.endswith(".") for about in ALL[command].values()), ALL[command]


def test_an_option_of_several_commands_is_one() -> None:
    helps: dict[str, set[str]] = {}
    for options in ALL.values():
        for flag, about in options.items():
            helps.setdefault(flag, set()).add(about)
    several = {flag for flag, texts in helps.items() if flag.startswith("--") and len(texts) > 1}
    # What these do differs between commands: `plan` has rates from a run, a number of training questions and a base model; a
    # server listens at a host, and what it serves without an index is the champion alone; `compile` writes into folders that
    # are there; Qdrant has aliases too.
    named = {"--verify", "--json", "--name", "--store", "--from", "--index", "--host"}
    assert several <= named | {"--alias", "--model", "--out"}, several


def ended(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`multiview` with these words, in a process of its own, to its end."""
    command = [sys.executable, "-c", "from multiview.cli.app import main; main()", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300, **options)


@pytest.mark.parametrize("words", [["config", "gate"], ["search", "--help"], ["config", "nosuch"]])
def test_no_columns_are_eighty(words: list[str]) -> None:
    """As for a width that is no number."""

    def shown(columns: str) -> tuple[str, str]:
        environ = {**os.environ, environment.COLUMNS: columns}
        done = ended(*words, stdout=subprocess.PIPE, env=environ)
        return done.stdout, done.stderr

    assert shown("0") == shown("80") == shown("abc") != ("", "")


FULL = Path("/dev/full")
WRITTEN = {
    "by Rich": ["config"],
    "by print": ["plan", "--passages", "21e6", "--model", "bert-base"],
    "help": ["search", "--help"],
}
buffered = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@buffered
@pytest.mark.parametrize("words", WRITTEN.values(), ids=WRITTEN)
def test_a_pipe_that_nobody_reads_ends_a_command_without_a_line(words: list[str], unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = ended(*words, stdout=write, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_an_error_keeps_its_line_and_status_where_nobody_reads() -> None:
    read, write = os.pipe()
    os.close(read)
    done = ended("config", "nosuch", stdout=write)
    os.close(write)
    assert done.returncode == 2 and done.stderr.startswith("error: there is no setting nosuch")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@buffered
@pytest.mark.parametrize("words", WRITTEN.values(), ids=WRITTEN)
def test_a_full_disk_behind_standard_output_is_a_line(words: list[str], unbuffered: str) -> None:
    with FULL.open("wb") as full:
        done = ended(*words, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    line = "error: No space left on device; make room on the disk, and the same command goes on\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_a_command_without_standard_output_runs() -> None:
    done = ended("config", "gate", preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, "")
