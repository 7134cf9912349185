"""Settings of encoding, index, evaluation and comparison."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from multiview.config.section import HOW, Section

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


class Encode(Section):
    """Encoding of passages and questions. *Ours.*"""

    compute: Literal["float32", "autocast", "bfloat16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, or bfloat16 weights."""
    batch_tokens: Annotated[int, Field(ge=64)] = 4096
    """Tokens a batch: decides the fixed number of rows (8 or more) of each length bucket, so it is part of the key."""
    bucket: Annotated[int, Field(ge=8)] = 32
    """Sequences are padded to multiples of this many tokens."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: as the model was trained (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto."""


class Index(Section):
    """The index over views, and how an approximate one is searched (docs/index.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, in which {lists} and {dim} are filled in."""
    lists: Annotated[int, Field(ge=1)] | None = None
    """Inverted lists; none: 4 √views, and at least 39 views to train each (faiss' guidelines)."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Random views that train it; none: 64 a list, and at least 65,536."""
    seed: int = 0
    """Seed of the sample, of k-means, and of the views that `measured` asks for."""
    probes: Annotated[int, Field(ge=1)] | None = None
    """Inverted lists that a search looks into; none: √lists, and at least 8."""
    ef_search: Annotated[int, Field(ge=1)] = 128
    """Views that a search of hnsw keeps in sight; at least those that it fetches."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Passages beyond k of which an approximate search scores all views, exactly."""
    on_disk: bool = False
    """Search an approximate index where it lies on disk, memory-mapped, as the views beside it always are."""
    one_thread: bool = True
    """Build hnsw with one thread: more would give another graph every time."""
    measured: Annotated[int, Field(ge=0)] = 200
    """Random views that are asked for like questions, to measure recall and speed; and, by `evaluate`, questions."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto: where faiss-gpu sees a GPU, inverted lists are trained and filled there."""


class Evaluation(Section):
    """What is measured."""

    depth: Annotated[int, Field(ge=1)] = 100
    """Retrieved passages a question; metrics at a k beyond it are left out."""
    at: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 20, 100)
    """Values of k for top-k accuracy and gold-passage recall."""
    each_round: Annotated[bool, HOW] = False
    """Measure the model of every round, on the index that the next one's negatives are mined with; analyses are the last one's alone. *Ours.*"""
    analyses: tuple[Analysis, ...] = get_args(Analysis)
    """Analyses of a model (docs/analyses.md); one that does not suit the model is left out, and the step says why."""
    divergence_passages: Annotated[int, Field(ge=1)] = 1000
    """Random passages of the attention divergence (CAMVR 4.4)."""
    divergence_heads: Literal["before", "after"] = "before"
    """Attention heads are averaged before the divergence or their divergences after it; CAMVR does not say. *Ours.*"""
    variation_pairs: Annotated[int, Field(ge=1)] = 1500
    """(question, gold passage) pairs of local variation and perplexity (MVR 5.2): whole passages, drawn by `analysis_seed`."""
    padding_questions: Annotated[int, Field(ge=1)] = 200
    """Random questions whose top `depth` passages are encoded afresh, to see what padding views change. *Ours.*"""
    analysis_seed: int = 0
    """Seed of the three draws above. *Ours.*"""


class Comparison(Section):
    """Several systems over the same split, BM25 negatives and questions."""

    systems: dict[str, dict[str, Any]] = {
        "mvr": {"model": {"architecture": "mvr"}},
        "camvr": {"model": {"architecture": "camvr"}},
    }
    """System name to what it overrides, as in {camvr: {model: {architecture: camvr}}}; those of a preset stay beside what is added."""
    bm25: bool = True
    """Also a row for BM25."""
    fusion: Annotated[tuple[str, ...], HOW] = ()
    """Systems whose rankings are fused with BM25's, each in a row of its own, `NAME-bm25`. *Ours.*"""
    fusion_constant: Annotated[int, Field(ge=0)] = 60
    """k of reciprocal rank fusion: Σ 1 / (k + rank) (Cormack et al., SIGIR 2009)."""
    rows: tuple[str, ...] = ()
    """The table's rows in order; empty: the systems as they are named, BM25, then the fused ones."""
    seeds_of: dict[str, str] = {}
    """Row to the system of which it is one seed's run, as in {mvr/seed-1: mvr}: systems are then tested by their means over seeds, and not row by row. Studies set it."""
    baseline: str | None = None
    """The row that the others are tested against; none: the first. *Ours.*"""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    """Resamples of the questions for tests and intervals. *Ours.*"""
    seed: int = 0
    """Seed of the resamples."""
