"""Settings of evaluation and comparison."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from multiview.config.section import HOW, JsonObject, Section, Seed

Analysis = Literal[
    "each_view",
    "first_views",
    "answer_view",
    "attention",
    "variation",
    "usage",
    "cosine",
    "padding",
    "training_answers",
    "groups",
    "speed",
]
"""An analysis of a trained model (multiview.evaluation.analyses)."""


class Evaluation(Section):
    """Metrics and analyses of an evaluation."""

    depth: Annotated[int, Field(ge=1)] = 100
    """Retrieved passages per question; metrics at a larger k are left out."""
    at: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 20, 100)
    """Values of k for top-k accuracy and gold-passage recall."""
    each_round: Annotated[bool, HOW] = False
    """Evaluate the model of every round, on the index from which the next round's negatives are mined; analyses are for the last round only. *Ours.*"""
    analyses: tuple[Analysis, ...] = get_args(Analysis)
    """Analyses of a model (docs/analyses.md). An analysis that does not suit the model is left out, and the step reports why."""
    divergence_passages: Annotated[int, Field(ge=1)] = 1000
    """Random passages for the attention divergence (CAMVR 4.4)."""
    divergence_heads: Literal["before", "after"] = "before"
    """Average the attention heads before computing the divergence, or the heads' divergences after; CAMVR does not say. *Ours.*"""
    variation_pairs: Annotated[int, Field(ge=1)] = 1500
    """(question, gold passage) pairs for local variation and perplexity (MVR 5.2): whole passages, sampled by `analysis_seed`."""
    padding_questions: Annotated[int, Field(ge=1)] = 200
    """Random questions whose top `depth` passages are encoded again, to measure the effect of padding views. *Ours.*"""
    analysis_seed: Seed = 0
    """Seed of the three random choices above. *Ours.*"""


class PaperFigures(Section):
    """What a paper reports for a row of a study."""

    source: str
    """Paper, table and questions, as in `MVR Table 2, SQuAD dev`."""
    figures: dict[str, float]
    """Metric to its value as printed, in per cent."""


class Comparison(Section):
    """Comparison of several systems on the same split, BM25 negatives and questions."""

    systems: dict[str, JsonObject] = {
        "mvr": {"model": {"architecture": "mvr"}},
        "camvr": {"model": {"architecture": "camvr"}},
    }
    """Overrides per system name, as in {camvr: {model: {architecture: camvr}}}; systems of a preset stay when others are added."""
    bm25: bool = True
    """Add a row for BM25, and where queries are generated a row `doct5query` for BM25 over passages with their queries appended (DocT5Query)."""
    fusion: Annotated[tuple[str, ...], HOW] = ()
    """Systems whose rankings are fused with BM25's, each in a separate row `NAME-bm25`. *Ours.*"""
    fusion_constant: Annotated[int, Field(ge=0)] = 60
    """k of reciprocal rank fusion: Σ 1 / (k + rank) (Cormack et al., SIGIR 2009)."""
    rows: tuple[str, ...] = ()
    """The table's rows in order; empty: the systems in the order of `systems`, BM25, DocT5Query, then the fused rankings."""
    seeds_of: dict[str, str] = {}
    """System per row that is the run of one seed, as in {mvr/seed-1: mvr}. Systems are then tested by their means over seeds instead of row by row. Studies set it."""
    paper: dict[str, PaperFigures] = {}
    """Figures of the papers per row, or per system of `seeds_of`, which the tables show in columns of their own. Studies set it."""
    baseline: str | None = None
    """Row that the other rows are tested against; none: the first. *Ours.*"""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    """Resamples of the questions for tests and intervals. *Ours.*"""
    seed: Seed = 0
    """Seed of the resamples."""
