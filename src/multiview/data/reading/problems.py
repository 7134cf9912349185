"""Handling of problems in the data: raised at the first one, or counted by kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from multiview.errors import InputError, shortened


class ReportProblem(Protocol):
    """Callback for each problem: its kind, in the plural, and one line that names the location and the way out."""

    def __call__(self, kind: str, line: str) -> None: ...


def raise_problem(kind: str, line: str) -> None:
    """Raises InputError at the first problem."""
    raise InputError(line)


def ignore_problem(kind: str, line: str) -> None:
    """Does nothing: the default for remarks that the caller does not collect."""


@dataclass
class Problems:
    """Counts the problems of each kind and keeps the line of the first one."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def __call__(self, kind: str, line: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.first.setdefault(kind, shortened(line))
