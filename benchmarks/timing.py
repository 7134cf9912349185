"""The times of contestants that run in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from multiview import environment

Milliseconds = list[float]


def in_turns(
    contestants: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float],
    uncounted: int = 1,
) -> dict[str, Milliseconds]:
    """The times of each contestant, which run in turns, after `uncounted` rounds, which warm them up."""
    times: dict[str, Milliseconds] = {name: [] for name in contestants}
    for turn in range(uncounted + repeats):
        for name, run in contestants.items():
            begun = clock()
            run()
            if turn >= uncounted:
                times[name].append(1000 * (clock() - begun))
    return times


@contextmanager
def chosen_cores(count: int) -> Iterator[None]:
    """Has steps use so many cores, in threads or in processes."""
    with mock.patch.dict(os.environ, {environment.OMP_NUM_THREADS: str(count)}):
        yield
