"""Bases of the kinds that people name, each small and random, through the models that are made from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from multiview.config import Encode, Model
from multiview.encoding.encode import Encoder
from multiview.model.base_model.loading import first_position, load_encoder
from multiview.model.batch import make_batch
from multiview.model.encoder import BiEncoder
from tests.fixtures import training_material

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
KINDS = {
    "bert": SMALL,
    "roberta": SMALL,
    "mpnet": SMALL,
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "distilbert": {"n_layers": 2, "dim": 32, "n_heads": 2, "hidden_dim": 64},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_base_of_each_kind_makes_a_model_that_encodes_as_it_is(
    base: Path, tmp_path: Path, kind: str
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind, vocab_size=len(tokenizer), max_position_embeddings=130, pad_token_id=0, **KINDS[kind]
    )
    AutoModel.from_config(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    settings = Model(base=str(tmp_path / "base"), architecture="camvr", views=4, passage_length=96)
    BiEncoder.create(settings).save(tmp_path / "model")

    model, encoder = BiEncoder.load(tmp_path / "model"), Encoder(tmp_path / "model", Encode(batch_tokens=512))
    sequences = [
        s for i in range(5) for s in model.layout.passage(training_material.passage(i, sentences=1 + i))
    ]
    encoded = encoder.passages((sequence, number) for number, sequence in enumerate(sequences))
    found = {number: vectors for _, number, vectors in encoded}
    assert len(found) == len(sequences)
    for number, sequence in enumerate(sequences):
        with torch.inference_mode():
            (expected,) = model.encode_passages(make_batch([sequence], 0, model.layout.max_views))
        np.testing.assert_allclose(found[number], expected[: len(sequence.views)], rtol=1e-3, atol=1e-4)
    eager = model.with_eager_attention()
    assert eager.passage_attention(make_batch(sequences[:1], 0, model.layout.max_views)).isfinite().all()


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
    types = [torch.float32, torch.bfloat16] * 20
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda dtype: load_encoder(str(base), dtype), types))
    assert (torch.get_default_dtype(), nn.init.normal_, nn.init.ones_) == before
    assert [{weight.dtype for weight in each.parameters()} for each in loaded] == [{dtype} for dtype in types]
