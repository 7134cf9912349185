"""The times of contestants that run in turns, and rows of the tables that benchmarks print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

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


def row(name: str, times: Mapping[str, Milliseconds], questions: int = 1) -> str:
    """A row of the table: min, median and max of each contestant per question; ratios of ours to each other's median."""
    ours, *others = (np.asarray(each) / questions for each in times.values())
    cells = [" / ".join(f"{value:.2f}" for value in spread(each)) for each in (ours, *others)]
    ratios = [f"{np.median(ours) / np.median(each):.2f}" for each in others]
    return "| " + " | ".join([name, *cells, *ratios]) + " |"


def spread(times: np.ndarray) -> tuple[float, float, float]:
    return float(times.min()), float(np.median(times)), float(times.max())


def header(first: str, names: list[str]) -> str:
    """The header of a table whose contestants are `names`, ours first."""
    cells = [first, *names, *(f"ratio to {name}" for name in names[1:])]
    return "| " + " | ".join(cells) + " |\n|" + "---|" * len(cells)
