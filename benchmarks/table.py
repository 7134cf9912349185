"""The one table of all benchmarks: each row has contestants, and a goal.

A benchmark is a module with `rows(size)`, which yields a `Row` per line of the table, and a `main` of its own with
more options. `python -m benchmarks` runs them all; `benchmarks.gpu` is for GPUs.
"""

from __future__ import annotations

import importlib
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from multiview import environment

Size = Literal["quick", "whole"]
"""`quick`: all benchmarks fit in five minutes on two cores; `whole`: in thirty."""

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process sees."""

HEADER = ("work", "ours", "peer", "bound", "times as fast as the peer", "of the bound's speed", "goal")


class NotRun(Exception):
    """A benchmark that cannot run here, with the reason; `rows` raises it before its first row."""


@dataclass(frozen=True)
class Contestant:
    """The repeats of one contestant, in the row's unit; if there are none, the reason why it was not run."""

    values: tuple[float, ...] = ()
    name: str = ""
    not_run: str = ""

    @classmethod
    def of(cls, times: Iterable[float], name: str = "", per: float = 1) -> Self:
        """A contestant whose repeats took `times`, each divided by `per`, such as the number of questions."""
        return cls(tuple(time / per for time in times), name)

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    def cell(self) -> str:
        """Min, median and max over the repeats, and the name if there is one."""
        if self.values:
            spread = (min(self.values), statistics.median(self.values), max(self.values))
            words = " / ".join(map(number, spread)) if len(self.values) > 1 else number(spread[1])
        else:
            words = f"not run: {self.not_run}"
        return f"{words} ({self.name})" if self.name else words


@dataclass(frozen=True)
class Goal:
    """Ratios of medians that a row should reach; less of the row's unit is better."""

    times_peer: float | None = None
    """At least this many times as fast as the peer, or as small."""
    of_bound: float | None = None
    """At least this share of the bound's speed, from 0 to 1."""
    most: float | None = None
    """At most this, in the row's unit."""

    def cell(self, row: Row) -> str:
        """The goal in words, and whether the row reaches it."""
        parts = {
            f"≥ {number(self.times_peer or 0)} × peer": (self.times_peer, row.times_peer, 1),
            f"≥ {self.of_bound or 0:.0%} of the bound": (self.of_bound, row.of_bound, 1),
            f"≤ {number(self.most or 0)} {row.unit}": (self.most, row.ours.median, -1),
        }
        wanted = {words: part for words, part in parts.items() if part[0] is not None}
        if not wanted:
            return ""
        known = [sign * (found - goal) >= 0 for goal, found, sign in wanted.values() if goal and found]
        verdict = "missed" if not all(known) else "reached" if len(known) == len(wanted) else "not measured"
        return f"{', '.join(wanted)}: {verdict}"


@dataclass(frozen=True)
class Row:
    """A row of the table: what was measured, in a unit where less is better."""

    work: str
    unit: str
    """s, ms or MB."""
    ours: Contestant
    peer: Contestant | None = None
    bound: Contestant | None = None
    goal: Goal = Goal()

    @property
    def times_peer(self) -> float | None:
        """How many times as fast as the peer, by medians."""
        return _ratio(self.peer, self.ours)

    @property
    def of_bound(self) -> float | None:
        """The share of the bound's speed that is reached, by medians."""
        return _ratio(self.bound, self.ours)

    def cells(self) -> list[str]:
        """The cells under `HEADER`."""
        times_peer, of_bound = self.times_peer, self.of_bound
        return [
            f"{self.work}, {self.unit}" if self.unit else self.work,
            self.ours.cell(),
            self.peer.cell() if self.peer else "",
            self.bound.cell() if self.bound else "",
            number(times_peer) if times_peer else "",
            f"{of_bound:.0%}" if of_bound else "",
            self.goal.cell(self),
        ]


def of_times(
    work: str,
    unit: str,
    times: Mapping[str, Sequence[float]],
    *,
    ours: str,
    peer: str | None = None,
    bound: str | None = None,
    not_run: str = "",
    per: float = 1,
    goal: Goal = Goal(),
) -> Row:
    """The row of the contestants of `timing.in_turns`, by their names in `times`.

    A peer or bound that is not among them was not run, for the reason `not_run`. `per` divides all times.
    """

    def contestant(name: str) -> Contestant:
        return (
            Contestant.of(times.get(name, ()), name, per) if name in times else Contestant((), name, not_run)
        )

    return Row(
        work,
        unit,
        Contestant.of(times[ours], per=per),
        contestant(peer) if peer else None,
        contestant(bound) if bound else None,
        goal,
    )


def prepare() -> None:
    """Prepares a process that has not loaded torch: for one thread, and with no GPU visible."""
    os.environ[environment.OMP_NUM_THREADS] = "1"
    os.environ[VISIBLE_GPUS] = ""


def rows_of(name: str, size: Size) -> list[Row]:
    """The rows of a benchmark, or one row with the reason why there are none."""
    try:
        return list(importlib.import_module(f"benchmarks.{name}").rows(size))
    except (NotRun, ImportError) as error:
        return [Row(name, "", Contestant(not_run=str(error)))]
    except Exception as error:
        # Errors with further arguments break the pool that returns them.
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def squad_folder() -> Path:
    """The folder `squad` in MULTIVIEW_DATA, else in `data`. Raises NotRun if it is not there."""
    folder = Path(os.environ.get(environment.DATA, "data")) / "squad"
    if not (folder / "passages.parquet").is_file():
        raise NotRun(f"no SQuAD in {folder}: set {environment.DATA}")
    return folder


def markdown(rows: Iterable[Row]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield _line(HEADER)
    yield "|" + "---|" * len(HEADER)
    yield from lines(rows)


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yields the lines of a table below its header."""
    return (_line(row.cells()) for row in rows)


def number(value: float) -> str:
    """A value with three significant figures, or all its digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _ratio(other: Contestant | None, ours: Contestant) -> float | None:
    if other is None or other.median is None or not ours.median:
        return None
    return other.median / ours.median


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
