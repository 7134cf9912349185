"""One `multiview gc --delete` at a time per store.

A collection writes a file, and then looks for those of others: of two that begin together at least one sees the other and
ends. Without that, one could remove what the other has just put back for a run.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from multiview import names
from multiview.artifacts.store import Store
from multiview.errors import InputError

DEAD_SECONDS = 43_200.0
"""Seconds after which a collection that says nothing is taken for dead: half a day, so that tomorrow's does the work."""
ALIVE_SECONDS = 600.0
"""Seconds between two times that a collection says that it is alive."""


@contextmanager
def only_collection(store: Store) -> Iterator[Callable[[], None]]:
    """Keeps other collections away from a store; yields a function to call before each change of it.

    That function says that this collection is alive. Both raise InputError where another collection is at work: the
    function, after this one was silent for half a day and was taken for dead.
    """
    file, said = f"{names.COLLECTIONS}/{uuid.uuid4().hex}.json", time.time()
    begun = json.dumps(
        {"host": socket.gethostname(), "begun": datetime.now(UTC).isoformat(timespec="seconds")}
    )

    def say_alive() -> None:
        nonlocal said
        if time.time() - said < ALIVE_SECONDS:
            return
        if store.read(file) is None:
            raise InputError(
                f"store {store.url}: this collection was silent for long and taken for dead; run it again"
            )
        store.replace(file, begun.encode())
        said = time.time()

    store.replace(file, begun.encode())
    try:
        _check_alone(store, file)
        yield say_alive
    finally:
        with suppress(OSError):  # where no file can be removed, what was to be collected says so
            store.remove(file)


def _check_alone(store: Store, own: str) -> None:
    """Removes the files of dead collections. Raises InputError where another one is at work."""
    for other in store.entries(names.COLLECTIONS):
        if other.path == own:
            continue
        if other.modified < time.time() - DEAD_SECONDS:
            store.remove(other.path)
            continue
        since = datetime.fromtimestamp(other.modified, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise InputError(
            f"store {store.url}: another multiview gc --delete is at work, last heard of at {since}; run this one when it "
            f"has ended, or, if it was killed, remove {store.url}/{other.path} first"
        )
