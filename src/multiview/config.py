"""Every setting, declared and documented once.

A setting's default is the papers' (SQuAD and NQ experiments of MVR and CAMVR) unless its
docstring says *ours*. Presets and ``--set`` are overrides of these classes. Steps receive
the sections that they read as one canonical JSON string. Settings marked with ``HOW`` change
how a step runs and never what it writes, or name what the key holds by content (sources): they
stay out of artifact keys.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

HOW: Any = Field(json_schema_extra={"how": True})

Sources = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]
"""One or several files, folders or fsspec URLs; a single string is a list of one."""

Architecture = str
Pooling = Literal["viewer", "snippet", "both"]


Analysis = Literal[
    "each_view",
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

DataFormat = Literal["auto", "squad", "dpr", "qa", "marco", "parquet", "jsonl", "csv", "tsv", "text"]


class Section(BaseModel):
    """A frozen group of settings; unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def key_settings(self) -> dict[str, Any]:
        """The settings that change an output and differ from their defaults, JSON-ready.

        Leaving defaults out lets a new setting appear without invalidating every artifact. A
        default that *changes* must come with a new step version (a test holds the defaults).
        """
        settings: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and extra.get("how"):
                continue
            value = getattr(self, name)
            if isinstance(value, Section):
                if inner := value.key_settings():
                    settings[name] = inner
            elif value != field.get_default(call_default_factory=True):
                settings[name] = value
        return json.loads(canonical_json(settings))


class Corpus(Section):
    """Where the passages come from and how they are cut into shards."""

    source: Annotated[Sources, HOW] = ()
    """Files, folders, patterns or URLs of passages (docs/data.md). Empty: the questions' own passages."""
    format: DataFormat = "auto"
    """Format of `source`; `auto` goes by the file's name and first lines."""
    columns: dict[str, str] = {}
    """Names of the columns in a Parquet, JSONL, CSV or TSV file: our name to yours, as in {id: pid}."""
    cut: Literal["auto", "none", "words", "sentences"] = "auto"
    """Cut long texts into passages of at most `cut_length` words, by words alone (DPR) or at the ends of sentences; `auto`: text files by words, the rest not."""
    cut_length: Annotated[int, Field(ge=1)] = 100
    """Words of a passage that is cut from an article (DPR)."""
    empty_text: Literal["refuse", "title", "drop"] = "refuse"
    """A passage without text stops the run, has its title for a text (some of BEIR's have nothing else), or is left out and counted. *Ours.*"""
    keep: Literal["all", "gold"] = "all"
    """`gold` keeps the passages of the chosen training questions and of all dev questions. *Ours.*"""
    shards: Annotated[int, Field(ge=1, le=100)] = 2
    """Number of shards: the unit of work of encoding, tens and never thousands. *Ours.*"""
    language: str = "english"
    """Language of NLTK's sentence splitter, here and everywhere."""


class Questions(Section):
    """Where the questions come from and which of them are used."""

    source: Annotated[Sources, HOW] = ()
    """Files, folders, patterns or URLs of training questions (docs/data.md)."""
    dev_source: Annotated[Sources, HOW] = ()
    """The same, of the questions to evaluate on. Empty: `dev_share` of `source` is held out."""
    dev_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of gold passages whose questions are held out when there is no `dev_source`. *Ours.*"""
    format: DataFormat = "auto"
    """Format of `source` and `dev_source`; `auto` goes by the file's name and first lines."""
    columns: dict[str, str] = {}
    """Names of the columns in a Parquet, JSONL, CSV or TSV file: our name to yours, as in {qid: query_id}."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Use this many training questions, drawn by `seed`; none: all."""
    dev_limit: Annotated[int, Field(ge=1)] | None = None
    """Use this many dev questions, drawn by `seed`; none: all."""
    one_per_passage: bool = False
    """AVQ = 1: keep one training question a passage (CAMVR 4.4)."""
    max_missing_gold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Largest share of questions whose gold passage may be missing from the corpus. *Ours.*"""
    answer_matching: Literal["string", "regex"] = "string"
    """How answers are found in text: DPR's token match, or as patterns (CuratedTREC)."""
    seed: int = 0
    """Seed of the draws above."""


