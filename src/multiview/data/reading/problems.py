"""What is wrong with the data: refused at once, or counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from multiview.errors import InputError


class Tell(Protocol):
    """Is told of every problem: its kind, in the plural, and a line that names the place and the way out."""

    def __call__(self, kind: str, line: str) -> None: ...


def refuse(kind: str, line: str) -> None:
    """Raises InputError at the first problem."""
    raise InputError(line)


def pass_over(kind: str, line: str) -> None:
    """Says nothing: for remarks that nobody asked for."""


@dataclass
class Problems:
    """Counts the problems of each kind and keeps the first one's line."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def __call__(self, kind: str, line: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.first.setdefault(kind, line)
