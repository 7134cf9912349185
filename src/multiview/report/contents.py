"""The contents of the report, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from multiview.config import JsonObject, PaperFigures
from multiview.data.reading.tables import Row
from multiview.evaluation.tables import Significance

Outcome = Literal["won", "lost", "tied"]


class Look(NamedTuple):
    """The look of a system in every chart and table: colour, marker in matplotlib, and the marker as a character."""

    colour: str
    marker: str
    symbol: str


GREY = "#6a737d"
"""The baseline's colour, and that of lines that belong to no system."""
LOOKS = (
    Look(GREY, "o", "●"),
    Look("#0b69a8", "s", "■"),
    Look("#c95a00", "^", "▲"),
    Look("#0a7f5f", "D", "◆"),
    Look("#ac4a86", "v", "▼"),
    Look("#8a6a00", "P", "✚"),
    Look("#6f42c1", "X", "✖"),
    Look("#c62828", "*", "★"),
    Look("#00838f", "<", "◀"),
    Look("#5d4037", ">", "▶"),
    Look("#37474f", "p", "⬟"),
)


@dataclass(frozen=True)
class Training:
    """The curves of one round, or of the warm-up."""

    name: str
    curves: dict[str, dict[int, float]]
    """Metric as training reports it (`loss`, `view_1_wins`, …) to value by step, counted on over all trainings."""
    start: int = 0
    """Number of steps of the trainings before it."""


@dataclass
class System:
    """A row of the comparison, with the analyses and trainings of its model."""

    name: str
    position: int
    """Position in the comparison, from 0, which decides the system's look."""
    metrics: Mapping[str, float]
    architecture: str | None = None
    usage: Mapping[str, list[float]] = field(default_factory=dict)
    """`share_of_top_1` and `share_of_gold`, each to the share of every view."""
    alone: Mapping[str, list[float]] = field(default_factory=dict)
    """Metric to its values with each view alone."""
    together: Mapping[str, float] = field(default_factory=dict)
    """Metric to its value with all views, without BM25 and reranking."""
    attention: np.ndarray | None = None
    """Divergence between views i and j [views, views], nan where no sequence has both."""
    cosine: np.ndarray | None = None
    """Cosine between views i and j [views, views], nan where no passage has both."""
    view_cosine: float | None = None
    trainings: list[Training] = field(default_factory=list)
    generated_by: str | None = None
    """The `questions.origin` of its training questions, if they were generated; None for labelled ones."""

    def curves(self, metric: str) -> list[dict[int, float]]:
        """Returns a metric of each training that has it, by step."""
        return [training.curves[metric] for training in self.trainings if metric in training.curves]


@dataclass(frozen=True)
class QuestionResults:
    """A question with the passages that every system found for it."""

    qid: str
    question: str
    answers: tuple[str, ...]
    gold: tuple[str, ...]
    ranks: tuple[int | None, ...]
    """Rank of the first right passage, per system; None if it found none."""
    hits: Sequence[Sequence[Row]]
    """Passages found per system, best first, as rows of an evaluation's first hits (`top_hits.SCHEMA`)."""

    def outcomes(self, base: int) -> list[Outcome]:
        """Returns the outcome of each system against the one at position `base`."""
        return [outcome(rank, self.ranks[base]) for rank in self.ranks]


def outcome(rank: int | None, base: int | None) -> Outcome:
    """Returns whether a system's first right passage ranks above the baseline's; None ranks below all."""
    mine, other = (float("inf") if r is None else r for r in (rank, base))
    return "won" if mine < other else "lost" if mine > other else "tied"


@dataclass
class Contents:
    """Everything that the page about a comparison shows."""

    systems: list[System]
    baseline: str
    significance: Significance
    passages: int
    questions: int
    results: list[QuestionResults]
    """The chosen questions."""
    texts: Mapping[str, tuple[str, str]]
    """Title and text of every passage that `results` names, by id."""
    digest: str
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cost: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    won: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seeds: Mapping[str, Mapping[str, JsonObject]] = field(default_factory=dict)
    """System to metric to a `SeedsFigure`, for a study with several seeds."""
    generated: int = 0
    """Number of questions that were generated from the corpus."""
    paper: Mapping[str, PaperFigures] = field(default_factory=dict)
    """What papers report for the rows of a study, by row or, with several seeds, by system."""

    @property
    def base(self) -> int:
        """The position of the baseline, or of the first row where the baseline is a mean over seeds."""
        return next((system.position for system in self.systems if system.name == self.baseline), 0)

    def look(self, system: System) -> Look:
        """Returns the look of a system; only the baseline is grey. The others' looks repeat after ten."""
        baseline, *others = LOOKS
        order = system.position - (system.position > self.base)
        return baseline if system.position == self.base else others[order % len(others)]

    @property
    def figures(self) -> Mapping[str, Mapping[str, JsonObject]]:
        """What was tested: the rows or, in a study with several seeds, the systems; metric to figure."""
        return self.seeds or self.significance["systems"]

    def figure(self, system: str, metric: str) -> JsonObject:
        """Returns the entry of significance.json for one value; empty where it was not tested."""
        return self.significance["systems"].get(system, {}).get(metric, {})
