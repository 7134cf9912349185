"""The times of contestants that run in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Milliseconds = list[float]


def in_turns(
    contestants: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float]
) -> dict[str, Milliseconds]:
    """The times of each contestant, which run in turns, after one round that is not counted."""
    times: dict[str, Milliseconds] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            begun = clock()
            run()
            if turn:
                times[name].append(1000 * (clock() - begun))
    return times
