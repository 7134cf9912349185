"""The shape of a model, against torch's own counts."""

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModel, BertConfig, BertModel

from multiview.errors import InputError
from multiview.plans.estimate import base_config
from multiview.plans.scenario import ModelShape, Scenario, shape_of
from tests.fixtures.bases import random_base
from tests.fixtures.tiny import tiny_bert


def test_parameters_and_operations_are_those_of_the_model() -> None:
    shape = ModelShape(layers=3, width=96, inner=300, vocabulary=500)
    config = BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=4,
        intermediate_size=shape.inner,
        max_position_embeddings=64,
    )
    bert = BertModel(config, add_pooling_layer=False)
    bert.set_attn_implementation("eager")
    assert shape.parameters == pytest.approx(sum(p.numel() for p in bert.parameters()), rel=0.05)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        bert(input_ids=torch.zeros(4, 50, dtype=torch.long))
    assert counter.get_total_flops() == shape.flops(200, 50)


@pytest.mark.parametrize(
    "kind", ["bert", "distilbert", "modernbert", "nomic_bert", "eurobert", "gte", "qwen3", "gemma3_text"]
)
def test_gated_layers_and_shared_keys_are_counted(kind: str, tmp_path: Path) -> None:
    base = random_base(tmp_path, kind, num_key_value_heads=1)
    model, shape = AutoModel.from_pretrained(base, attn_implementation="eager"), shape_of(str(base))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(
            input_ids=torch.zeros(4, 50, dtype=torch.long), attention_mask=torch.ones(4, 50, dtype=torch.long)
        )
    assert counter.get_total_flops() == pytest.approx(shape.flops(200, 50), rel=0.1)


def test_shapes_are_known_by_name_or_read_from_a_folder(tmp_path: Path) -> None:
    assert shape_of("bert-base") == shape_of("bert-base-uncased")
    assert shape_of(str(tiny_bert(tmp_path / "base"))).layers == 2
    with pytest.raises(InputError, match="model: there is no folder .*gone.*bert-base"):
        shape_of(str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("architecture", "views"),
    [("dpr", 1), ("sentence-transformer", 1), ("camvr", 8), ("sentence", 8), ("meta", 8)],
)
def test_a_passage_has_the_views_of_its_architecture(architecture, views):
    config = base_config("training", {"model": {"architecture": architecture, "views": 8}})
    assert Scenario(100, 9, 9, 9, ModelShape(1, 64, 64), config=config).view_count == 100 * views
