"""Settings of encoding, index, evaluation and comparison."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from multiview.config.section import HOW, JsonObject, Section, Seed, Workers

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

    compute: Literal["float32", "autocast", "bfloat16", "float16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, bfloat16 weights, or float16 weights (on a GPU). Quality: docs/encoding.md."""
    batch_tokens: Annotated[int, Field(ge=64)] = 4096
    """Tokens per padded batch: on a GPU, and of bases that cannot read sequences laid end to end (docs/encoding.md). It decides the fixed number of rows (8 or more) per length bucket, so it is part of the key."""
    bucket: Annotated[int, Field(ge=8)] = 32
    """In padded batches sequences are padded to multiples of this many tokens."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: the length of the model's training (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto; also where `mine` and `evaluate` search an exact index."""
    workers: Workers = None
    """Processes that tokenise passages ahead of the model; none: up to four per GPU, as far as there are cores, and 0 on a CPU, where the model has the cores."""


class Index(Section):
    """The index over views, and the search of an approximate index (docs/index.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, whose {lists} and {dim} are filled in."""
    lists: Annotated[int, Field(ge=1)] | None = None
    """Number of inverted lists; none: 4 √views, with at least 39 training views per list (faiss' guidelines)."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Random views that the index is trained on; none: 64 per list, and at least 65,536."""
    seed: Seed = 0
    """Seed of the sample, of k-means, and of the random views of `measured`."""
    probes: Annotated[int, Field(ge=1)] | None = None
    """Inverted lists that a search visits; none: √lists, and at least 8."""
    ef_search: Annotated[int, Field(ge=1)] = 128
    """Size of the candidate list of an hnsw search, in views; at least the number of views that it fetches."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Number of passages beyond k for which an approximate search scores all views exactly."""
    on_disk: bool = False
    """Search an approximate index memory-mapped on disk, as its views always are."""
    one_thread: bool = True
    """Build hnsw with one thread; several threads build a different graph every time."""
    measured: Annotated[int, Field(ge=0)] = 200
    """Random views that are searched for like questions to measure recall and speed; also the number of questions that `evaluate` measures them with."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto: where faiss-gpu sees a GPU, inverted lists are trained and filled there."""


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
