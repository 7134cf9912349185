"""What the report shows, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Training:
    """The curves of one round, or of the warm-up."""

    name: str
    curves: dict[str, dict[int, float]]
    """Metric as training tells it (`loss`, `temperature`, `fallback_share`, `view_1_wins`, …) to training step
    to value."""

    @property
    def wins(self) -> list[dict[int, float]]:
        """Of each view the share of questions that it won, by step."""
        found = []
        while curve := self.curves.get(f"view_{len(found) + 1}_wins"):
            found.append(curve)
        return found


@dataclass(frozen=True)
class System:
    """A row of the comparison, and what is known of its model."""

    name: str
    place: int
    """From 0 in the comparison's order; its colour everywhere."""
    metrics: Mapping[str, float]
    architecture: str | None = None
    analyses: Mapping[str, float] = field(default_factory=dict)
    usage: Mapping[str, list[float]] = field(default_factory=dict)
    """`share_of_top_1` and `share_of_gold` to each view's share."""
    alone: Mapping[str, list[float]] = field(default_factory=dict)
    """Metric to what each view alone reaches."""
    attention: np.ndarray | None = None
    """Divergence between views i and j [views, views], nan where no sequence has both."""
    cosine: np.ndarray | None = None
    """The same of cosines."""
    views: Mapping[int, int] = field(default_factory=dict)
    """How many passages of the index have so many views."""
    trainings: list[Training] = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """One view of a passage that was found: its score, and the part of the text that it stands for."""

    number: int
    """From 1."""
    score: float
    start: int | None
    stop: int | None


@dataclass(frozen=True)
class Hit:
    """A passage that a system found for a question."""

    rank: int
    passage: str
    score: float
    answer: bool
    gold: bool
    view: int | None
    """The view that won, from 1."""
    views: tuple[View, ...]


@dataclass(frozen=True)
class Asked:
    """A question with what every system found for it."""

    qid: str
    question: str
    answers: tuple[str, ...]
    gold: tuple[str, ...]
    """Ids of its gold passages."""
    ranks: tuple[int | None, ...]
    """Of each system the rank of its first right passage."""
    hits: tuple[tuple[Hit, ...], ...]
    """Of each system, best first; empty where it found nothing or nothing was written down."""


@dataclass(frozen=True)
class Contents:
    """All of the page."""

    systems: list[System]
    baseline: str
    significance: Mapping[str, Any]
    """As the comparison wrote it."""
    passages: int
    questions: int
    asked: list[Asked]
    """Some of the questions."""
    texts: Mapping[str, tuple[str, str]]
    """Title and text of every passage that `asked` names, by id."""
    digest: str
    """The comparison's."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cost: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    won: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    """System to metric to a `SeedsFigure`, of a study with several seeds."""

    @property
    def base(self) -> int:
        """The place of the system that the others are held against: the baseline, or the first row where that
        is a mean over seeds."""
        return next((system.place for system in self.systems if system.name == self.baseline), 0)

    def figure(self, system: str, metric: str) -> Mapping[str, Any]:
        """What significance.json says of one value; empty where it was not tested."""
        return self.significance["systems"].get(system, {}).get(metric, {})
