"""The program `multiview`: its commands and its exit statuses."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from multiview.cli import commands
from multiview.errors import InputError, StepFailed, one_line
from multiview.terminal import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Multi-view retrieval: search, trace and look after a store without running a pipeline.",
)
for command in commands.COMMANDS:
    app.command()(command)


def main() -> NoReturn:
    """Run `multiview`."""
    run_app(app)


def run_app(app: typer.Typer) -> NoReturn:
    """Run a command line and exit: with one line and status 2 for bad input, 1 for a step that failed."""
    try:
        app()
    except InputError as error:
        _print_error(str(error))
        sys.exit(2)
    except StepFailed as error:
        _print_error(str(error))
        sys.exit(2 if error.bad_input else 1)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        _print_error(f"{one_line(error)}; --debug shows more")
        sys.exit(1)
    sys.exit(0)


def _print_error(line: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {line}", markup=False, style="red")
