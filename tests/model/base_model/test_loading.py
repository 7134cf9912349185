"""Where a base's positions begin, texts that its tokenizer does not know, and bases that are loaded at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, normalizers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from multiview.model.base_model.loading import first_position, load_encoder, load_tokenizer, unknown_text

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
SHIFTED = [
    "camembert", "data2vec-text", "esm", "ibert", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
]  # fmt: skip
OTHERS = {"attention_window": 8, "default_language": "en_XX", "entity_vocab_size": 8, "hidden_size": 48}
"""What some of these models need; 48 is the width of six boxes in LiLT."""


@pytest.mark.parametrize(
    ("kind", "first"), [*((kind, 2) for kind in SHIFTED), ("bert", 0), ("distilbert", 0)]
)
def test_the_first_position_is_that_of_the_model_s_own_positions(kind: str, first: int) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind, vocab_size=30, pad_token_id=1, max_position_embeddings=64, **(SMALL | OTHERS)
    )
    model = AutoModel.from_config(config).eval()
    positions = first_position(model) + torch.arange(20)[None]
    with torch.inference_mode():
        own = model(input_ids=torch.arange(5, 25)[None]).last_hidden_state
        ours = model(input_ids=torch.arange(5, 25)[None], position_ids=positions).last_hidden_state
    torch.testing.assert_close(ours, own)
    assert first_position(model) == first
    assert first_position(AutoModelForSequenceClassification.from_config(config)) == first


def test_threads_that_load_at_once_get_what_each_asked_for_and_leave_torch_as_it_was(base: Path) -> None:
    """transformers sets torch's default type and its initialisation for the whole process while it loads."""
    before = (torch.get_default_dtype(), nn.init.normal_, nn.init.ones_)
    types = [torch.float32, torch.bfloat16] * 8
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda dtype: load_encoder(base, dtype), types))
    assert (torch.get_default_dtype(), nn.init.normal_, nn.init.ones_) == before
    assert [{weight.dtype for weight in each.parameters()} for each in loaded] == [{dtype} for dtype in types]


def test_a_tokenizer_that_gives_texts_no_token_is_said(base: Path) -> None:
    tokenizer = load_tokenizer(base)
    assert not unknown_text(tokenizer, "base", ["the town"])
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(Regex("."), "")
    assert "has no tokens for 100% of the first passages" in unknown_text(tokenizer, "base", ["the town"])
