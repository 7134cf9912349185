"""Settings of the model, its training and its hard negatives."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from multiview.config.section import DERIVED, UNKEYED, JsonObject, Section, Seed

Pooling = Literal["viewer", "snippet", "both", "last"]
SHORTEST_PASSAGE = 16
"""Fewest tokens that a passage may be cut to."""


class DenseLayer(Section):
    """A dense layer behind the pooling."""

    width: int
    """Length of its vectors."""
    activation: str
    """Class of torch.nn."""


class Model(Section):
    """The encoder and the layout of its input. Saved with the model."""

    base: Annotated[str, UNKEYED] = "bert-base-uncased"
    """A BERT-like checkpoint: hub name (`NAME` or `NAME@REVISION`), folder, bucket folder, or `package:NAME` for an installed package that carries one."""
    architecture: str = "camvr"
    """Layout of passages and questions: dpr, me-bert, mvr, meta, camvr, dual-cross, sentence, equal-splits, or sentence-transformer: one vector per text, as the makers of the base use it (its modules.json)."""
    views: Annotated[int, Field(ge=1)] = 8
    """n, the views per passage: its viewer tokens (CAMVR 4.6, MVR 4.2; MetaEmbed's meta tokens), me-bert's tokens, or the runs of equal-splits."""
    pooling: Pooling = "viewer"
    """A view's vector: its viewer token (the papers), the mean of its snippet's tokens, the sum of both, or its last token. *Ours.*"""
    normalise: bool = False
    """Scale every vector to length one. *Ours.*"""
    scale: Annotated[float, Field(gt=0)] | None = None
    """Factor by which inner products are multiplied to give scores; none: 20 when normalised, else 1. *Ours.*"""
    tied: bool = False
    """One encoder for questions and passages (Dual Cross Encoder) or two (DPR)."""
    init: Literal["random", "cls", "cls-first", "snippet-mean"] = "random"
    """Input embeddings of viewer tokens before training. `random`: N(0, 0.02) (MVR 3.2); `cls`: that noise around the embedding of [CLS] (*ours*); `cls-first`: the same, with viewer tokens at the first position, where [CLS] stands (camvr; *ours*); `snippet-mean`: the mean word embedding of the viewer's own snippet, plus a learned embedding that starts at zero (camvr; *ours*)."""
    merge_title: bool = True
    """Let Algorithm 1 merge the title like any sentence; false keeps it separate while n > 1. *Ours.*"""
    question_length: Annotated[int, Field(ge=8)] = 128
    """Longest question in tokens (CAMVR 4.2)."""
    passage_length: Annotated[int, Field(ge=SHORTEST_PASSAGE)] = 256
    """Longest passage in tokens (CAMVR 4.2)."""
    seed: Seed = 0
    """Seed of the new tokens' embeddings."""
    question_prompt: str | None = None
    """What every question begins with, such as "query: " (in quotes, which keep its space); none: the prompt of the base's makers; empty: no prompt."""
    passage_prompt: str | None = None
    """What every passage begins with, as `question_prompt`."""
    include_prompt: Annotated[bool, DERIVED] = True
    """Whether the mean over all tokens includes the prompt's, as the base's makers chose."""
    dense: Annotated[tuple[DenseLayer, ...], DERIVED] = ()
    """The base's dense layers behind the pooling (architecture sentence-transformer)."""


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
    """t is the epoch, from 0; or 40 times the share of finished steps, for short runs (*ours*)."""


class Train(Section):
    """Training and its rounds."""

    rounds: Annotated[int, Field(ge=0), UNKEYED] = 2
    """Number of rounds. 0: the untrained model; 1: training on BM25 or given negatives; 2: a second training with mined negatives (CAMVR Appendix C); 3 or more: each mines with the model of the round before (*ours*). Shapes the DAG."""
    model: Annotated[str | None, UNKEYED] = None
    """Address of a model to start from instead of `model.base`, with the settings that it was saved with; any other setting in section model is refused, unless it is the default. Shapes the DAG."""
    start_from: Annotated[Literal["pretrained", "round_one"], UNKEYED] = "pretrained"
    """Model that round two starts from (DPR, tevatron: the pretrained checkpoint); with `round_one`, a later round starts from the round before. Shapes the DAG."""
    round_two: Annotated[JsonObject, UNKEYED] = {}
    """Settings of this section that differ in round two and later rounds, as in {epochs: 20}."""
    warm_up: Annotated[JsonObject, UNKEYED] = {}
    """Settings of this section for a stage on generated queries before round one, as in {epochs: 10}; empty: no such stage (Dual Cross Encoder 3.5). Shapes the DAG."""
    warmup_passage: Literal["plain", "with_query"] = "plain"
    """Input of a passage in the warm-up stage: alone, as in the authors' code, or with its query, which lets the model learn to match texts instead of answers."""
    positive: Literal["max", "answer", "both", "each"] = "max"
    """The positive score s+: the max over views (MVR Eq. 6), the view of the answer's snippet (CAMVR Eq. 13), the mean of these two losses (*ours*), or each view that holds an answer, against every view of the negatives (MVR 5.1)."""
    positive_passage: Literal["first", "drawn"] = "first"
    """The passage that a question trains on: its first positive (DPR), or a positive drawn by seed, epoch and question from all, including those found by mining. *Ours.*"""
    local_weight: Annotated[float, Field(ge=0)] = 0.0
    """λ, the weight of the local uniformity loss (MVR Eq. 5, 7)."""
    in_sequence_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of in-sequence negatives: each view of the answer, as `positive` has it, against the views of its passage that hold none (InSeNT). `local_weight` does so for the winning view, which is all that `positive: max` knows. *Ours.*"""
    distill_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of distillation from `mining.cross_encoder`, which scores each question's own positive and hard negatives once (docs/training.md). Above 0 shapes the DAG. *Ours.*"""
    temperature: Temperature = Temperature()
    batch_size: Annotated[int, Field(ge=1)] = 128
    """Questions per step, over all processes."""
    processes: Annotated[Annotated[int, Field(ge=1)] | None, UNKEYED] = None
    """Processes that train together on each node, with in-batch negatives from all of them; none: one per GPU, or one without a GPU. Dropout is drawn in each, so another number gives other weights. *Ours.*"""
    negatives: Annotated[int, Field(ge=0)] = 1
    """Hard negatives per question and step. Their sources (BM25, mined, given) take turns, whatever the number of passages in each."""
    negative_group: Annotated[int, Field(ge=1)] | None = None
    """Questions per group of the batch: only passages of the same group are negatives of a question, as on GPUs that do not share negatives (Dual Cross Encoder); none: the whole batch is one group (DPR)."""
    epochs: Annotated[float, Field(gt=0)] = 40.0
    """Passes over the training questions; each pass leaves out an incomplete last batch."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many steps, even before `epochs` is reached; none: no limit."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-5
    """Peak learning rate; linear warm-up, then linear decay to zero."""
    warmup_steps: Annotated[int, Field(ge=0)] | None = 1237
    """Warm-up in steps (DPR); none: from `warmup_ratio`."""
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Warm-up as a share of all steps, when `warmup_steps` is none or more than half of them."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """AdamW's weight decay."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 2.0
    """Gradients are clipped to this norm (DPR)."""
    lora_rank: Annotated[int, Field(ge=0)] = 0
    """r of LoRA adapters of all linear layers, which are trained in place of the base's weights, with alpha 2 r; 0: none (docs/bases.md). *Ours.*"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Dropout of hidden states."""
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Dropout of attention weights; none: as `dropout`. At 0 attention has a fused kernel, which needs less time and memory. *Ours.*"""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the encoder; scores and loss are always float32."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass (CAMVR 4.2)."""
    chunk: Annotated[Annotated[int, Field(ge=1)] | None, UNKEYED] = None
    """Sequences whose activations are in memory at a time; none: those of the whole batch. The loss is that of the whole batch, and every sequence is encoded twice (GradCache). Dropout is drawn chunk by chunk, so with dropout another size gives other weights. *Ours.*"""
    validate_steps: Annotated[int, Field(ge=1)] | None = None
    """Steps between validations; none: no validation. Questions that training leaves out are ranked against a pool of passages, and the round's model is the checkpoint with the best MRR@10 (docs/training.md). *Ours.*"""
    validation_questions: Annotated[int, Field(ge=1)] = 200
    """Questions that a validation holds out, at most a fifth; drawn by `seed`, passage by passage. Other questions about their gold passages are not trained on either. *Ours.*"""
    validation_passages: Annotated[int, Field(ge=1)] = 2000
    """Passages in the pool of a validation: the gold passages, hard negatives, and a sample of the corpus. *Ours.*"""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many validations in a row without a better one; none: never. *Ours.*"""
    checkpoint_steps: Annotated[int, Field(ge=1), UNKEYED] = 500
    """Steps between checkpoints: the most that a killed run has to repeat. *Ours.*"""
    seed: Seed = 0
    """Seed of data order, negatives and dropout."""


class Mining(Section):
    """Mined hard negatives; depth, number and filters are *ours*, after tevatron's recipes.

    Candidates are the ranks from `range_start` to `depth`, always without positives. Negatives are drawn from
    the candidates that pass the filters below; too few candidates are never filled up.
    """

    depth: Annotated[int, Field(ge=1)] = 200
    """Retrieved passages per training question."""
    range_start: Annotated[int, Field(ge=0)] = 0
    """Number of best ranks per question that are skipped before any filter: they are often unmarked positives."""
    number: Annotated[int, Field(ge=1)] = 30
    """Negatives drawn per question from the hits that pass the filters."""
    answer_hits: Literal["exclude", "keep", "positives"] = "exclude"
    """Handling of hits that hold an answer: leave them out, keep them like any other hit, or make them positives of the question instead (at any rank; see `train.positive_passage`)."""
    margin: Annotated[float, Field(ge=0)] | None = None
    """Keep hits with a score of at most s+ - margin, where s+ is the score of the question's best positive in the same index; none: any score."""
    relative_margin: Annotated[float, Field(ge=0)] | None = None
    """Keep hits with a score of at most s+ - relative_margin * |s+|: 0.05 is NV-Retriever's 95 %, and also correct for negative scores."""
    cross_encoder: Annotated[str | None, UNKEYED] = None
    """One-logit sequence classifier, named as in `model.base`; hits that it classifies as positives are left out too. It reads every hit that passes the other filters. It is also the teacher of `train.distill_weight`."""
    cross_encoder_above: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Leave out hits whose logit after a sigmoid is above this value: only hits that the classifier confidently rejects are negatives (RocketQA's 0.1). 1: it filters none, and is not asked."""
    with_bm25: bool = True
    """Train later rounds on round one's negatives and mined ones in turn (CAMVR Appendix C); false: on mined negatives only."""
    seed: Seed = 0
    """Seed of the draw, per question: order and sharding do not matter."""

    @field_validator("range_start")
    @classmethod
    def _range_is_not_empty(cls, start: int, info: ValidationInfo) -> int:
        if start >= (depth := info.data.get("depth", start + 1)):
            raise ValueError(f"should be less than mining.depth={depth}")
        return start
