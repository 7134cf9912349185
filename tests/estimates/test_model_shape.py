"""Parameters and operations of an encoder, against torch's own counts."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from multiview.errors import InputError
from multiview.estimates.model_shape import KNOWN, ModelShape, shape_of
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(scope="module")
def model() -> tuple[ModelShape, BertModel]:
    shape = ModelShape(layers=3, width=96, inner=300, vocabulary=500, positions=128)
    config = BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=4,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
    )
    model = BertModel(config, add_pooling_layer=False)
    model.set_attn_implementation("eager")
    return shape, model


def test_parameters_are_those_of_the_model(model: tuple[ModelShape, BertModel]) -> None:
    shape, bert = model
    assert shape.parameters == sum(parameter.numel() for parameter in bert.parameters())
    weights = [module.weight.numel() for module in bert.modules() if isinstance(module, nn.Linear)]
    assert shape.multiplied == sum(weights)


def test_operations_are_those_that_torch_counts(model: tuple[ModelShape, BertModel]) -> None:
    shape, bert = model
    rows, length = 4, 50
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        bert(input_ids=torch.zeros(rows, length, dtype=torch.long))
    assert counter.get_total_flops() == shape.forward_flops(rows * length, length)


def test_shapes_are_known_by_name_or_read_from_a_folder(tmp_path: Path) -> None:
    assert shape_of("bert-base") == shape_of("bert-base-uncased") == KNOWN["bert-base"]
    assert shape_of(str(tiny_bert(tmp_path / "base"))).layers == 2


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model: there is no folder .*gone.*bert-base"):
        shape_of(str(tmp_path / "gone"))
    with pytest.raises(InputError, match="gone; give a folder, a hub name, a URL or package:NAME$"):
        shape_of(str(tmp_path / "gone"), "model.base")
