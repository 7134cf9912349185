"""The times of contestants that run in turns."""

from __future__ import annotations

import math
import os
import time
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
    limit: float = math.inf,
) -> dict[str, Milliseconds]:
    """The times of each contestant; they run in turns, after `uncounted` rounds to warm up.

    No round begins after `limit` seconds; if there were only warm-up rounds, the last one counts.
    """
    rounds: list[dict[str, float]] = []
    begun = time.monotonic()
    for turn in range(uncounted + repeats):
        if turn and time.monotonic() - begun > limit:
            break
        rounds.append({name: _milliseconds(run, clock) for name, run in contestants.items()})
    counted = rounds[uncounted:] or rounds[-1:]
    return {name: [times[name] for times in counted] for name in contestants}


def _milliseconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    begun = clock()
    run()
    return 1000 * (clock() - begun)


@contextmanager
def chosen_cores(count: int) -> Iterator[None]:
    """Makes steps use this many cores, in threads or in processes."""
    with mock.patch.dict(os.environ, {environment.OMP_NUM_THREADS: str(count)}):
        yield
