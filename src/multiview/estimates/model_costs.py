"""The costs of steps that run a model: training and encoding."""

from __future__ import annotations

import math
from dataclasses import replace

from multiview.config import Config
from multiview.config.section import MOST_WORKERS
from multiview.estimates.cost import Cost, encoders, gpus_of, matrix_rate, model_bytes, shards_at_once
from multiview.estimates.index_bytes import ROW_BYTES, view_bytes
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.workload import QUESTION_TOKENS, Scenario
from multiview.model.layouts import architecture


def initial_model(config: Config, scenario: Scenario, shards: int) -> Cost:
    size = model_bytes(config, scenario)
    return Cost(memory=size, disk=size)


def activation_bytes(shape: ModelShape, length: float, half: bool, dropout: bool = True) -> float:
    """Bytes that the backward pass needs per token of a layer, in sequences of `length` tokens.

    34 D + 5 a s in half precision, twice as many in float32, with a = D / 64 heads (Korthikanti et al., 2022); the
    second term falls away with a fused kernel for attention, as without `dropout` of attention.
    """
    heads = max(1, shape.width // 64) if shape.width % 64 == 0 else 12
    return (34 * shape.width + (5 * heads * length if dropout else 0)) * (1 if half else 2)


def _activations(config: Config, scenario: Scenario, sequences: float, length: float) -> float:
    """Bytes that the backward pass needs of `sequences` sequences of `length` tokens.

    With gradient checkpointing 2 D per token and layer remain, beside one layer whole.
    """
    train, shape = config.train, scenario.shape
    dropout = train.dropout if train.attention_dropout is None else train.attention_dropout
    half = train.precision != "float32"
    each = activation_bytes(shape, length, half, dropout > 0)
    kept = 2 * shape.width * (1 if half else 2)
    layers = each + kept * shape.layers if train.gradient_checkpointing else each * shape.layers
    return sequences * length * layers


def negatives_per_question(config: Config) -> int:
    """The most hard negatives of a question that are not given: those of BM25, and in later rounds mined ones too."""
    depth, mined = config.bm25.depth, config.mining.number
    return depth + mined if config.mining.with_bm25 else max(depth, mined)


def train(config: Config, scenario: Scenario, shards: int) -> Cost:
    """The training itself, with the questions and their hard negatives in the memory of each process."""
    load, rates = scenario.workload, scenario.rates
    negatives = load.questions * negatives_per_question(config) if config.train.negatives else 0.0
    kept = load.questions * rates["question_bytes"] + negatives * rates["kept_negative_bytes"]
    return _training(config, scenario, kept, negatives * rates["negative_bytes"])


def warm_up(config: Config, scenario: Scenario, shards: int) -> Cost:
    """A training with a generated query of every passage as its question, without hard negatives and validation."""
    settings = config.train.model_copy(update={"negatives": 0, "validate_steps": None})
    load, rates = replace(scenario.workload, questions=scenario.workload.passages), scenario.rates
    kept = load.passages * rates["warmed_up_row_bytes"]
    return _training(config.model_copy(update={"train": settings}), replace(scenario, workload=load), kept)


def _training(config: Config, scenario: Scenario, kept: float, read: float = 0.0) -> Cost:
    """3 · forward operations, once more with `train.chunk`, and with gradient checkpointing; weights, gradients and both
    moments of AdamW in float32, beside the activations. A validation is a forward pass of its pool on one GPU. Each GPU
    of a pod has a process of its own by default, which reads the weights into main memory; several have one that starts
    them besides. Each process holds `kept` bytes of data; the step's own process holds `read` bytes more while
    it makes them."""
    load, train, shape, rates = scenario.workload, config.train, scenario.shape, scenario.rates
    gpus, tokens = gpus_of(scenario, scenario.hardware.gpus), load.passage_tokens(config, rates)
    passages = load.batch(config) * (1 + train.negatives)
    flops = shape.forward_flops(passages * tokens, tokens)
    flops += shape.forward_flops(load.batch(config) * QUESTION_TOKENS, QUESTION_TOKENS)
    again = bool(train.chunk) + train.gradient_checkpointing
    rate = matrix_rate(scenario, "train", train.precision != "float32", gpus)
    sequences = min(train.chunk or math.inf, passages / max(1, gpus))
    state = 16.0 * shape.parameters * encoders(config) + _activations(config, scenario, sequences, tokens)
    processes = train.processes or max(1, gpus // scenario.hardware.nodes)
    started = processes if processes * scenario.hardware.nodes > 1 else 0
    parts = {"forward and backward": load.steps(config) * (3 + again) * flops / rate}
    if train.validate_steps:
        pool = min(train.validation_passages, load.passages)
        validations = math.ceil(load.steps(config) / train.validate_steps) + 1
        one_gpu = matrix_rate(scenario, "encode", train.precision != "float32")
        parts["validation"] = validations * shape.forward_flops(pool * tokens, tokens) / one_gpu
    each = model_bytes(config, scenario) + kept
    held = (
        processes * each + started * rates["process_bytes"] + (kept if started else 0.0)
        if gpus
        else state + kept
    )
    return Cost(
        parts,
        gpus=gpus,
        memory=held + read,
        gpu_memory=state if gpus else 0.0,
        disk=model_bytes(config, scenario),
    )


def processes_ahead(config: Config, scenario: Scenario) -> int:
    """The processes that tokenise ahead of a GPU; a pod of `encode` has one (see `multiview.model.devices.workers`)."""
    asked = config.encode.workers
    return max(0, min(MOST_WORKERS, scenario.hardware.cores - 1)) if asked is None else asked


def encode(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Tokenising, then forward passes; each shard is a task.

    On a GPU other processes tokenise ahead, so tokenising takes only the time by which it exceeds the forward passes.
    """
    load, shape, rates = scenario.workload, scenario.shape, scenario.rates
    tokens = load.passage_tokens(config, rates)
    sequences = load.passages * load.sequences(config)
    half = config.encode.compute != "float32"
    forward = shape.forward_flops(sequences * tokens, tokens)
    weights = shape.parameters * (2.0 if config.encode.compute in ("bfloat16", "float16") else 4.0)
    batch = 4.0 * config.encode.batch_tokens * (shape.inner + 6 * shape.width)
    reads_queries = architecture(config.model.architecture).reads_queries
    asked = config.generation.queries * QUESTION_TOKENS / rates["tokens_per_word"] if reads_queries else 0.0
    tokenised = load.passages * (load.words + asked) / rates["tokenised_words"] / shards
    computed = forward / matrix_rate(scenario, "encode", half) / shards
    if scenario.hardware.gpus and (ahead := processes_ahead(config, scenario)):
        tokenised = max(0.0, tokenised / ahead - computed)
    return Cost(
        {"tokenising": tokenised, "forward passes": computed},
        tasks=shards,
        at_once=shards_at_once(scenario, shards),
        gpus=gpus_of(scenario),
        memory=weights + (0 if scenario.hardware.gpus else batch),
        gpu_memory=weights + batch if scenario.hardware.gpus else 0.0,
        disk=view_bytes(load.all_views, shape.width) + ROW_BYTES * load.passages,
    )


def teach(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Forward passes of a cross-encoder, which is taken to be as large as the base model, over every pair."""
    load, shape, rates = scenario.workload, scenario.shape, scenario.rates
    pairs = load.questions * (1 + negatives_per_question(config))
    tokens = load.passage_tokens(config, rates) + QUESTION_TOKENS
    half = config.encode.compute != "float32"
    rate = matrix_rate(scenario, "encode", half)
    return Cost(
        {"forward passes": shape.forward_flops(pairs * tokens, tokens) / rate},
        gpus=gpus_of(scenario),
        memory=4.0 * shape.parameters
        + load.questions * rates["question_bytes"]
        + pairs * rates["pair_bytes"],
        gpu_memory=4.0 * shape.parameters if scenario.hardware.gpus else 0.0,
        disk=pairs * rates["hit_bytes"],
    )
