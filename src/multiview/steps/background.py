"""Work that goes on beside a step or a run."""

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeated(
    work: Callable[[], object], pause: float, first: float | None = None, patience: float | None = None
) -> Iterator[None]:
    """Calls `work` repeatedly in a thread while the block runs, waiting `pause` seconds before each (`first` before
    the first). A call that raises does not stop the next one.

    At its end the block waits for a call that is under way, at most `patience` seconds.
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
