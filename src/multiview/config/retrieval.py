"""Settings of encoding, the index, evaluation and comparison; and of a refresh: its gate, and what is exported."""

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from multiview.config.section import DERIVED, UNKEYED, Address, JsonObject, Section, Seed


class Encode(Section):
    """Encoding of passages and questions. *Ours.*"""

    compute: Literal["float32", "autocast", "bfloat16", "float16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, bfloat16 weights, or float16 weights (on a GPU). Quality: docs/encoding.md."""
    batch_tokens: Annotated[int, Field(ge=64)] = 32768
    """Most tokens in a batch; on a CPU at most 256, or 1,024 with weights in half precision (docs/encoding.md). It decides the fixed number of rows per length, so it is part of the key."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: the length of the model's training (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto; also where `mine` and `evaluate` search an exact index, and where queries are generated."""


class Index(Section):
    """The index over views, and the search of an approximate index (docs/index-kinds.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, whose {lists} and {dim} are filled in."""
    merge_views: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Leave out each view whose cosine with an earlier kept view of its passage is larger than this; none: keep all views. What this saves and costs: docs/index-kinds.md."""
    seed: Seed = 0
    """Seed of k-means, and of the choice of the views that train the index and of the questions that measure it."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Number of passages beyond k for which an approximate search scores all views exactly."""


class Search(Section):
    """How an index ranks passages, in evaluation and in serving (docs/search.md). *Ours.*"""

    mode: Literal["dense", "bm25", "hybrid"] = "dense"
    """By views, by BM25, or by reciprocal ranks of both."""
    rerank: Annotated[str | None, UNKEYED] = None
    """Cross-encoder that orders the first passages of each question: a folder, hub name or URL as in `model.base`; the index holds a copy. None: no reranking."""
    rerank_depth: Annotated[int, Field(ge=1)] = 100
    """Number of passages per question that are reranked."""


Analysis = Literal[
    "each_view",
    "first_views",
    "answer_view",
    "attention",
    "variation",
    "usage",
    "cosine",
    "training_answers",
    "speed",
]
"""An analysis of a trained model (multiview.evaluation.analyses)."""


class Evaluation(Section):
    """Metrics and analyses of an evaluation."""

    views: Annotated[int, Field(ge=1)] | None = None
    """Search only this many first views of each passage, in an exact index of architecture meta; none: all. *Ours.*"""
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
    """Systems that are measured with `search.mode=hybrid` too, each in a separate row `NAME-bm25`, from an index of the same views. *Ours.*"""
    rows: Annotated[tuple[str, ...], DERIVED] = ()
    """The table's rows: the systems in the order of `systems`, BM25, DocT5Query, then the fused rankings."""
    seeds_of: Annotated[dict[str, str], DERIVED] = {}
    """For each row that is the run of one seed, its system, as in {mvr/seed-1: mvr}. Systems are then tested by their means over seeds instead of row by row. Studies set it."""
    paper: Annotated[dict[str, PaperFigures], DERIVED] = {}
    """Figures of the papers per row, or per system of `seeds_of`, which the tables show in columns of their own. Studies set it."""
    baseline: str | None = None
    """Row that the other rows are tested against; none: the first. *Ours.*"""
    seed: Seed = 0
    """Seed of the resamples."""


class Refresh(Section):
    """Refreshing an index after its corpus changed (docs/refresh.md). *Ours.*"""

    model: str | None = None
    """Address of the model to encode with; none: the champion's. The first refresh needs one."""
    full: bool = False
    """Encode every passage and build the index from scratch, even if parts could be kept."""
    oldest: Annotated[Annotated[float, Field(gt=0)] | None, UNKEYED] = None
    """Hours after which the champion's corpus is too old, as `multiview serve` and `schedule status` then say; none: it never is. The newest refresh's setting counts."""


class Gate(Section):
    """Conditions that a challenger must fulfil to become the champion (docs/refresh.md). *Ours.*"""

    drops: dict[str, Annotated[float, Field(ge=0)] | None] = {
        "accuracy_at_1": 0.01,
        "accuracy_at_5": 0.01,
        "accuracy_at_20": 0.01,
        "mrr_at_10": 0.01,
    }
    """Allowed drop per metric: how far below zero the lower end of the 95 % interval of the paired difference may be. What is given joins the defaults; null leaves a metric out, and {} all of them."""
    least: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """Least value per metric, whatever the champion's; also a condition for the first champion."""
    smallest_corpus: Annotated[int, Field(ge=1)] = 1
    """Least number of passages in the corpus; fewer suggest an accident upstream."""
    largest_shrinkage: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Largest allowed drop in the number of passages, as a share of the champion's; below 1, some of the champion's ids must be left. 1: any."""
    max_lost_questions: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Largest share of the dev questions (of all questions, where dev questions are held out) that may have lost their
    gold passages, or the answers in them; 1: any."""
    keep_columns: bool = False
    """Refuse a corpus if further columns are gone or have another type, so that clients' conditions on them would fail; the verdict names them in any case."""
    seconds_per_question: Annotated[float, Field(gt=0)] | None = None
    """Longest mean search time per question in seconds, as `evaluate` measures it; none: any."""
    index_bytes: Annotated[int, Field(ge=1)] | None = None
    """Largest size of the index's files in bytes; none: any."""
    must_find: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Largest allowed rank per dev question id: a gold or answer-holding passage must be retrieved at this rank or better."""

    @field_validator("drops", mode="before")
    @classmethod
    def _join_the_defaults(cls, drops: object) -> object:
        return {**cls.model_fields["drops"].default, **drops} if isinstance(drops, dict) and drops else drops


ExportFormat: TypeAlias = Literal["views", "model", "onnx"]


class Export(Section):
    """Files of the champion's index for other systems, written at the end of a refresh (docs/export.md). *Ours.*"""

    formats: tuple[ExportFormat, ...] = ()
    """What to write: views (every view with its snippet, as Parquet), model (a folder for sentence-transformers), onnx (the question encoder). Empty: a refresh has no step export."""
    qdrant_url: Address | None = None
    """Address of a Qdrant server into which a refresh loads the champion's index (docs/databases.md); none: it loads none. The API key comes from the environment variable MULTIVIEW_QDRANT_API_KEY."""
    alias: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "multiview"
    """Qdrant alias that follows the champion, and prefix of its collections' names."""
    keep: Annotated[int, Field(ge=0)] = 2
    """Collections of earlier champions that stay in Qdrant, for rollbacks; others with the alias's prefix are deleted."""
