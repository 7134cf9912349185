"""Further processes of a step, for work that Python does on one core."""

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
"""Processes at most: the one that reads and writes keeps no more of them busy with sentences."""

NEW_CONTAINERS = 1_000_000
"""New lists, tuples and dicts after which Python looks for cycles among them; its default is some hundreds."""


@contextmanager
def further_processes() -> Iterator[Executor | None]:
    """Starts a process for each of `processors`, `MOST_PROCESSES` at most; None for one processor, and outside Linux, where a
    process with threads does not survive a fork. To be entered before large data are read: forks copy what changes.
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
    """Yields the processor to the process that started this one, leaves Ctrl-C to it, and ends with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)  # the starter's work is what all wait for
    starter = multiprocessing.parent_process()

    def wait() -> None:
        if starter is not None:
            starter.join()
        os._exit(70)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Lets Python look for cycles rarely: with many small objects, as of rows, it takes up to a third of `split`'s time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(NEW_CONTAINERS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
