"""Settings of encoding, the index, evaluation and comparison."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from multiview.config.section import DERIVED, UNKEYED, JsonObject, Section, Seed


class Encode(Section):
    """Encoding of passages and questions. *Ours.*"""

    compute: Literal["float32", "autocast", "bfloat16", "float16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, bfloat16 weights, or float16 weights (on a GPU). Quality: docs/encoding.md."""
    batch_tokens: Annotated[int, Field(ge=64)] = 4096
    """Most tokens of a batch, on a CPU 256 at most (docs/encoding.md). It decides the fixed number of rows per length, so it is part of the key."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: the length of the model's training (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto; also where `mine` and `evaluate` search an exact index."""


class Index(Section):
    """The index over views, and the search of an approximate index (docs/index-kinds.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, whose {lists} and {dim} are filled in."""
    seed: Seed = 0
    """Seed of the views that train the index, of k-means, and of the views that measure it."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Number of passages beyond k for which an approximate search scores all views exactly."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto: where faiss-gpu sees a GPU, inverted lists are trained there."""


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
    each_round: Annotated[bool, UNKEYED] = False
    """Evaluate the model of every round, on the index from which the next round's negatives are mined; analyses are for the last round only. *Ours.*"""
    analyses: tuple[Analysis, ...] = get_args(Analysis)
    """Analyses of a model (docs/analyses.md). An analysis that does not suit the model is left out, and the step reports why."""


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
    fusion: Annotated[tuple[str, ...], UNKEYED] = ()
    """Systems whose rankings are fused with BM25's, each in a separate row `NAME-bm25`. *Ours.*"""
    rows: Annotated[tuple[str, ...], DERIVED] = ()
    """The table's rows: the systems in the order of `systems`, BM25, DocT5Query, then the fused rankings."""
    seeds_of: Annotated[dict[str, str], DERIVED] = {}
    """System per row that is the run of one seed, as in {mvr/seed-1: mvr}. Systems are then tested by their means over seeds instead of row by row. Studies set it."""
    paper: Annotated[dict[str, PaperFigures], DERIVED] = {}
    """Figures of the papers per row, or per system of `seeds_of`, which the tables show in columns of their own. Studies set it."""
    baseline: str | None = None
    """Row that the other rows are tested against; none: the first. *Ours.*"""
    seed: Seed = 0
    """Seed of the resamples."""
