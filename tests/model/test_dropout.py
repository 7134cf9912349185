"""Dropout of hidden states and of attention, in the models that transformers calls by several names."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from multiview.errors import InputError
from multiview.model.dropout import attentions, set_dropout
from multiview.model.encoder import BiEncoder
from tests.fixtures.encoded import encode, settings

SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "pad_token_id": 0,
}
SMALL_DISTILBERT = {
    "vocab_size": 40,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 16,
    "pad_token_id": 0,
}
BASES = [
    "bert",
    "distilbert",
    "roberta",
    "xlm-roberta",
    "mpnet",
    "electra",
    "deberta-v2",
    "albert",
    "modernbert",
]


def test_dropout_is_set_everywhere(base: Path) -> None:
    model = BiEncoder.create(settings(base))
    set_dropout(model, 0.0)
    model.train()
    first, again = encode(model), encode(model)
    assert torch.equal(first[1], again[1])
    for hidden, attention in ((0.3, None), (0.3, 0.0), (0.0, 0.3)):
        set_dropout(model, hidden, attention)
        assert not torch.equal(encode(model)[1], again[1])


@pytest.mark.parametrize("kind", BASES)
def test_attention_dropout_is_what_attention_drops(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function that drops is watched: attention weights are [S, heads, L, L], hidden states [S, L, D]."""
    config = AutoConfig.for_model(kind, **(SMALL_DISTILBERT if kind == "distilbert" else SMALL))
    model = AutoModel.from_config(config, attn_implementation="eager").train()
    dropped: set[tuple[bool, float]] = set()
    plain = nn.functional.dropout

    def watched(
        values: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if training and values.dim() > 2:
            dropped.add((values.dim() == 4, p))
        return plain(values, p, training, inplace)

    monkeypatch.setattr(nn.functional, "dropout", watched)
    for hidden, attention, expected in ((0.3, 0.1, 0.1), (0.3, None, 0.3), (0.0, 0.2, 0.2), (0.2, 0.0, 0.0)):
        dropped.clear()
        set_dropout(model, hidden, attention)
        model(
            input_ids=torch.ones(2, 5, dtype=torch.int64), attention_mask=torch.ones(2, 5, dtype=torch.int64)
        )
        assert dropped == {(True, expected), (False, hidden)}
    assert len(attentions(model)) == (1 if kind == "albert" else 2)


def test_a_base_that_does_not_tell_its_attention_dropout_refuses_another(base: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    assert set_dropout(model, 0.2) and set_dropout(model, 0.2, 0.2)
    with pytest.raises(InputError, match=r"train\.attention_dropout"):
        set_dropout(model, 0.2, 0.0)


def test_a_base_without_dropout_of_hidden_states_says_so() -> None:
    model = AutoModel.from_config(AutoConfig.for_model("qwen3", **SMALL, num_key_value_heads=2, head_dim=16))
    assert not set_dropout(model, 0.9, 0.0)
