"""Dropout of hidden states and of attention, in the models that transformers calls by several names."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from multiview.errors import InputError
from multiview.model.dropout import attentions, set_dropout
from tests.fixtures.bases import SIZES

BASES = [
    *(
        "bert",
        "distilbert",
        "roberta",
        "xlm-roberta",
        "mpnet",
        "electra",
        "deberta-v2",
        "albert",
        "modernbert",
    )
]


@pytest.mark.parametrize("kind", BASES)
def test_attention_dropout_is_what_attention_drops(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function that drops is watched: attention weights are [S, heads, L, L], hidden states [S, L, D]."""
    config = AutoConfig.for_model(kind, vocab_size=40, **SIZES)
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
        model(input_ids=(ones := torch.ones(2, 5, dtype=torch.int64)), attention_mask=ones)
        assert dropped == {(True, expected), (False, hidden)}
    assert len(attentions(model)) == (1 if kind == "albert" else 2)


def test_a_base_that_does_not_tell_its_attention_dropout_refuses_another(base: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    assert set_dropout(model, 0.2) and set_dropout(model, 0.2, 0.2)
    with pytest.raises(InputError, match=r"train\.attention_dropout"):
        set_dropout(model, 0.2, 0.0)


def test_a_base_without_dropout_of_hidden_states_says_so() -> None:
    model = AutoModel.from_config(AutoConfig.for_model("qwen3", vocab_size=40, **SIZES))
    assert not set_dropout(model, 0.9, 0.0)
