"""`multiview serve`: loads an index, and runs the server. It imports what it needs when it runs."""

import contextlib
import copy
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from multiview import environment, names
from multiview.artifacts.scratch import remove_scratch
from multiview.cli.options import Debug, Device, StoreUrl, TrackingUri, Views, options_of, with_options
from multiview.errors import InputError
from multiview.serving.limits import POLL_SECONDS, Limits


@contextlib.contextmanager
def _ended_at_once() -> Iterator[None]:
    """Lets SIGTERM end the process by `_end`: while it loads, and when uvicorn sends itself the signal again."""
    handler_before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler_before)


def _end(*_: object) -> NoReturn:
    """Removes local copies and ends; waits for no thread, which may be loading the next champion for minutes."""
    remove_scratch()
    os._exit(0)


@with_options("limits", options_of(Limits, "Limits"), Limits.model_validate)
@_ended_at_once()
def serve(
    index: Annotated[
        str | None,
        typer.Option(
            envvar=environment.INDEX,
            help="An index's address, models:/NAME@ALIAS or a run's id, which is served as long as the server runs. Default: "
            "the store's champion, and each next one.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0: all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen at; 0: any free one.")
    ] = 8080,
    poll: Annotated[
        float,
        typer.Option(min=0.1, max=86400, help="Seconds between two looks at which champion the store names."),
    ] = POLL_SECONDS,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            help=f"File with one API key per line; default: the keys in {environment.API_KEYS}, and without any, everybody may ask."
        ),
    ] = None,
    question_log: Annotated[
        Path | None,
        typer.Option(
            help="File to which questions are appended with the ids and scores of their hits; default: none."
        ),
    ] = None,
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp", help="Also answer agents at /mcp, by the Model Context Protocol (docs/serving.md)."
        ),
    ] = False,
    views: Views = None,
    device: Device = "auto",
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
    *,
    limits: Limits,
) -> None:
    """Answer questions over HTTP from the store's champion, and from each next one once it is loaded and verified."""
    import uvicorn

    from multiview.cli.lookup import Lookup
    from multiview.export.files import check_installed
    from multiview.serving.app import build_app
    from multiview.serving.follow import Follower, Generation, Generations
    from multiview.serving.keys import read_keys
    from multiview.serving.named_indexes import NamedIndexes
    from multiview.serving.question_log import QuestionLog
    from multiview.serving.retriever import load
    from multiview.serving.search_service import Serving

    if mcp:
        check_installed("mcp", "mcp")
    keys, log = read_keys(api_keys), QuestionLog(question_log) if question_log else None
    how: dict[str, Any] = {"device": device, "views": views}
    lookup, follower = Lookup(store, tracking_uri), None
    if index in (None, names.CHAMPION):
        follower = Follower(lookup.store, **how)
        generations = follower.generations
    else:
        generations = Generations(Generation(load(lookup.index(index), verify=True, **how)))
    named = None
    if limits.max_others:
        named = NamedIndexes(generations, lookup.store, lookup.index, limits.max_others, **how)
    check_address(host, port)
    uvicorn.run(
        build_app(Serving(generations, follower, named, limits, keys, log, poll, mcp)),
        host=host,
        port=port,
        access_log=False,  # it would hold paths and query strings
        ws="none",  # their requests would be logged with paths and query strings
        log_config=log_config(),
        server_header=False,
        timeout_graceful_shutdown=round(limits.timeout) + 1,
    )


def check_address(host: str, port: int) -> None:
    """Raises InputError if no server can listen at `host` and `port`."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address, family=family).close()
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror}; name another") from None
    except UnicodeError:
        raise InputError(f"--host {host}: no name or address of a machine") from None


def log_config() -> dict[str, Any]:
    """Returns uvicorn's logging configuration, extended to multiview's own lines."""
    from uvicorn.config import LOGGING_CONFIG

    config = copy.deepcopy(LOGGING_CONFIG)
    config["loggers"]["multiview"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config
