"""The amounts that a plan's estimate starts from: passages, views, tokens, questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from multiview.config import Config
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.rates import Rates
from multiview.model.layouts import architecture

DPR_WORDS, DPR_QUESTIONS, DPR_DEV_QUESTIONS = 100, 58_880, 8_757
"""DPR's amounts (Karpukhin et al., 2020): words per passage of Wikipedia, questions of Natural Questions that it trains
on, and dev questions."""

EXTRA_TOKENS = 10
"""Tokens of a passage besides its text and its views: title, [CLS], [SEP]."""
GPUS_PER_NODE = 8
"""The largest number of GPUs that a machine is taken to have."""
QUESTION_TOKENS = 14
"""Tokens of a question: about ten words."""


@dataclass(frozen=True)
class Workload:
    """The amounts of one system's work over one corpus."""

    passages: float
    views: float
    """Indexed views per passage."""
    words: float
    """Words per passage."""
    questions: float
    """Training questions."""
    dev_questions: float
    changed: float = 0.01
    """Share of the passages that a refresh finds changed."""

    @property
    def all_views(self) -> float:
        return self.passages * self.views

    def sequences(self, config: Config) -> float:
        """Sequences that are encoded per passage: one, or one per generated query."""
        reads = architecture(config.model.architecture).reads_queries
        return float(config.generation.queries) if reads else 1.0

    def passage_tokens(self, config: Config, rates: Rates) -> float:
        """Tokens per sequence of a passage: its words' tokens and viewers, at most `model.passage_length`."""
        tokens = rates["tokens_per_word"] * self.words + EXTRA_TOKENS + config.model.views
        return min(tokens, config.model.passage_length)

    def batch(self, config: Config) -> float:
        """Questions per step: `train.batch_size`, or all where there are fewer."""
        return max(1, min(config.train.batch_size, self.questions))

    def steps(self, config: Config) -> int:
        """Steps of a training: epochs · ⌊questions / batch⌋, at most `train.max_steps`."""
        each = math.floor(self.questions / self.batch(config))
        steps = max(1, round(config.train.epochs * each))
        return min(steps, config.train.max_steps or steps)


def views_of(config: Config) -> float:
    """Views per passage at most: one for dpr, one per query where queries are read, else `model.views`, which sentences
    may exceed."""
    if config.model.architecture == "dpr":
        return 1.0
    reads = architecture(config.model.architecture).reads_queries
    return float(config.generation.queries if reads else config.model.views)


def made_drafts(config: Config, passages: float) -> float:
    """Questions that are drafted from the corpus, at most: a text may have fewer snippets than are drawn."""
    made = config.make_questions
    return passages * made.share * min(made.per_passage, made.snippets) * made.per_snippet


@dataclass(frozen=True)
class Hardware:
    """The machines that an estimate, or a step of it, is for."""

    gpus: int
    """GPUs in all; 0: everything is done by processors."""
    gpu: str
    """The GPU's name in the table of rates."""
    cores: int
    """Cores of a step's pod."""
    memory: float
    """Bytes of main memory of a step's pod."""
    at_once: int | None = None
    """Shards that are worked on at once; none: one per GPU, or one without GPUs."""
    nodes: int = 1
    """Pods that train together, each with its part of the GPUs."""


@dataclass(frozen=True)
class Scenario:
    """Everything that the cost of a step depends on besides its settings."""

    workload: Workload
    shape: ModelShape
    hardware: Hardware
    rates: Rates
    pods: Mapping[str, Hardware] = field(default_factory=dict)
    """The hardware of steps that have their own, by the step's name."""

    def of(self, step: str) -> Scenario:
        """The scenario with the hardware of a step."""
        return replace(self, hardware=self.pods.get(step, self.hardware))