class Bm25(Section):
    """BM25 negatives, after DPR's maintainers. *Ours.*"""

    k1: float = 0.9
    """Term saturation."""
    b: float = 0.4
    """Length normalisation."""
    depth: Annotated[int, Field(ge=1)] = 50
    """Hits a question, before answer-holding passages and positives are left out."""


class Model(Section):
    """The encoder and the layout of its input. Saved with the model."""

    base: Annotated[str, HOW] = "bert-base-uncased"
    """A BERT-like checkpoint: hub name, folder, bucket folder, or `package:NAME` for an installed package that carries one."""
    architecture: Architecture = "camvr"
    """Layout of passages and questions: dpr, me-bert, mvr, camvr, dual-cross, sentence or equal-splits."""
    views: Annotated[int, Field(ge=1)] = 8
    """n: the viewer tokens of a passage (CAMVR 4.2, MVR 4.2), me-bert's tokens, the runs of equal-splits."""
    pooling: Pooling = "viewer"
    """A view's vector: its viewer token (the papers), the mean of its snippet's tokens, or the sum of both. *Ours.*"""
    normalise: bool = False
    """Scale every vector to length one. *Ours.*"""
    scale: float | None = None
    """Scores are inner products times this; none: 20 when normalised, else 1. *Ours.*"""
    tied: bool = False
    """One encoder for questions and passages (Dual Cross Encoder) or two (DPR)."""
    init: Literal["random", "cls"] = "random"
    """New viewer tokens: N(0, 0.02) (MVR 3.2), or [CLS] plus that noise. *Ours.*"""
    merge_title: bool = True
    """Algorithm 1 may merge the title like any sentence; false keeps it apart while n > 1. *Ours.*"""
    question_length: Annotated[int, Field(ge=8)] = 128
    """Longest question in tokens (CAMVR 4.2)."""
    passage_length: Annotated[int, Field(ge=16)] = 256
    """Longest passage in tokens (CAMVR 4.2)."""
    seed: int = 0
    """Seed of the new tokens' embeddings."""


class Temperature(Section):
    """The loss's temperature, MVR Eq. 8."""

    schedule: Literal["fixed", "annealed"] = "fixed"
    """`annealed` is max(floor, exp(-alpha t)); `fixed` is `value`."""
    value: Annotated[float, Field(gt=0)] = 1.0
    """The fixed temperature."""
    floor: Annotated[float, Field(gt=0)] = 0.3
    """Lowest annealed temperature."""
    alpha: Annotated[float, Field(ge=0)] = 0.1
    """Annealing speed."""
    clock: Literal["epoch", "progress"] = "epoch"
    """t is the epoch, from 0; or 40 times the share of steps done, for short runs (*ours*)."""


