"""Work that goes on beside a step or a run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeated(
    work: Callable[[], object], pause: float, first: float | None = None, patience: float | None = None
) -> Iterator[None]:
    """Does `work` again and again in a thread while the block runs, with a `pause` in seconds before each time, or `first`
    before the first one. Where it fails, the next time comes all the same.

    The end of the block waits for work that is under way, `patience` seconds at most.
    """
    ended = threading.Event()

    def work_on() -> None:
        wait = pause if first is None else first
        while not ended.wait(wait):
            with contextlib.suppress(Exception):
                work()
            wait = pause

    thread = threading.Thread(target=work_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(patience)
