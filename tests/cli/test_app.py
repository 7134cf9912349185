"""The command lines: their options."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer

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
