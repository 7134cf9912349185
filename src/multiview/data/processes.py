"""Worker processes within a step, for work that Python would do on a single core."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from multiview.steps.processors import processors

MOST_PROCESSES = 8
"""Most worker processes: the process that reads and writes cannot keep more of them busy splitting sentences."""

NEW_CONTAINERS = 1_000_000
"""Number of new lists, tuples and dicts after which the garbage collector runs; Python's default is several hundred."""


@contextmanager
def further_processes() -> Iterator[Executor | None]:
    """Starts a worker process for each of `processors`, `MOST_PROCESSES` at most, and yields their pool.

    Yields None for a single processor, and outside Linux, where a process with threads does not survive a fork. Enter
    it before reading large data, because forks copy the memory that changes.
    """
    count = min(processors(), MOST_PROCESSES)
    if count < 2 or sys.platform != "linux":
        yield None
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, context, initializer=_follow_starter) as pool:
        pool.submit(os.getpid).result()  # the first task starts them all
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _follow_starter() -> None:
    """Gives way to the process that started this one, leaves Ctrl-C to it, and ends with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)  # everything waits for the starter's work
    starter = multiprocessing.parent_process()

    def wait() -> None:
        if starter is not None:
            starter.join()
        os._exit(70)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes garbage collection rare: with many small objects, as in rows, it takes up to a third of `split`'s time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(NEW_CONTAINERS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
