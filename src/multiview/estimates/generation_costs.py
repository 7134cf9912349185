"""The costs of steps that run a query generator, which is taken to be as large as T5-base, the default of `generation.model`."""

from __future__ import annotations

import math

from multiview.config import Config
from multiview.estimates.cost import Cost, gpus_of, matrix_rate, shards_at_once
from multiview.estimates.model_costs import activation_bytes
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.workload import EXTRA_TOKENS, QUESTION_TOKENS, Scenario, made_drafts

T5_BASE = ModelShape(layers=12, width=768, inner=3072, vocabulary=32_128, positions=0)
"""The encoder; the decoder has as many layers, each with attention to the encoder's output besides."""
LONGEST_QUERY = 2 * QUESTION_TOKENS
"""Tokens of the longest query of a batch, which all others wait for."""


def parameters() -> int:
    """The number of parameters of encoder and decoder, whose embeddings are shared."""
    return T5_BASE.parameters + _decoder_parameters()


def _decoder_parameters() -> int:
    """The number of parameters of the decoder's layers, those for keys and values of the input included."""
    return T5_BASE.multiplied + T5_BASE.layers * 4 * T5_BASE.width**2


def generation_flops(inputs: float, length: float, queries: float, tokens: float) -> float:
    """Floating-point operations, in all, of writing `queries` queries of `tokens` tokens for each of `inputs` texts.

    A text of `length` tokens is encoded once. Per query, its keys and values are computed in each layer,
    4 · L · length · D²; and per token, the rest of the decoder and the logits are multiplied, and attention is paid to
    the text and to half of the query.
    """
    layers, width = T5_BASE.layers, T5_BASE.width
    read = T5_BASE.forward_flops(length, length)
    keys_and_values = 4 * layers * length * width**2
    per_token = 2 * (_decoder_parameters() - layers * 2 * width**2 + T5_BASE.vocabulary * width)
    attention = 4 * layers * (length + tokens / 2) * width
    return inputs * (read + queries * (keys_and_values + tokens * (per_token + attention)))


def initial_generator(config: Config, scenario: Scenario, shards: int) -> Cost:
    size = 4.0 * parameters()
    return Cost(memory=size, disk=size)


def _input_tokens(words: float, config: Config, scenario: Scenario, bucket: int = 1) -> float:
    """Tokens that are read of a text of so many words and its title, padded to a multiple of `bucket`."""
    tokens = words * scenario.rates["tokens_per_word"] + EXTRA_TOKENS
    return min(math.ceil(tokens / bucket) * bucket, config.generation.input_length)


def train_generator(config: Config, scenario: Scenario, shards: int) -> Cost:
    """3 · forward operations over a passage and its question per pair; weights, gradients and both moments of AdamW in
    float32 beside the activations, of encoder and decoder as of the encoder."""
    train, load = config.generation.train, scenario.workload
    length = _input_tokens(load.words, config, scenario)
    asked = min(QUESTION_TOKENS, config.generation.max_length)
    pairs = train.epochs * load.questions
    pairs = min(pairs, train.max_steps * train.batch_size) if train.max_steps else pairs
    gpus, half = gpus_of(scenario), train.precision != "float32"
    rate = matrix_rate(scenario, "train", half, gpus)
    tokens = min(train.batch_size, pairs) * (length + asked)
    activations = tokens * T5_BASE.layers * activation_bytes(T5_BASE, length, half)
    size, state = 4.0 * parameters(), 16.0 * parameters() + activations
    return Cost(
        {"forward and backward": 3 * generation_flops(pairs, length, 1, asked) / rate},
        gpus=gpus,
        memory=size if gpus else state,
        gpu_memory=state if gpus else 0.0,
        disk=size,
    )


def _generated(
    inputs: float, length: float, queries: int, config: Config, scenario: Scenario, shards: int
) -> Cost:
    """The cost of writing queries for all `inputs`, of which each shard, a task, has the same share, a batch at least.

    Memory has the weights and, for a batch, the keys and values of every layer.
    """
    batch, longest = config.generation.batch_size, min(LONGEST_QUERY, config.generation.max_length)
    rate = matrix_rate(scenario, "generate")
    flops = generation_flops(max(batch, inputs / shards), length, queries, longest)
    cached = 4.0 * 2 * T5_BASE.layers * T5_BASE.width * (length + longest)
    held = 4.0 * parameters() + batch * queries * cached
    return Cost(
        {"writing queries": flops / rate},
        tasks=shards,
        at_once=shards_at_once(scenario, shards),
        gpus=gpus_of(scenario),
        memory=4.0 * parameters() if scenario.hardware.gpus else held,
        gpu_memory=held if scenario.hardware.gpus else 0.0,
        disk=_stored(inputs * queries, config, scenario),
    )


def _stored(queries: float, config: Config, scenario: Scenario) -> float:
    """Bytes of generated queries."""
    words = min(QUESTION_TOKENS, config.generation.max_length) / scenario.rates["tokens_per_word"]
    return queries * words * scenario.rates["stored_bytes_per_word"]


def generate_queries(config: Config, scenario: Scenario, shards: int) -> Cost:
    load, queries = scenario.workload, config.generation.queries
    length = _input_tokens(load.words, config, scenario, config.generation.bucket)
    return _generated(load.passages, length, queries, config, scenario, shards)


def gather_queries(config: Config, scenario: Scenario, shards: int) -> Cost:
    """A copy of the queries of all shards."""
    copied = _stored(scenario.workload.passages * config.generation.queries, config, scenario)
    return Cost({"copying queries": copied / scenario.rates["disk_bytes"]}, disk=copied)


def evaluate_queries(config: Config, scenario: Scenario, shards: int) -> Cost:
    """The queries of all passages are read, and those of the dev questions' passages compared with each other and with
    the question, as fast as ten of each are."""
    load, rates, queries = scenario.workload, scenario.rates, config.generation.queries
    return Cost(
        {
            "reading queries": load.passages * queries / rates["read_queries"],
            "comparing queries": load.dev_questions * queries / rates["compared_queries"],
        },
        memory=load.dev_questions * (rates["question_bytes"] + queries * rates["query_bytes"]),
        disk=load.dev_questions * queries * rates["hit_bytes"],
    )


def generate_questions(config: Config, scenario: Scenario, shards: int) -> Cost:
    """The cost of reading some snippets per drawn passage, and of writing a few questions about each."""
    made, load = config.make_questions, scenario.workload
    length = _input_tokens(load.words / made.snippets, config, scenario, config.generation.bucket)
    snippets = made_drafts(config, load.passages) / made.per_snippet
    return _generated(snippets, length, made.per_snippet, config, scenario, shards)