class Train(Section):
    """Training, and the shape of its rounds."""

    rounds: Annotated[int, Field(ge=0, le=2, json_schema_extra={"how": True})] = 2
    """0: the model untrained; 1: on BM25 negatives; 2: again with mined negatives (CAMVR Appendix C). Shapes the DAG."""
    model: Annotated[str | None, HOW] = None
    """Address of a model to start from instead of `model.base`. Shapes the DAG."""
    start_from: Annotated[Literal["pretrained", "round_one"], HOW] = "pretrained"
    """What round two starts from (DPR, tevatron: the pretrained checkpoint). Shapes the DAG."""
    round_two: Annotated[dict[str, Any], HOW] = {}
    """Settings of this section that differ in round two, as in {epochs: 20}."""
    warm_up: Annotated[dict[str, Any], HOW] = {}
    """Settings of this section for a stage on generated queries before round one, as in {epochs: 10}; empty: no such stage (Dual Cross Encoder 3.6). Shapes the DAG."""
    warmup_passage: Literal["with_query", "plain"] = "with_query"
    """In that stage a passage is read with its query, or alone as the authors' code does. *Ours.*"""
    positive: Literal["max", "answer", "each"] = "max"
    """s+: the max over views (MVR Eq. 6), the view of the answer's snippet (CAMVR Eq. 13), or each view that holds an answer, against every view of the negatives (MVR 5.1)."""
    answer_view: Literal["first", "best"] = "first"
    """Without an offset, several snippets hold the answer: the first, or the best-scoring. *Ours.*"""
    positive_passage: Literal["first", "drawn"] = "first"
    """The passage that a question trains on: its first positive (DPR), or one drawn by seed, epoch and question from all of them, found ones included. *Ours.*"""
    local_weight: Annotated[float, Field(ge=0)] = 0.0
    """λ, the weight of the local uniformity loss (MVR Eq. 5, 7)."""
    temperature: Temperature = Temperature()
    batch_size: Annotated[int, Field(ge=1)] = 128
    """Questions a step, over all processes."""
    negatives: Annotated[int, Field(ge=0)] = 1
    """Hard negatives a question a step."""
    negative_group: Annotated[int, Field(ge=1)] | None = None
    """The batch's questions in groups of this many, as on that many GPUs without negatives across them (Dual Cross Encoder): only passages of its own group are negatives of a question; none: all of the batch (DPR)."""
    epochs: Annotated[float, Field(gt=0)] = 40
    """Passes over the training questions; each leaves out what does not fill a batch."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many steps, whatever `epochs` says."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-5
    """Peak learning rate; linear warm-up, then linear decay to zero."""
    warmup_steps: Annotated[int, Field(ge=0)] | None = 1237
    """Warm-up in steps (DPR); none: by `warmup_ratio`."""
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Warm-up as a share of all steps, when `warmup_steps` is none."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """AdamW's weight decay."""
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    """Adam's epsilon (DPR)."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 2.0
    """Gradients are clipped to this norm (DPR)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Dropout of hidden states and attention."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Compute of the encoder; scores and loss are always float32."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass (CAMVR 4.2)."""
    checkpoint_steps: Annotated[int, Field(ge=1, json_schema_extra={"how": True})] = 500
    """Steps between checkpoints: what a killed run may have to redo. *Ours.*"""
    log_steps: Annotated[int, Field(ge=1, json_schema_extra={"how": True})] = 10
    """Steps between logged losses. *Ours.*"""
    seed: int = 0
    """Seed of data order, negatives and dropout."""


class Mining(Section):
    """Mined hard negatives; depth, number and filters are *ours*, after tevatron's recipes.

    Of the ranks from `range_start` to `depth`, positives are always left out; what the filters below
    leave is drawn from, and is never filled up.
    """

    depth: Annotated[int, Field(ge=1)] = 200
    """Retrieved passages a training question."""
    range_start: Annotated[int, Field(ge=0)] = 0
    """Best ranks of a question that are passed over, before any filter: they are often positives that nobody marked."""
    number: Annotated[int, Field(ge=1)] = 30
    """Negatives drawn from what is left of them."""
    answer_hits: Literal["exclude", "keep", "positives"] = "exclude"
    """Hits that hold an answer: left out, kept like any other, or left out and made positives of the question (at any rank; see `train.positive_passage`)."""
    margin: Annotated[float, Field(ge=0)] | None = None
    """Keep hits that score s+ - margin at most, s+ being the question's best positive in the same index; none: any score."""
    relative_margin: Annotated[float, Field(ge=0)] | None = None
    """Keep hits that score s+ - relative_margin * |s+| at most: 0.05 is NV-Retriever's 95 %, right for negative scores too."""
    cross_encoder: Annotated[str | None, HOW] = None
    """Also leave out what this one-logit sequence classifier takes for a positive; named as `model.base` is. Costs a pass over every hit that is left."""
    cross_encoder_above: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Leave out hits whose logit after a sigmoid is above this; a negative is one that the classifier is sure of (RocketQA's 0.1)."""
    with_bm25: bool = True
    """Round two trains on BM25 and mined negatives (CAMVR Appendix C), or on mined ones alone."""
    seed: int = 0
    """Seed of the draw, per question: neither order nor sharding matters."""

    @field_validator("range_start")
    @classmethod
    def _range_is_not_empty(cls, start: int, info: ValidationInfo) -> int:
        if start >= (depth := info.data.get("depth", start + 1)):
            raise ValueError(f"should be less than mining.depth={depth}")
        return start


class GeneratorTraining(Section):
    """Fine-tuning of the query generator on the training questions; the authors' code leaves most to transformers."""

    epochs: Annotated[float, Field(gt=0)] = 3
    """Passes over the pairs of gold passage and question (the authors' code: transformers' default)."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many steps, whatever `epochs` says."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    """Pairs a step (the authors' code: 8 a GPU)."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Peak learning rate, with linear decay to zero (the authors' code: transformers' default)."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Linear warm-up as a share of all steps."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Gradients are clipped to this norm."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Compute. Not float16: T5's activations overflow it."""
    checkpoint_steps: Annotated[int, Field(ge=1, json_schema_extra={"how": True})] = 500
    """Steps between checkpoints: what a killed run may have to redo. *Ours.*"""
    log_steps: Annotated[int, Field(ge=1, json_schema_extra={"how": True})] = 10
    """Steps between logged losses. *Ours.*"""
    seed: int = 0
    """Seed of data order and dropout."""


class Generation(Section):
    """Queries generated from passages, for the Dual Cross Encoder (its 3.4). What the paper leaves open is the authors' code's."""

    model: Annotated[str, HOW] = "macavaney/doc2query-t5-base-msmarco"
    """A sequence-to-sequence model: hub name, folder, bucket folder, `package:NAME`, or the address of a `generator` in a store. The default is docTTTTTquery's T5-base, which the authors use, with its weights as safetensors."""
    fine_tune: Annotated[bool, HOW] = False
    """Fine-tune it on the training questions before it generates. Shapes the DAG."""
    queries: Annotated[int, Field(ge=1)] = 10
    """Queries drawn for a passage."""
    top_k: Annotated[int, Field(ge=1)] = 25
    """Each token is drawn from this many most probable ones (the authors' code)."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    """And of these from the fewest whose probability is at least this (the authors' code); 1: all of them."""
    max_length: Annotated[int, Field(ge=1)] = 64
    """Longest query in tokens (the authors' code)."""
    input: Literal["text", "title_text"] = "title_text"
    """What the model reads: the passage's text, or its title and its text (the authors' code)."""
    input_length: Annotated[int, Field(ge=8)] = 512
    """Longest input in tokens; what is longer loses its end (the authors' code)."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Passages a batch, always that many: their logits depend on it in the last bits, so it is part of the key."""
    bucket: Annotated[int, Field(ge=8)] = 64
    """Inputs are padded to multiples of this many tokens. *Ours.*"""
    seed: int = 0
    """Seed of the draws, for each passage and query: neither order nor sharding matters."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto."""
    train: GeneratorTraining = GeneratorTraining()


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
    """The search index over views."""

    kind: Literal["exact"] = "exact"
    """`exact`: flat inner product."""


class Evaluation(Section):
    """What is measured."""

    depth: Annotated[int, Field(ge=1)] = 100
    """Retrieved passages a question; metrics at a k beyond it are left out."""
    at: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 20, 100)
    """Values of k for top-k accuracy and gold-passage recall."""
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
    """System name to what it overrides, as in {camvr: {model: {architecture: camvr}}}."""
    bm25: bool = True
    """Also a row for BM25."""
    fusion: Annotated[tuple[str, ...], HOW] = ()
    """Systems whose rankings are fused with BM25's, each in a row of its own, `NAME-bm25`. *Ours.*"""
    fusion_constant: Annotated[int, Field(ge=0)] = 60
    """k of reciprocal rank fusion: Σ 1 / (k + rank) (Cormack et al., SIGIR 2009)."""
    rows: tuple[str, ...] = ()
    """The table's rows in order; empty: the systems as they are named, BM25, then the fused ones."""
    baseline: str | None = None
    """The row that the others are tested against; none: the first. *Ours.*"""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    """Resamples of the questions for tests and intervals. *Ours.*"""
    seed: int = 0
    """Seed of the resamples."""


class Config(Section):
    """All settings of a pipeline."""

    corpus: Corpus = Corpus()
    questions: Questions = Questions()
    bm25: Bm25 = Bm25()
    model: Model = Model()
    train: Train = Train()
    mining: Mining = Mining()
    generation: Generation = Generation()
    encode: Encode = Encode()
    index: Index = Index()
    evaluation: Evaluation = Evaluation()
    comparison: Comparison = Comparison()


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
