"""The program `multiview`: its commands and its exit statuses."""

import io
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer
import typer.exceptions

from multiview import environment
from multiview.cli import commands, export
from multiview.cli.console import Console
from multiview.errors import InputError, StepFailed, fault, one_line
from multiview.steps.processors import follow_pod

UNREAD = 128 + signal.SIGPIPE
"""The exit status of a program that wrote to a pipe that nobody reads any more."""

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
    """Run a command line and exit: with one line and status 2 for bad input, or 1 for a failed step. If nobody reads
    standard output any more, as after `| head -1`, exit without a line and with the status of SIGPIPE."""
    follow_pod()
    try:
        Path.home()
    except RuntimeError:  # the system does not know the user, and libraries look for a home
        os.environ[environment.HOME] = tempfile.gettempdir()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale that is not UTF-8 cannot encode most texts
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get(environment.COLUMNS) == "0":  # the help's own console would have no columns
        del os.environ[environment.COLUMNS]
    output = sys.stdout or io.StringIO()  # kept, because Typer replaces it once its reader is gone
    try:
        status = _run(app, output)
    finally:
        _discard(output)
    sys.exit(status)


def _run(app: typer.Typer, output: TextIO) -> int:
    """Run a command line, print its error if it ends with one, and return the exit status."""
    try:
        status = app(standalone_mode=False)
        output.flush()
    except typer.exceptions.TyperException as error:
        return _refuse(error)
    except (InputError, StepFailed) as error:
        _print_error(str(error))
        return 2 if isinstance(error, InputError) or error.bad_input else 1
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # on which Typer and Rich exit with status 1
            raise
        return UNREAD
    except BrokenPipeError:
        return UNREAD
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        _print_error(
            one_line(error) if fault(error) is not None else f"{one_line(error)}; --debug shows more"
        )
        return 1
    return status if isinstance(status, int) else 0


def _discard(output: TextIO) -> None:
    """Discard what standard output still holds and cannot write; Python would fail on it again at exit."""
    try:
        output.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), output.fileno())


def _refuse(error: Any) -> int:
    """Print one line about a wrong command line, or nothing if it was empty; return the exit status."""
    message = " ".join(error.format_message().split())
    if message and type(error).__name__ != "NoArgsIsHelpError":
        context = error.ctx
        message = message[:1].lower() + message[1:].removesuffix(".")
        _print_error(f"{message} (see {context.command_path} --help)" if context else message)
    return error.exit_code


def _print_error(line: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"error: {line}", style="red")
