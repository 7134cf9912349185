"""The costs of query generators, against the parameters and operations of transformers' T5."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from multiview.estimates import generation_costs
from multiview.estimates.cost import Cost
from multiview.estimates.generation_costs import T5_BASE, generation_flops, parameters
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.step_costs import cost_of
from tests.fixtures.estimated import config, scenario


def t5(shape: ModelShape, heads: int) -> Any:
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=shape.vocabulary,
            d_model=shape.width,
            d_kv=shape.width // heads,
            num_heads=heads,
            num_layers=shape.layers,
            d_ff=shape.inner,
            decoder_start_token_id=0,  # pyright: ignore[reportCallIssue]
            pad_token_id=0,
            eos_token_id=shape.vocabulary - 1,
        )
    )


def test_parameters_are_those_of_t5_base() -> None:
    with torch.device("meta"):
        model = t5(T5_BASE, 12)
    assert parameters() == pytest.approx(model.num_parameters(), rel=1e-3)


def test_operations_are_those_that_torch_counts_of_a_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ModelShape(layers=2, width=64, inner=160, vocabulary=300, positions=0)
    monkeypatch.setattr(generation_costs, "T5_BASE", shape)
    model, texts, length, queries, tokens = t5(shape, 4).eval(), 3, 40, 5, 12
    model.set_attn_implementation("eager")
    model.generation_config.eos_token_id = None
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        read = model.get_encoder()(input_ids=torch.ones(texts, length, dtype=torch.long))[0]
        model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=read.repeat_interleave(queries, 0)),
            max_new_tokens=tokens,
            do_sample=False,
        )
    assert counter.get_total_flops() == pytest.approx(
        generation_flops(texts, length, queries, tokens), rel=0.01
    )


def test_generated_queries_cost_by_passages_queries_and_shards() -> None:
    def seconds(shards: int = 1, passages: float = 1e6, **settings: object) -> float:
        chosen = config(generation=settings)
        return cost_of("generate-queries", chosen, scenario(1, passages=passages), shards).parts[
            "writing queries"
        ]

    assert seconds(passages=2e6) == pytest.approx(2 * seconds()) == pytest.approx(8 * seconds(4))
    assert 1 < seconds(queries=20) / seconds(queries=10) < 2
    cost = cost_of("generate-queries", config(), scenario(8), 16)
    assert (cost.tasks, cost.at_once, cost.gpus) == (16, 8, 1)


def test_a_query_is_as_long_as_allowed_and_a_batch_is_always_full() -> None:
    def cost(passages: float = 1e6, shards: int = 1, **settings: object) -> Cost:
        return cost_of("generate-queries", config(generation=settings), scenario(passages=passages), shards)

    short, longer, longest = (cost(max_length=length) for length in (8, 28, 64))
    assert short.seconds < longer.seconds == longest.seconds
    assert short.disk < longer.disk and short.memory < longer.memory
    # 100 passages in 100 shards: each has a batch of 32.
    assert cost(100, 100).parts["writing queries"] == cost(32).parts["writing queries"]


def test_the_memory_of_generated_queries_is_that_of_a_batch() -> None:
    """Keys and values of 12 layers, 768 wide, of 192 tokens read and 28 written, for 10 queries of each of 32 passages."""
    chosen = config(generation={"queries": 10, "batch_size": 32, "bucket": 64})
    held = cost_of("generate-queries", chosen, scenario(1)).gpu_memory - 4 * parameters()
    assert held == 32 * 10 * 2 * 12 * 768 * (192 + 28) * 4
    more = cost_of("generate-queries", chosen, scenario(1, passages=9e6)).gpu_memory
    assert more == held + 4 * parameters()


def test_questions_are_generated_of_drawn_snippets() -> None:
    """A snippet is shorter than its passage, and has one question."""
    made = {"share": 0.5, "per_passage": 2, "per_snippet": 1}
    queries, questions = (
        cost_of(step, config(make_questions=made, generation={"queries": 1}), scenario()).parts[
            "writing queries"
        ]
        for step in ("generate-queries", "generate-questions")
    )
    assert 0.2 * queries < questions < queries


def test_a_generator_is_trained_on_every_question_each_epoch() -> None:
    one, three = (
        cost_of("train-generator", config(generation={"train": {"epochs": epochs}}), scenario(1)).parts
        for epochs in (1, 3)
    )
    assert three["forward and backward"] == pytest.approx(3 * one["forward and backward"])
    few, many = (
        cost_of("train-generator", config(), scenario(1, questions=count)).parts["forward and backward"]
        for count in (10, 100)
    )
    assert many == pytest.approx(10 * few)
    cut = cost_of("train-generator", config(generation={"train": {"max_steps": 1}}), scenario(1)).parts
    assert cut["forward and backward"] < one["forward and backward"] / 100
