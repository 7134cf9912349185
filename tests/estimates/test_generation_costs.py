"""The costs of query generators, against the parameters and operations of transformers' T5."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from multiview.estimates import generation_costs
from multiview.estimates.generation_costs import T5_BASE, generation_flops, parameters
from multiview.estimates.model_shape import ModelShape
from multiview.estimates.step_costs import cost_of
from tests.fixtures.estimated import config, setting


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
        return cost_of("generate-queries", chosen, setting(1, passages=passages), shards).parts[
            "writing queries"
        ]

    assert seconds(passages=2e6) == pytest.approx(2 * seconds()) == pytest.approx(8 * seconds(4))
    assert 1 < seconds(queries=20) / seconds(queries=10) < 2
    cost = cost_of("generate-queries", config(), setting(8), 16)
    assert (cost.tasks, cost.at_once, cost.gpus) == (16, 8, 1)


def test_questions_are_generated_of_drawn_snippets() -> None:
    """A snippet is shorter than its passage, and has one question."""
    made = {"share": 0.5, "per_passage": 2, "per_snippet": 1}
    queries, questions = (
        cost_of(step, config(make_questions=made, generation={"queries": 1}), setting()).parts[
            "writing queries"
        ]
        for step in ("generate-queries", "generate-questions")
    )
    assert 0.2 * queries < questions < queries


def test_a_generator_is_trained_on_every_question_each_epoch() -> None:
    one, three = (
        cost_of("train-generator", config(generation={"train": {"epochs": epochs}}), setting(1)).parts
        for epochs in (1, 3)
    )
    assert three["forward and backward"] == pytest.approx(3 * one["forward and backward"])
    cut = cost_of("train-generator", config(generation={"train": {"max_steps": 1}}), setting(1)).parts
    assert cut["forward and backward"] < one["forward and backward"] / 100
