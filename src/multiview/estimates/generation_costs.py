"""The costs of steps that run a query generator, which is taken to be as large as T5-base, the default of `generation.model`."""

from __future__ import annotations

import math

from multiview.config import Config
from multiview.estimates.cost import Cost, gpus_of, matrix_rate, shards_at_once
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.workload import EXTRA_TOKENS, QUESTION_TOKENS, Setting

T5_BASE = ModelShape(layers=12, width=768, inner=3072, vocabulary=32_128, positions=0)
"""The encoder; the decoder has as many layers, each with attention to the encoder's output besides."""
LONGEST_QUERY = 2 * QUESTION_TOKENS
"""Tokens of the longest query of a batch, which all others wait for."""


def parameters() -> int:
    """Those of encoder and decoder; embeddings are shared."""
    return T5_BASE.parameters + _decoder_layers()


def _decoder_layers() -> int:
    return T5_BASE.multiplied + T5_BASE.layers * 4 * T5_BASE.width**2


def generation_flops(inputs: float, length: float, queries: float, tokens: float) -> float:
    """Floating-point operations of writing `queries` queries of `tokens` tokens for each of `inputs` texts of `length` tokens.

    An input is encoded once. Per query, its keys and values are computed in each layer, 4 · L · length · D²; and per
    token, the rest of the decoder and the logits are multiplied, and attention is paid to the input and to half of
    the query.
    """
    layers, width = T5_BASE.layers, T5_BASE.width
    read = T5_BASE.forward_flops(length, length)
    keys_and_values = 4 * layers * length * width**2
    per_token = 2 * (_decoder_layers() - layers * 2 * width**2 + T5_BASE.vocabulary * width)
    attention = 4 * layers * (length + tokens / 2) * width
    return inputs * (read + queries * (keys_and_values + tokens * (per_token + attention)))


def initial_generator(config: Config, setting: Setting, shards: int) -> Cost:
    size = 4.0 * parameters()
    return Cost(memory=size, disk=size)


def _input_tokens(words: float, config: Config, setting: Setting) -> float:
    """Tokens that are read of a text of so many words and its title, with padding."""
    tokens = words * setting.rates["tokens_per_word"] + EXTRA_TOKENS
    padded = math.ceil(tokens / config.generation.bucket) * config.generation.bucket
    return min(padded, config.generation.input_length)


def train_generator(config: Config, setting: Setting, shards: int) -> Cost:
    """3 · forward operations over a passage and its question per pair; weights, gradients and both moments of AdamW in
    float32, and 34 D bytes per token and layer, twice as many in float32 (see `model_costs.activation_bytes`)."""
    train, length = config.generation.train, _input_tokens(setting.workload.words, config, setting)
    steps = train.epochs * math.ceil(setting.workload.questions / train.batch_size)
    pairs = train.batch_size * min(steps, train.max_steps or steps)
    gpus, half = gpus_of(setting), train.precision != "float32"
    rate = matrix_rate(setting, "train_flops", half, "gpu_train_share", gpus)
    layers = T5_BASE.layers * (34 * T5_BASE.width + 5 * 12 * length)
    activations = train.batch_size * (length + QUESTION_TOKENS) * layers * (1 if half else 2)
    size, state = 4.0 * parameters(), 16.0 * parameters() + activations
    return Cost(
        {"forward and backward": 3 * generation_flops(pairs, length, 1, QUESTION_TOKENS) / rate},
        gpus=gpus,
        memory=size if gpus else state,
        gpu_memory=state if gpus else 0.0,
        disk=size,
    )


def _generated(
    inputs: float, length: float, queries: int, config: Config, setting: Setting, shards: int
) -> Cost:
    """Each shard is a task. Memory has the weights and, for a batch, the keys and values of every layer."""
    rate = matrix_rate(setting, "generated_flops", False, "gpu_generate_share")
    cached = 4.0 * 2 * T5_BASE.layers * T5_BASE.width * (length + LONGEST_QUERY)
    held = 4.0 * parameters() + config.generation.batch_size * queries * cached
    words = inputs * queries * QUESTION_TOKENS / setting.rates["tokens_per_word"]
    return Cost(
        {"writing queries": generation_flops(inputs, length, queries, LONGEST_QUERY) / rate / shards},
        tasks=shards,
        at_once=shards_at_once(setting, shards),
        gpus=gpus_of(setting),
        memory=4.0 * parameters() if setting.hardware.gpus else held,
        gpu_memory=held if setting.hardware.gpus else 0.0,
        disk=words * setting.rates["stored_bytes_per_word"],
    )


def generate_queries(config: Config, setting: Setting, shards: int) -> Cost:
    load, queries = setting.workload, config.generation.queries
    length = _input_tokens(load.words, config, setting)
    return _generated(load.passages, length, queries, config, setting, shards)


def generate_questions(config: Config, setting: Setting, shards: int) -> Cost:
    """Of each drawn passage some snippets are read, and a few questions are written of each."""
    made, load = config.make_questions, setting.workload
    length = _input_tokens(load.words / made.snippets, config, setting)
    snippets = load.passages * made.share * min(made.per_passage, made.snippets)
    return _generated(snippets, length, made.per_snippet, config, setting, shards)
