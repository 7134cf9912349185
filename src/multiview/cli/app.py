"""The program `multiview`: its commands and its exit statuses."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, NoReturn

import typer
import typer.exceptions

from multiview import environment
from multiview.cli import commands, export
from multiview.errors import InputError, StepFailed, fault, one_line
from multiview.terminal import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Multi-view retrieval: search, trace and look after a store without running a pipeline.",
)
for command in commands.COMMANDS:
    app.command()(command)
app.add_typer(export.app, name="export")


def main() -> NoReturn:
    """Run `multiview`."""
    run_app(app)


def run_app(app: typer.Typer) -> NoReturn:
    """Run a command line and exit: with one line and status 2 for bad input, 1 for a step that failed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale that is not UTF-8 has no letters for most texts
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get(environment.COLUMNS) == "0":  # the help's own console would have no columns
        del os.environ[environment.COLUMNS]
    try:
        status = app(standalone_mode=False)
    except typer.exceptions.TyperException as error:
        _refuse(error)
    except InputError as error:
        _print_error(str(error))
        sys.exit(2)
    except StepFailed as error:
        _print_error(str(error))
        sys.exit(2 if error.bad_input else 1)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        known = fault(error) is not None
        _print_error(one_line(error) if known else f"{one_line(error)}; --debug shows more")
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _refuse(error: Any) -> NoReturn:
    """Exit with one line about the words of a command line; with the help of a command that was given none."""
    message = " ".join(error.format_message().split())
    if message and type(error).__name__ != "NoArgsIsHelpError":
        context = error.ctx
        message = message[:1].lower() + message[1:].removesuffix(".")
        _print_error(f"{message} (see {context.command_path} --help)" if context else message)
    sys.exit(error.exit_code)


def _print_error(line: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {line}", markup=False, style="red")
