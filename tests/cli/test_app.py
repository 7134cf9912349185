"""The command lines: their options, and what they do with standard output: its width, and where nobody takes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from multiview import environment
from multiview.cli import app as multiview
from pipelines import __main__ as pipelines
from tests.fixtures.forked import MULTIVIEW, run_forked

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
def test_every_option_and_argument_says_what_it_is(command: str) -> None:
    """An unforeseen error ends in `--debug shows more`, so every command takes that."""
    assert "--debug" in ALL[command]
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


@pytest.mark.parametrize("words", [["config", "gate"], ["search", "--help"], ["config", "nosuch"]])
def test_no_columns_are_eighty(words: list[str]) -> None:
    """As for a width that is no number."""
    none, eighty, word = (
        run_forked(MULTIVIEW, *words, environment={**os.environ, environment.COLUMNS: columns})
        for columns in ("0", "80", "abc")
    )
    assert none == eighty == word and any(none[1:])


UNREAD = "import os; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
FULL = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n"
BUFFERED = "import sys; sys.stdout = open(1, 'w', closefd=False)\n"
UNBUFFERED = "import io, sys; sys.stdout = io.TextIOWrapper(open(1, 'wb', 0), write_through=True)\n"
"""As Python makes it, and as PYTHONUNBUFFERED does."""
WRITTEN = {
    "by Rich": ["config"],
    "by print": ["plan", "--passages", "21e6", "--model", "bert-base"],
    "help": ["search", "--help"],
}


@pytest.mark.parametrize("opened", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", WRITTEN.values(), ids=WRITTEN)
def test_output_that_nobody_takes_ends_a_command_without_a_line_and_a_full_disk_with_one(
    words: list[str], opened: str
) -> None:
    assert run_forked(UNREAD + opened + MULTIVIEW, *words) == (128 + signal.SIGPIPE, "", "")
    if Path("/dev/full").exists():
        line = "error: No space left on device; make room on the disk, and the same command goes on\n"
        assert run_forked(FULL + opened + MULTIVIEW, *words) == (1, "", line)


def test_an_error_keeps_its_line_and_status_where_nobody_reads() -> None:
    ended = run_forked(UNREAD + BUFFERED + MULTIVIEW, "config", "nosuch")
    assert ended.status == 2 and ended.errors.startswith("error: there is no setting nosuch")


def test_a_command_without_standard_output_runs() -> None:
    closed = "import os, sys; os.close(1); sys.stdout = None\n"
    assert run_forked(closed + MULTIVIEW, "config", "gate") == (0, "", "")


def test_a_user_whom_the_system_does_not_know_has_a_home() -> None:
    """As a container's whose user is a mere number. MLflow and NLTK look for one."""
    nobody = "import os, pathlib, pwd, typer; os.environ.pop('HOME')\ndef unknown(_): raise KeyError\n"
    nobody += "pwd.getpwuid = unknown\napp = typer.Typer()\n@app.command()\ndef home(): print(pathlib.Path.home())\n"
    ended = run_forked(f"{nobody}from multiview.cli.app import run_app\nrun_app(app)")
    assert ended == (0, f"{tempfile.gettempdir()}\n", "")


IMPORTING = """
import sys
def imported(*names):
    return {*names} & sys.modules.keys()
def ended(*words):
    sys.argv = ["multiview", *words]
    try: main()
    except SystemExit as ended: return ended.code

import multiview.data.split, multiview.data.answers, multiview.model.layouts.snippets
assert not imported("torch", "transformers", "mlflow", "nltk", "faiss"), "by the step `split`"
import numpy
from multiview.data.arrays import int64_array, numbers
assert numbers(int64_array(numpy.arange(3))).tolist() == [0, 1, 2]
assert not imported("pandas"), "by numbers"
from multiview.cli.app import main
assert ended("inspect", "p.jsonl", "--set", "corpus.shards=1") == 0
assert not imported("torch", "transformers", "mlflow", "kfp"), "by an inspection"
assert ended("search", "a", "--index", "s/index/k") == 2
assert not imported("torch"), "before a missing index is named"
import multiview.serving.retriever
assert not imported("onnx", "onnxscript", "sentence_transformers", "multiview.export"), "by a search"
"""


def test_commands_import_only_what_they_need_and_a_locale_without_letters_prints_escapes(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "\u00e9", "text": "\u6771\u4eac"}\n', encoding="utf-8")
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", IMPORTING]
    shown = subprocess.check_output(command, cwd=tmp_path, env=environ)
    assert b"\\xe9  \\u6771" in shown
